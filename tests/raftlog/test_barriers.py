from __future__ import annotations

from typing import Any

import pytest
from raftlog_bench import Bench

from raftlog.barriers import QUESTIONS_IN_FLIGHT_MAX, BarrierPassed, LeaderBarriers, LocalBarriers
from raftlog.config import RaftConfig
from raftlog.core import Core
from raftlog.errors import LogOverloaded
from raftlog.interface import Role

CONFIG = RaftConfig()
ROUTE = ("n2", 1, 1)


def asked(local: LocalBarriers, now: float, route: tuple[str, int, int] = ROUTE) -> int:
    round_number = local.take_round(now, route)
    assert round_number is not None
    return round_number


def test_barriers_of_a_step_share_a_round() -> None:
    local = LocalBarriers(CONFIG, incarnation=1)
    local.add(1)
    local.add(2)
    first = asked(local, 10.0)
    assert local.take_round(10.0, ROUTE) is None
    local.answer(first, 7)
    assert local.take_passed(6) == []
    assert local.take_passed(7) == [BarrierPassed(1, 7), BarrierPassed(2, 7)]
    assert local.take_passed(7) == []


def test_an_answer_holds_for_earlier_rounds_and_not_for_later_ones() -> None:
    local = LocalBarriers(CONFIG, incarnation=1)
    local.add(1)
    asked(local, 10.0)
    local.add(2)
    second = asked(local, 10.0)
    local.add(3)
    asked(local, 10.0)
    local.answer(second, 5)
    assert [passed.barrier_id for passed in local.take_passed(9)] == [1, 2]


def test_a_round_is_asked_again_when_overdue_or_on_a_new_route() -> None:
    local = LocalBarriers(CONFIG, incarnation=1)
    local.add(1)
    first = asked(local, 10.0)
    assert local.next_deadline() == 10.0 + CONFIG.retry_s
    assert local.take_round(10.0 + CONFIG.retry_s - 0.01, ROUTE) is None
    assert asked(local, 10.0 + CONFIG.retry_s) == first
    assert asked(local, 10.8, ("n3", 2, 1)) == first
    local.answer(first, 3)
    assert local.next_deadline() == float("inf")


def test_an_answer_to_an_earlier_life_passes_nothing() -> None:
    """It was confirmed before this node's question was asked."""
    former = LocalBarriers(CONFIG, incarnation=1)
    rounds = []
    for barrier_id in range(100):
        former.add(barrier_id)
        rounds.append(asked(former, 10.0))
    local = LocalBarriers(CONFIG, incarnation=2)
    local.add(1)
    asked(local, 10.0)
    for late in rounds:
        local.answer(late, 3)
    assert local.take_passed(9) == []


def test_pending_barriers_are_bounded() -> None:
    local = LocalBarriers(CONFIG, incarnation=1)
    for barrier_id in range(CONFIG.barriers_pending_max):
        local.add(barrier_id)
    with pytest.raises(LogOverloaded):
        local.add(-1)


def test_a_leader_answers_in_order_what_is_echoed() -> None:
    leader = LeaderBarriers()
    leader.ask("n1", 1)
    leader.number(read_index=10, append_seq=5)
    leader.ask("n2", 7)
    leader.ask("n2", 8)
    leader.number(read_index=12, append_seq=6)
    assert leader.wanted_seq() == 6
    answered = leader.take_confirmed(lambda seq: seq <= 5)
    assert [(question.origin, question.round_number, question.read_index) for question in answered] == [("n1", 1, 10)]
    answered = leader.take_confirmed(lambda seq: True)
    assert [(question.origin, question.round_number, question.read_index) for question in answered] == [("n2", 8, 12)]
    assert leader.wanted_seq() == 0


