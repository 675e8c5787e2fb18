"""Copies of the state for followers that lack what was trimmed: the usual way, and what happens around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger import LedgerApplier
from raftlog_bench import Bench, must_raise
from raftlog_left_behind import (
    CONFIG,
    ENTRIES,
    all_equal,
    chunks_under_way,
    connect,
    cut_off,
    installed,
    left_behind,
    small_log_bench,
    step_round,
    until_chunks_flow,
    until_installed,
    write,
)

from raftlog import guards
from raftlog.errors import LogRefused, MessageRefused
from raftlog.interface import Role
from raftlog.node import RaftNode
from raftlog.snapshot_sending import SnapshotSender


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three connected nodes that keep ten entries and send copies in tiny chunks."""
    made = small_log_bench(tmp_path)
    yield made
    made.close()


def test_a_follower_behind_the_trimmed_log_gets_the_state(bench: Bench) -> None:
    left_behind(bench)
    term = bench.nodes["n1"].status.term
    until_installed(bench)
    assert bench.nodes["n3"].status.first_index > 50
    assert all_equal(bench)
    assert bench.nodes["n1"].status.term == term, "heartbeats went on"
    assert [bench.nodes[name].status.snapshots_sent for name in ("n1", "n2", "n3")] == [1, 0, 0]
    assert installed(bench) == 1
    write(bench, "n1", 1000, 3)
    assert all_equal(bench)


def test_an_installed_copy_is_told_at_once(bench: Bench) -> None:
    """Its entries were never applied here, so their events were never told."""
    left_behind(bench)
    told = []
    for _ in range(200):
        bench.now += 0.05
        for source in bench.members:
            bench.deliver(source, "n3")
        ready = bench.step("n3")
        told += [ready.status.snapshots_received] if ready.status_changed else []
        for name in ("n1", "n2"):
            for source in bench.members:
                bench.deliver(source, name)
            bench.step(name)
    assert told[-1] == 1


