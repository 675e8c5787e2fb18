"""What a node finds on its disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from raftlog_applier import ChainApplier
from raftlog_bench import MAP_BYTES, Bench

from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.errors import LogRefused
from raftlog.node import RaftNode


def test_a_restart_resumes_at_the_applied_index(bench: Bench) -> None:
    bench.elect("n1")
    for seq in range(1, 6):
        bench.propose("n1", seq)
        bench.settle()
    before = bench.nodes["n2"].status
    bench.crash("n2")
    applied: list[int] = []
    bench.make_applier = lambda disk: ChainApplier(disk, lambda index, *rest: applied.append(index))
    node = bench.start("n2")
    assert (node.incarnation, node.status.applied_index) == (2, before.applied_index)
    bench.connect_all()
    bench.run(1.0)
    assert applied == []
    bench.propose("n1", 6)
    bench.run(1.0)
    assert applied == [8]


def test_term_and_vote_survive_a_restart(bench: Bench) -> None:
    bench.elect("n1")
    bench.crash("n2")
    bench.start("n2")
    assert bench.nodes["n2"].status.term == 1
    assert bench.nodes["n2"]._journal.getVotedForNodeId() == "n1"


def test_a_state_ahead_of_its_log_is_refused(tmp_path: Path) -> None:
    """Such as a log that was deleted, or a state copied from elsewhere."""
    bench = Bench(tmp_path, 1)
    bench.now += 2
    bench.step("n1")
    bench.step("n1")
    bench.crash("n1")
    disk = LmdbDisk(tmp_path / "n1", map_bytes=MAP_BYTES, synchronous=False)
    applier = ChainApplier(disk)
    applier._put(disk.transaction, b"index", 99)
    disk.commit()
    disk.close()
    with pytest.raises(LogRefused, match="the state stands at 99"):
        bench.start("n1")


def test_a_refused_start_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    disk = LmdbDisk(tmp_path, map_bytes=MAP_BYTES, synchronous=False)
    applier = ChainApplier(disk)

    def start(cluster_id: str) -> RaftNode:
        return RaftNode(
            identity=Identity(node="n1", members=("n1",), cluster_id=cluster_id, bootstrap=True),
            config=RaftConfig(),
            disk=disk,
            applier=applier,
            clock=lambda: 0.0,
            random=random.Random(1),
        )

    assert start("ours").incarnation == 1
    with pytest.raises(LogRefused):
        start("theirs")
    assert start("ours").incarnation == 2
    disk.close()


def test_settings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="heartbeat"):
        Bench(tmp_path, config=RaftConfig(heartbeat_s=0.0))