def test_a_leaders_questions_are_bounded() -> None:
    leader = LeaderBarriers()
    for number in range(QUESTIONS_IN_FLIGHT_MAX + 50):
        leader.ask("n2", number)
        leader.number(read_index=1, append_seq=number)
    confirmed = leader.take_confirmed(lambda seq: True)
    assert len(confirmed) == QUESTIONS_IN_FLIGHT_MAX
    leader.number(read_index=1, append_seq=9999)
    assert [question.round_number for question in leader.take_confirmed(lambda seq: True)] == [
        QUESTIONS_IN_FLIGHT_MAX + 49
    ]


def test_a_leader_forgets_its_questions() -> None:
    leader = LeaderBarriers()
    leader.ask("n2", 1)
    leader.number(read_index=1, append_seq=1)
    leader.ask("n3", 1)
    leader.forget()
    leader.number(read_index=1, append_seq=1)
    assert leader.take_confirmed(lambda seq: True) == []


# On the bench.


def test_a_barrier_is_confirmed_by_an_answer_to_what_was_sent_after_it(bench: Bench, guard: Any) -> None:
    """n1 is deposed and does not know; answers to its earlier messages prove nothing about now."""
    guard.remove(Core, "is_echoed", lambda self, seq: True)
    bench.elect("n1")
    bench.now += 0.2
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    bench.disconnect("n1", "n3")
    late_answers = bench.links["n2", "n1"]
    assert late_answers
    bench.nodes["n1"].barrier(1)
    with guard.verdict():
        bench.step("n1")
        bench.deliver("n2", "n1", 1)
        bench.step("n1")
        assert bench.barriers["n1"] == []
    bench.settle()
    assert [barrier.barrier_id for barrier in bench.barriers["n1"]] == [1]


def test_a_new_leader_passes_no_barrier_before_its_first_entry(bench: Bench, guard: Any) -> None:
    """n2 becomes leader with entry 3 in its log but not known to be committed, which n1 had acknowledged: its commit
    index is behind what was acknowledged until its own entry is committed."""
    guard.remove(Core, "has_applied_own_term", lambda self: self.is_leader())
    bench.elect("n1")
    bench.propose("n1", 1)
    bench.step("n1")
    for name in ("n2", "n3"):
        bench.deliver("n1", name)
        bench.step(name)
        bench.deliver(name, "n1")
    bench.step("n1")
    assert [result.seq for result in bench.results["n1"]] == [1]
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    bench.stand("n2")
    bench.step("n2")
    bench.deliver("n2", "n3")
    bench.step("n3")
    bench.deliver("n3", "n2")
    bench.nodes["n2"].barrier(1)
    status = bench.step("n2").status
    assert (status.role, status.commit_index) == (Role.LEADER, 2)
    with guard.verdict():
        bench.settle()
        ((_, read_index),) = bench.barriers["n2"]
        assert read_index >= 3


def test_a_follower_passes_a_barrier_when_it_has_applied_so_far(bench: Bench) -> None:
    bench.elect("n1")
    for seq in range(1, 4):
        bench.propose("n1", seq)
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    assert bench.nodes["n1"].status.applied_index == 5
    bench.links["n1", "n2"].clear()  # n2 lacks the entries, and what tells it of them
    bench.nodes["n2"].barrier(9)
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    answers_before = [message for message in bench.links["n1", "n2"] if message["type"] == "barrier_result"]
    assert answers_before == []
    bench.run(1.0)
    assert bench.barriers["n2"] == [BarrierPassed(9, 5)]


def test_a_barrier_without_a_majority_waits_for_one(bench: Bench) -> None:
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    bench.nodes["n1"].barrier(1)
    bench.nodes["n1"].barrier(2)
    bench.run(3.0)
    assert bench.barriers["n1"] == []
    bench.connect_all()
    bench.run(3.0)
    assert [barrier.barrier_id for barrier in bench.barriers["n1"]] == [1, 2]


def test_a_barrier_survives_a_change_of_leader(bench: Bench) -> None:
    bench.elect("n1")
    bench.nodes["n3"].barrier(1)
    bench.step("n3")
    bench.crash("n1")
    bench.run(3.0)
    assert [barrier.barrier_id for barrier in bench.barriers["n3"]] == [1]
