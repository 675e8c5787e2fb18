"""Trap 14: how a leader finds out what a follower lacks. One round trip, however much it is and however it differs."""

from __future__ import annotations

from typing import Any

import pytest
from raftlog_bench import Bench

from raftlog import core
from raftlog.config import RaftConfig
from raftlog.core import Core

ENTRIES = 200


def stock_answer(self: Core, node: Any, reset: bool = False, **stock: Any) -> None:
    """The library's guess: one entry back, or up to its own end."""
    next_index = stock.get("nextNodeIdx") or self._journal.last_index + 1
    answer = core.Answer(self.term(), self._answering_seq, next_index, reset, stock.get("success", False))
    self._answers.add(node.id, answer)


def write_alone(bench: Bench, name: str, count: int) -> None:
    """Entries that only this leader has, and that nobody waits for."""
    for seq in range(1, count + 1):
        bench.propose(name, seq)
        bench.step(name)
        bench.nodes[name].cancel(incarnation=1, seq=seq)


def missing(bench: Bench) -> None:
    """n1 lacks what n2 and n3 have committed; n3, which leads since, does not know how much."""
    bench.elect("n2")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    for seq in range(1, ENTRIES + 1):
        bench.propose("n2", seq)
        bench.settle()
    bench.elect("n3")


def diverged(bench: Bench) -> None:
    """n1 has as many entries of term 1 that nobody else has, where n2 and n3 have those of term 2; n3 leads term 3."""
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    write_alone(bench, "n1", ENTRIES)
    bench.elect("n2")
    for seq in range(1, ENTRIES + 1):
        bench.propose("n2", seq)
        bench.settle()
    bench.elect("n3")


def longer(bench: Bench) -> None:
    """n1 has many entries of term 1 that nobody else has, n2 and n3 only a few of term 2; n3 leads term 3."""
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    write_alone(bench, "n1", ENTRIES)
    bench.elect("n2")
    bench.elect("n3")


def uncommitted(bench: Bench) -> None:
    """n1 has acknowledged what it does not know to be committed, and lacks the rest; n3 leads since."""
    bench.elect("n2")
    write_alone(bench, "n2", ENTRIES)
    bench.deliver("n2", "n1", ENTRIES // 2)
    bench.step("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    bench.settle()
    bench.elect("n3")
    assert bench.nodes["n1"].status.commit_index < 5


def is_level_after_one_rejection(bench: Bench) -> None:
    """n1 is back: an append, its rejection, and all that it lacks."""
    bench.connect("n1", "n3")
    bench.now += 0.2
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    rejection, *others = bench.deliver("n1", "n3")
    assert (rejection["reset"], others) == (True, [])
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    assert bench.log("n1") == bench.log("n3")
    assert all(answer["success"] for answer in bench.deliver("n1", "n3"))


def test_trap_14_one_round_trip_finds_what_a_follower_has_otherwise(bench: Bench, guard: Any) -> None:
    guard.remove(Core, "_SyncObj__sendNextNodeIdx", stock_answer)
    diverged(bench)
    with guard.verdict():
        is_level_after_one_rejection(bench)


@pytest.mark.parametrize("prepare", [missing, longer, uncommitted])
def test_trap_14_one_round_trip_finds_what_a_follower_lacks(bench: Bench, prepare: Any) -> None:
    """(Here the library's own guess would do as well.)"""
    prepare(bench)
    is_level_after_one_rejection(bench)


def test_trap_14_many_appends_under_way_are_rejected_and_one_round_trip_suffices(bench: Bench) -> None:
    """A leader under load sends on before it hears of the first rejection: it acts on the first alone (trap 2)."""
    diverged(bench)
    bench.connect("n1", "n3")
    bench.now += 0.2
    for seq in range(ENTRIES, ENTRIES + 10):
        bench.propose("n3", seq)
        bench.step("n3")
    while bench.links["n3", "n1"]:
        bench.deliver("n3", "n1", 1)
        bench.step("n1")
    assert sum(message["reset"] for message in bench.links["n1", "n3"]) >= 10
    while bench.links["n1", "n3"]:
        bench.deliver("n1", "n3", 1)
        bench.step("n3")
    sent = [entry[1] for message in bench.links["n3", "n1"] for entry in message["entries"]]
    assert sent == sorted(set(sent)), "nothing is sent twice"
    bench.deliver("n3", "n1")
    bench.step("n1")
    assert bench.log("n1") == bench.log("n3")


def test_trap_14_what_is_more_than_a_window_comes_without_further_rejections(tmp_path: Any) -> None:
    config = RaftConfig(append_batch_bytes=257 * 1024, in_flight_bytes_max=300 * 1024)
    bench = Bench(tmp_path, config=config)
    bench.connect_all()
    bench.elect("n2")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    for seq in range(1, 31):
        bench.propose("n2", seq, bytes(100 * 1024))
        bench.settle()
    bench.elect("n3")
    bench.connect("n1", "n3")
    bench.now += 0.2
    rejections = 0
    for _ in range(20):
        bench.step("n3")
        bench.deliver("n3", "n1")
        bench.step("n1")
        rejections += sum(message.get("reset", False) for message in bench.deliver("n1", "n3"))
    assert rejections == 1
    assert bench.log("n1") == bench.log("n3")
    bench.close()