def test_heartbeats_go_on_beside_the_chunks(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    for _ in range(5):
        bench.now += 0.11
        bench.step("n1")
        kinds = [message["type"] for message in bench.links["n1", "n3"]]
        assert "append_entries" in kinds
        step_round(bench)


def test_a_chunk_is_acknowledged_when_it_is_on_the_disk(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    bench.deliver("n1", "n3")
    ready = bench.nodes["n3"].step()
    answers = [message for _, message in ready.held if message["type"] == "snapshot_answer"]
    assert len(answers) == 1, "merged"
    assert not [message for _, message in ready.immediate if message["type"] == "snapshot_answer"]
    bench.nodes["n3"].commit()
    assert bench.nodes["n3"]._core._snapshots_in._receiving is not None
    assert answers[0]["chunk"] == bench.nodes["n3"]._core._snapshots_in._receiving.chunk


def test_no_more_chunks_are_in_flight_than_may_be(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    for _ in range(5):
        bench.now += 0.11
        bench.step("n1")
    assert len(chunks_under_way(bench)) <= CONFIG.snapshot_chunks_in_flight_max


def test_two_followers_share_one_copy(tmp_path: Path) -> None:
    bench = small_log_bench(tmp_path, 5)
    bench.elect("n1")
    for name in ("n4", "n5"):
        cut_off(bench, name)
    write(bench, "n1", 1, ENTRIES)
    connect(bench, "n4")
    until_chunks_flow(bench, 10, "n4")
    connect(bench, "n5")
    until_installed(bench, "n5")
    until_installed(bench, "n4")
    assert bench.nodes["n1"]._core.snapshots_out._copies == 1
    assert all_equal(bench)
    assert bench.nodes["n1"]._core.snapshots_out._copy is None, "closed when nobody needs it"
    bench.close()


def test_a_restart_behind_a_copy_goes_on_from_it(bench: Bench) -> None:
    """The log begins at its entry, of which only the term is known: enough to compare, to vote and to lead."""
    left_behind(bench)
    until_installed(bench)
    bench.crash("n3")
    bench.start("n3")
    assert bench.log("n3")[0][1] == 1
    connect(bench, "n3")
    bench.run(0.5)
    assert bench.nodes["n3"].status.snapshots_received == 0
    assert all_equal(bench)
    bench.elect("n3")
    write(bench, "n3", 1, 5)
    assert all_equal(bench)


def test_a_state_behind_its_log_is_refused(bench: Bench) -> None:
    """What lies between them is nowhere: such a disk was put together by hand."""
    left_behind(bench)
    until_installed(bench)
    bench.crash("n3")
    applier = bench.make_applier
    bench.make_applier = lambda disk: _Stale(disk.environment)
    with pytest.raises(LogRefused, match="its log begins at"):
        bench.start("n3")
    bench.make_applier = applier
    bench.disks.pop("n3").close()


class _Stale(LedgerApplier):
    def applied_index(self, transaction: Any) -> int:
        return 1


def test_proposals_and_barriers_under_way_are_answered_behind_a_copy(bench: Bench) -> None:
    """n3 proposed before it was cut off; whether it was applied is in the copy, and a repeat finds the same answer."""
    bench.elect("n1")
    bench.propose("n3", 1, b"before the cut")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    cut_off(bench, "n3")
    write(bench, "n1", 1, ENTRIES)
    assert bench.results["n3"] == []
    bench.nodes["n3"].barrier(7)
    bench.propose("n3", 2, b"while cut off")
    connect(bench, "n3")
    until_installed(bench)
    bench.run(2.0)
    assert [(result.seq, result.replies) for result in bench.results["n3"]] == [(1, [b"1"]), (2, [b"62"])]
    assert [barrier.barrier_id for barrier in bench.barriers["n3"]] == [7]
    assert all_equal(bench)


def test_S5_an_empty_store_votes_once_its_copy_and_the_log_behind_it_reach_far_enough(bench: Bench) -> None:
    left_behind(bench)
    bench.crash("n3")
    for file in (bench.root / "n3").iterdir():
        file.unlink()
    bench.start("n3", bootstrap=False)
    connect(bench, "n3")
    until_chunks_flow(bench, 5)
    assert not bench.nodes["n3"]._core._joining.has_joined()
    until_installed(bench)
    bench.run(0.5)
    assert bench.nodes["n3"]._core._joining.has_joined()


def test_a_leader_does_not_hand_over_to_a_follower_that_gets_a_copy(bench: Bench, guard: Any) -> None:
    """It would append nothing until the follower has everything, or the time is over."""
    guard.remove(guards, "may_succeed", lambda next_index, last_index: True)
    left_behind(bench)
    until_chunks_flow(bench)
    node = bench.nodes["n1"]
    with guard.verdict():
        node.transfer("n3")
        assert not node._core.is_handing_over()
        node.transfer()
        assert node._core._handover.target == "n2"


def test_chunks_wait_for_the_next_step_when_reading_takes_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    sender: SnapshotSender = bench.nodes["n1"]._core.snapshots_out
    assert sender._copy is not None
    read = sender._copy.chunk

    def slow(number: int) -> Any:
        bench.now += 0.02
        return read(number)

    monkeypatch.setattr(type(sender._copy), "chunk", lambda self, number: slow(number))
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    assert len(chunks_under_way(bench)) == 1
    assert bench.nodes["n1"].next_deadline() == bench.now, "at once"


def answer(node: RaftNode, **changed: Any) -> dict[str, Any]:
    usual = {"type": "snapshot_answer", "term": node.status.term, "snapshot": 1, "chunk": 0, "ready": True}
    return usual | {"next_index": 0} | changed


@pytest.mark.parametrize("changed", [{"chunk": 10**6}, {"next_index": 10**6}, {"ready": 1}, {"chunk": -1}])
def test_an_answer_about_what_does_not_exist_is_refused(bench: Bench, changed: dict[str, Any]) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    node = bench.nodes["n1"]
    with must_raise(MessageRefused):
        node.receive("n3", answer(node, **changed), connection=bench.connections["n3", "n1"])
    bench.connect("n1", "n3")
    with must_raise(MessageRefused):
        node.receive("n3", answer(node, **changed), connection=bench.connections["n3", "n1"])


def test_an_answer_of_a_later_term_deposes(bench: Bench) -> None:
    left_behind(bench)
    node = bench.nodes["n1"]
    node.receive("n3", answer(node, term=node.status.term + 1), connection=bench.connections["n3", "n1"])
    assert bench.step("n1").status.role is Role.FOLLOWER


@pytest.mark.parametrize(
    "message",
    [
        {"type": "snapshot_offer", "term": 1, "snapshot": 1, "index": 0, "index_term": 1},
        {"type": "snapshot_offer", "term": 1, "snapshot": 1, "index": 5, "index_term": 2},
        {"type": "snapshot_chunk", "term": 1, "snapshot": 1, "chunk": 0, "data": "text", "digest": b""},
        {"type": "snapshot_chunk", "term": 1, "snapshot": 1, "chunk": 0, "data": b"", "digest": b"short"},
        {"type": "snapshot_chunk", "term": 1, "snapshot": 1, "chunk": 0, "data": b"", "digest": None},
        {
            "type": "snapshot_chunk",
            "term": 1,
            "snapshot": 1,
            "chunk": 0,
            "data": bytes(CONFIG.snapshot_chunk_bytes_max + 1),
            "digest": b"",
        },
    ],
)
def test_what_no_leader_sends_is_refused(bench: Bench, message: dict[str, Any]) -> None:
    bench.elect("n1")
    with pytest.raises(MessageRefused):
        bench.nodes["n3"].receive("n1", message, connection=bench.connections["n1", "n3"])
