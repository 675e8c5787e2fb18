"""Who stands, who is voted for, and who is left in peace: pre-votes and stickiness, with each and without it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from raftlog_bench import Bench, must_raise

from raftlog.config import RaftConfig
from raftlog.elections import Elections
from raftlog.errors import MessageRefused
from raftlog.interface import Role
from raftlog.pre_votes import PreVotes

Link = tuple[str, str]


def run_with_cuts(bench: Bench, cuts: Iterable[Link], seconds: float, *, pace: float = 0.05) -> set[tuple[str, int]]:
    """The clock goes on while what is sent on the links `cuts` gets lost. Returns who led, and in which term."""
    leaders: set[tuple[str, int]] = set()
    end = bench.now + seconds
    while bench.now < end:
        bench.now += pace
        for _ in range(3):
            for name in sorted(bench.nodes):
                for source in bench.members:
                    if (source, name) in cuts:
                        bench.links[source, name].clear()
                    else:
                        bench.deliver(source, name)
                status = bench.step(name).status
                if status.role is Role.LEADER:
                    leaders.add((name, status.term))
    return leaders


def leaders_of(bench: Bench) -> list[str]:
    return [name for name, node in bench.nodes.items() if node.status.role is Role.LEADER]


def terms_of(bench: Bench) -> set[int]:
    return {node.status.term for node in bench.nodes.values()}


def without_pre_votes(core: Elections) -> bool:
    core._outbox.by_transfer = core._told_to_stand
    return core._may_stand()


def remove_pre_votes(guard: Any) -> None:
    guard.remove(Elections, "_SyncObj__connectedToAnyone", without_pre_votes)


def remove_stickiness(guard: Any) -> None:
    guard.remove(Elections, "_serves_a_leader", lambda self: False)


# Pre-votes.


@pytest.mark.parametrize("hears", [(), ("n3",)], ids=["nobody", "all but the leader"])
@pytest.mark.slow
def test_trap_15_a_half_deaf_follower_elects_no_leaders(bench: Bench, guard: Any, hears: tuple[str, ...]) -> None:
    """n2 is heard but does not hear: without guards it stands again and again, and each time it deposes somebody."""
    remove_pre_votes(guard)
    remove_stickiness(guard)
    bench.elect("n1")
    cuts = {(source, "n2") for source in ("n1", "n3") if source not in hears}
    leaders = run_with_cuts(bench, cuts, 120.0, pace=0.1)
    with guard.verdict():
        assert leaders == {("n1", 1)}, f"{len(leaders)} leaders"


def test_a_node_that_was_cut_off_does_not_depose_the_leader_when_it_is_back(bench: Bench, guard: Any) -> None:
    """Its connections last, so it has somebody to ask, but nothing comes through: its term must be what it was."""
    remove_pre_votes(guard)
    bench.elect("n1")
    cuts = {(source, "n2") for source in ("n1", "n3")} | {("n2", target) for target in ("n1", "n3")}
    run_with_cuts(bench, cuts, 10.0)
    with guard.verdict():
        assert terms_of(bench) == {1}
        run_with_cuts(bench, (), 2.0)
        assert leaders_of(bench) == ["n1"]
        assert terms_of(bench) == {1}


def test_asking_raises_no_term_and_writes_nothing(bench: Bench) -> None:
    bench.lose_patience("n1")
    ready = bench.step("n1")
    assert [(peer, message["type"]) for peer, message in ready.immediate] == [("n2", "pre_vote"), ("n3", "pre_vote")]
    assert not ready.held
    assert (ready.status.role, ready.status.term) == (Role.FOLLOWER, 0)
    bench.deliver("n1", "n2")
    assert bench.step("n2").status.term == 0
    bench.deliver("n2", "n1")
    ready = bench.step("n1")
    assert (ready.status.role, ready.status.term) == (Role.CANDIDATE, 1)
    assert [(message["type"], message["transfer"]) for _, message in ready.held] == [("request_vote", False)] * 2


def answer_to_pre_vote(bench: Bench, asking: str, asked: str) -> Any:
    bench.lose_patience(asking)
    bench.step(asking)
    bench.deliver(asking, asked)
    *_, answer = [message for _, message in bench.step(asked).immediate if message["type"] == "pre_vote_answer"]
    return answer


def test_nobody_grants_who_hears_a_leader(bench: Bench, guard: Any) -> None:
    remove_stickiness(guard)
    bench.elect("n1")
    bench.now += bench.config.election_min_s - 0.01
    bench.settle()  # the leader is heard
    bench.now += bench.config.election_min_s - 0.01
    with guard.verdict():
        assert not answer_to_pre_vote(bench, "n2", "n3")["granted"]
        assert not answer_to_pre_vote(bench, "n2", "n1")["granted"], "nor does the leader itself"
    bench.links["n2", "n3"].clear()
    bench.now += 0.02
    assert answer_to_pre_vote(bench, "n2", "n3")["granted"]


def test_nobody_grants_whose_log_is_newer(bench: Bench, guard: Any) -> None:
    guard.remove(Elections, "_last_entry", lambda self: (0, 0))
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n2", "n3")
    bench.propose("n1", 1)
    bench.settle()
    bench.crash("n1")
    bench.connect("n2", "n3")
    bench.now += bench.config.election_max_s
    with guard.verdict():
        assert not answer_to_pre_vote(bench, "n2", "n3")["granted"]
        assert answer_to_pre_vote(bench, "n3", "n2")["granted"]


def test_a_refusal_tells_the_term_without_which_nobody_could_be_elected(bench: Bench, guard: Any) -> None:
    """n2 is terms ahead, but its log is older; n3, which could lead, would stand in a term that is over for n2."""
    guard.remove(Elections, "_step_down", lambda self, term: None)
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n2", "n3")
    bench.propose("n1", 1)
    bench.settle()
    bench.crash("n1")
    with bench.nodes["n2"]._seams:
        bench.nodes["n2"]._core._SyncObj__setCurrentTerm(7, None)
    bench.connect("n2", "n3")
    with guard.verdict():
        bench.run(3.0)
        assert leaders_of(bench) == ["n3"]
        assert terms_of(bench) == {8}


def test_a_grant_is_for_one_round() -> None:
    pre_votes = PreVotes(majority=3, round_s=1.0)
    first = pre_votes.round_to_ask_in(10.0)
    pre_votes.grant("n2", first, 10.1)
    pre_votes.grant("n2", first, 10.2)
    assert not pre_votes.is_won(), "a voter counts once"
    assert pre_votes.round_to_ask_in(10.9) == first, "a refusal may be a grant a little later"
    second = pre_votes.round_to_ask_in(11.0)
    pre_votes.grant("n3", first, 11.1)
    assert second != first
    assert not pre_votes.is_won(), "what was granted long ago says nothing"
    pre_votes.grant("n2", second, 11.2)
    pre_votes.grant("n3", second, 11.3)
    assert pre_votes.is_won()
    pre_votes.forget()
    pre_votes.grant("n2", second, 11.4)
    pre_votes.grant("n3", second, 11.4)
    assert not pre_votes.is_won()


def test_a_leader_that_is_heard_ends_the_asking(bench: Bench, guard: Any) -> None:
    """n2 has just won its round when n1 is heard again: the next time it must ask anew, not use up an old victory."""
    guard.remove(PreVotes, "forget", lambda self: None)
    bench.elect("n1")
    bench.now += bench.config.election_max_s
    assert answer_to_pre_vote(bench, "n2", "n3")["granted"]
    bench.step("n1")
    bench.deliver("n3", "n2")
    bench.deliver("n1", "n2")
    assert bench.step("n2").status.leader == "n1"
    bench.lose_patience("n2")
    with guard.verdict():
        assert bench.step("n2").status.role is Role.FOLLOWER


# Stickiness.


def vote_request(term: int, *, transfer: bool = False) -> dict[str, Any]:
    return {"type": "request_vote", "term": term, "last_log_index": 99, "last_log_term": 9, "transfer": transfer}


@pytest.mark.parametrize("asked", ["n1", "n3"], ids=["the leader", "a follower"])
def test_a_leader_that_serves_is_not_deposed_by_a_vote(bench: Bench, guard: Any, asked: str) -> None:
    remove_stickiness(guard)
    bench.elect("n1")
    bench.now += bench.config.election_min_s / 2
    with guard.verdict():
        bench.nodes[asked].receive("n2", vote_request(5), connection=bench.connections["n2", asked])
        ready = bench.step(asked)
        assert ready.status.term == 1
        assert not ready.held


def test_a_leader_that_was_not_heard_may_be_deposed(bench: Bench) -> None:
    bench.elect("n1")
    bench.now += bench.config.election_min_s + 0.01
    bench.nodes["n3"].receive("n2", vote_request(5), connection=bench.connections["n2", "n3"])
    ready = bench.step("n3")
    assert ready.status.term == 5
    assert [message["type"] for _, message in ready.held] == ["response_vote"]


def test_trap_5_a_node_terms_ahead_does_not_hold_on_to_a_former_leader(bench: Bench, guard: Any) -> None:
    """n3 heard the leader of term 1 a moment ago and has term 7 since: it must vote, since n1 cannot lead it."""
    guard.remove(Elections, "_serves_a_leader", heard_any_leader_lately)
    bench.elect("n1")
    with bench.nodes["n3"]._seams:
        bench.nodes["n3"]._core._step_down(7)
    with guard.verdict():
        bench.nodes["n3"].receive("n2", vote_request(8), connection=bench.connections["n2", "n3"])
        assert [message["type"] for _, message in bench.step("n3").held] == ["response_vote"]


def heard_any_leader_lately(core: Elections) -> bool:
    return core.is_leader() or core._heard_leader_at > core._clock() - core._config.election_min_s


@pytest.mark.parametrize(
    "message",
    [
        {"type": "request_vote", "term": 1, "last_log_index": 1, "last_log_term": 1},
        vote_request(1) | {"transfer": 1},
        {"type": "pre_vote", "term": 1, "round": 1, "last_log_index": 1},
        {"type": "pre_vote", "term": 1, "round": -1, "last_log_index": 1, "last_log_term": 1},
        {"type": "pre_vote_answer", "term": 1, "round": 1},
        {"type": "pre_vote_answer", "term": 1, "round": 1, "granted": 1},
        {"type": "timeout_now"},
        {"type": "timeout_now", "term": True},
    ],
)
def test_malformed_messages_are_refused(bench: Bench, message: dict[str, Any]) -> None:
    with must_raise(MessageRefused):
        bench.nodes["n1"].receive("n2", message, connection=bench.connections["n2", "n1"])
    assert bench.step("n1").status.term == 0


# Failures of one direction.

ELECTED_S = 2 * RaftConfig().election_max_s + RaftConfig().leader_fallback_s
"""A new leader is there by then, whichever way the old one was cut off."""


@pytest.mark.parametrize("size", [3, 5])
def test_a_leader_that_cannot_hear_is_followed_by_another(request: pytest.FixtureRequest, size: int) -> None:
    bench: Bench = request.getfixturevalue("bench" if size == 3 else "bench_of_five")
    bench.elect("n1")
    cuts = {(source, "n1") for source in bench.members}
    run_with_cuts(bench, cuts, bench.config.leader_fallback_s + 0.1)
    assert bench.nodes["n1"].status.role is not Role.LEADER
    run_with_cuts(bench, cuts, ELECTED_S - bench.config.leader_fallback_s)
    assert len(leaders_of(bench)) == 1
    assert leaders_of(bench) != ["n1"]


@pytest.mark.parametrize("size", [3, 5])
def test_a_leader_that_cannot_be_heard_is_followed_by_another(request: pytest.FixtureRequest, size: int) -> None:
    """It still hears the others, so their new leader is the first to tell it."""
    bench: Bench = request.getfixturevalue("bench" if size == 3 else "bench_of_five")
    bench.elect("n1")
    run_with_cuts(bench, {("n1", target) for target in bench.members}, ELECTED_S - 0.5)
    (leader,) = leaders_of(bench)
    assert leader != "n1"
    assert bench.nodes["n1"].status.leader == leader
    bench.propose("n1", 1)
    run_with_cuts(bench, (), 1.0)
    assert leaders_of(bench) == [leader], "it is not deposed when the cut is over"
    assert [result.seq for result in bench.results["n1"]] == [1]


def test_a_leader_that_only_a_minority_hears_is_followed_by_another(bench_of_five: Bench) -> None:
    """n2 hears n1 and sticks to it; the three that do not are enough."""
    bench = bench_of_five
    bench.elect("n1")
    run_with_cuts(bench, {("n1", target) for target in ("n3", "n4", "n5")}, ELECTED_S)
    (leader,) = leaders_of(bench)
    assert leader in ("n3", "n4", "n5")
    assert bench.nodes["n1"].status.leader == leader


def test_a_leader_that_a_minority_does_not_hear_stays(bench_of_five: Bench) -> None:
    bench = bench_of_five
    bench.elect("n1")
    leaders = run_with_cuts(bench, {("n1", target) for target in ("n4", "n5")}, 10.0)
    assert leaders == {("n1", 1)}


def test_two_nodes_that_can_only_speak_one_way_have_no_leader_and_recover(tmp_path: Any) -> None:
    bench = Bench(tmp_path, 2)
    bench.connect_all()
    bench.elect("n1")
    run_with_cuts(bench, {("n1", "n2")}, bench.config.leader_fallback_s + 2.0)
    assert leaders_of(bench) == []
    run_with_cuts(bench, (), ELECTED_S)
    assert len(leaders_of(bench)) == 1
    bench.close()
