"""What interrupts the transfer of a copy, and where it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from raftlog_bench import Bench
from raftlog_left_behind import (
    CONFIG,
    all_equal,
    chunks_under_way,
    connect,
    cut_off,
    left_behind,
    small_log_bench,
    step_round,
    until_chunks_flow,
    until_installed,
)

from raftlog.interface import Role
from raftlog.snapshot_receiving import SnapshotReceiver
from raftlog.snapshot_sending import STALLED_S, Transfer


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three connected nodes that keep ten entries and send copies in tiny chunks."""
    made = small_log_bench(tmp_path)
    yield made
    made.close()


def from_chunk(bench: Bench, seconds: float = 3.0) -> int:
    """The first chunk that is sent from now on."""
    end = bench.now + seconds
    while bench.now < end:
        bench.now += 0.05
        step_round(bench)
        if chunks_under_way(bench):
            return chunks_under_way(bench)[0]
    raise AssertionError("no chunks")


def begins_anew(self: SnapshotReceiver, peer: str, message: Any, commit_index: int) -> None:
    self._drop()
    OFFERED(self, peer, message, commit_index)


OFFERED = SnapshotReceiver.offered


def test_a_lost_connection_costs_what_was_in_flight(bench: Bench, guard: Any) -> None:
    guard.remove(SnapshotReceiver, "offered", begins_anew)
    left_behind(bench)
    until_chunks_flow(bench, 20)
    bench.connect("n1", "n3")
    with guard.verdict():
        assert from_chunk(bench) >= 12
    until_installed(bench)
    assert bench.nodes["n1"]._core.snapshots_out._copies == 1
    assert all_equal(bench)


@pytest.mark.parametrize("committed", [True, False])
def test_a_follower_that_was_restarted_goes_on_where_its_disk_is(bench: Bench, guard: Any, committed: bool) -> None:
    guard.remove(SnapshotReceiver, "offered", begins_anew)
    left_behind(bench)
    until_chunks_flow(bench, 20)
    bench.deliver("n1", "n3")
    bench.nodes["n3"].step()
    if committed:
        bench.nodes["n3"].commit()
    bench.crash("n3")
    bench.start("n3")
    connect(bench, "n3")
    with guard.verdict():
        assert from_chunk(bench) >= 12
    until_installed(bench)
    assert all_equal(bench)


def test_a_wiped_follower_begins_anew(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench, 20)
    bench.crash("n3")
    for file in (bench.root / "n3").iterdir():
        file.unlink()
    bench.start("n3", bootstrap=False)
    connect(bench, "n3")
    assert from_chunk(bench) == 0
    until_installed(bench)
    assert all_equal(bench)


def test_another_leader_begins_anew(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench, 20)
    bench.crash("n1")
    bench.stand("n2")
    until_installed(bench)
    assert bench.nodes["n2"].status.role is Role.LEADER
    assert bench.nodes["n2"].status.snapshots_sent <= 1
    bench.start("n1")
    connect(bench, "n1")
    assert all_equal(bench)


def test_a_deposed_leaders_chunks_are_worth_nothing(bench: Bench) -> None:
    """They may still be on their way when another leads."""
    left_behind(bench)
    until_chunks_flow(bench, 20)
    (chunk, *_) = [message for message in bench.links["n1", "n3"] if message["type"] == "snapshot_chunk"]
    cut_off(bench, "n1")
    bench.elect("n2")
    bench.connect("n1", "n3")
    before = bench.nodes["n3"]._core._snapshots_in._receiving
    bench.nodes["n3"].receive("n1", chunk, connection=bench.connections["n1", "n3"])
    assert bench.nodes["n3"]._core._snapshots_in._receiving == before


def test_a_follower_that_makes_no_sign_gets_no_more(bench: Bench) -> None:
    """And the pages that the copy pins are free again."""
    left_behind(bench)
    until_chunks_flow(bench)
    cut_off(bench, "n3")
    assert bench.nodes["n1"]._core.snapshots_out._copy is not None
    bench.run(CONFIG.snapshot_idle_s + 0.2, pace=0.1)
    assert bench.nodes["n1"]._core.snapshots_out._copy is None
    connect(bench, "n3")
    until_installed(bench)
    assert all_equal(bench)


def test_a_copy_lives_only_so_long(bench: Bench) -> None:
    """A follower that is alive and far too slow: it begins anew with what is newer."""
    left_behind(bench)
    until_chunks_flow(bench)
    copy = bench.nodes["n1"]._core.snapshots_out._copy
    bench.now += CONFIG.snapshot_life_s
    bench.stand("n1")
    for name in ("n2", "n3"):
        bench.nodes[name]._core._heard_leader_at = bench.now
    step_round(bench)
    until_installed(bench)
    assert bench.nodes["n1"]._core.snapshots_out._copy is not copy
    assert all_equal(bench)


def test_a_leader_that_steps_down_closes_its_copy(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    cut_off(bench, "n1")
    bench.run(CONFIG.leader_fallback_s + 0.2)
    assert bench.nodes["n1"].status.role is not Role.LEADER
    assert bench.nodes["n1"]._core.snapshots_out._copy is None


def test_a_node_that_closes_closes_its_copy(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    sender = bench.nodes["n1"]._core.snapshots_out
    bench.nodes["n1"].close()
    assert sender._copy is None


def test_half_a_copy_is_dropped_when_the_log_serves(bench: Bench) -> None:
    """The next leader may have kept more of the log: what was received is not needed then."""
    left_behind(bench)
    until_chunks_flow(bench, 20)
    receiver = bench.nodes["n3"]._core._snapshots_in
    assert receiver._receiving is not None
    index = receiver._receiving.index
    for _ in range(4):
        receiver.work(index)
    assert receiver._receiving is None
    assert receiver._room_is_empty


def test_a_leader_is_told_that_its_copy_was_given_up(bench: Bench) -> None:
    """Else it would wait for as long as a follower may make no sign (found by the simulator: seed 253)."""
    left_behind(bench)
    until_chunks_flow(bench, 20)
    receiver = bench.nodes["n3"]._core._snapshots_in
    assert receiver._receiving is not None
    receiver.work(receiver._receiving.index)
    until_installed(bench, seconds=5.0)
    assert all_equal(bench)


def test_chunks_that_were_passed_over_cost_a_moment(bench: Bench, guard: Any) -> None:
    """A follower that knows no leader does not listen to chunks, and none of them comes again by itself."""
    guard.remove(Transfer, "stalls", lambda transfer, now: False)
    left_behind(bench)
    until_chunks_flow(bench, 20)
    lost = bench.links["n1", "n3"]
    kept = [message for message in lost if message["type"] != "snapshot_chunk"]
    lost.clear()
    lost.extend(kept)
    with guard.verdict():
        until_installed(bench, seconds=STALLED_S + 3.0)
        assert bench.nodes["n1"].status.snapshots_sent == 1
