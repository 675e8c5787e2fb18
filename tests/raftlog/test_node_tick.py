"""The contract of a tick."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from raftlog_applier import ChainApplier
from raftlog_bench import MAP_BYTES, Bench, must_raise

from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.errors import LogBroken
from raftlog.interface import Role
from raftlog.journal import LmdbJournal
from raftlog.node import RaftNode


def test_steps_and_commits_alternate(bench: Bench) -> None:
    node = bench.nodes["n1"]
    with must_raise(LogBroken):
        node.commit()
    node.step()
    with must_raise(LogBroken):
        node.step()


def test_inputs_between_step_and_commit_belong_to_the_next_step(bench: Bench) -> None:
    """A driver that finds a broken socket while sending says so at once."""
    node = bench.elect("n1")
    bench.propose("n1", 1)
    ready = node.step()
    node.peer_disconnected("n2", connection=bench.connections["n2", "n1"])
    node.commit()
    assert {target for target, _ in ready.immediate} == {"n2", "n3"}
    bench.now += 0.2
    assert {target for target, _ in bench.step("n1").immediate} == {"n3"}


def test_a_closed_node_refuses_calls_and_leaves_the_disk_open(bench: Bench) -> None:
    bench.nodes["n1"].close()
    with must_raise(LogBroken):
        bench.nodes["n1"].step()
    with bench.disks["n1"].environment.begin() as transaction:
        assert bench.appliers["n1"].applied_index(transaction) == 0


def test_an_idle_tick_writes_nothing_and_reads_next_to_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the length of the log: no tick is O(log)."""
    bench.elect("n1")
    for _ in range(20):
        for seq in range(1, 65):
            bench.propose("n1", seq, b"x")
        bench.settle()
        bench.results.clear()
    assert bench.nodes["n1"].status.last_index > 1000
    looked_at: list[int] = []
    entry = LmdbJournal.entry
    monkeypatch.setattr(LmdbJournal, "entry", lambda self, index: (looked_at.append(index), entry(self, index))[1])
    numbers = [disk.environment.info()["last_txnid"] for disk in bench.disks.values()]
    bench.now += 0.15
    bench.settle()
    assert len(looked_at) < 30
    assert [disk.environment.info()["last_txnid"] for disk in bench.disks.values()] == numbers


def test_a_tick_of_many_messages_is_answered_once(bench: Bench) -> None:
    bench.elect("n1")
    for seq in range(1, 6):
        bench.propose("n1", seq)
        bench.step("n1")
    assert len(bench.links["n1", "n2"]) == 5
    bench.deliver("n1", "n2")
    bench.step("n2")
    (answer,) = bench.links["n2", "n1"]
    assert answer["next_node_idx"] == 8


def test_nodes_with_clocks_of_their_own_live_in_one_process(tmp_path: Path) -> None:
    """Two clusters of one node, a thousand seconds apart: each is elected by its own clock."""
    nodes = []
    times = [0.0, 1000.0]
    for number in range(2):
        disk = LmdbDisk(tmp_path / str(number), map_bytes=MAP_BYTES, synchronous=False)
        nodes.append(
            RaftNode(
                identity=Identity(node="n1", members=("n1",), cluster_id=str(number), bootstrap=True),
                config=RaftConfig(),
                disk=disk,
                applier=ChainApplier(disk),
                clock=lambda number=number: times[number],  # type: ignore[misc]
                random=random.Random(number),
            )
        )
    times[1] += 2.0
    for node in nodes:
        node.step()
        node.commit()
    assert [node.status.role for node in nodes] == [Role.FOLLOWER, Role.LEADER]


def test_two_leaders_of_one_term_stop_the_process(bench: Bench) -> None:
    bench.elect("n1")
    message = {
        "type": "append_entries",
        "term": 1,
        "commit_index": 2,
        "prevLogIdx": 2,
        "prevLogTerm": 1,
        "entries": [],
        "seq": 1,
        "last_index": 2,
        "confirmed_seq": 0,
    }
    with pytest.raises(LogBroken, match="two leaders in term 1"):
        bench.nodes["n2"].receive("n3", message, connection=bench.connections["n3", "n2"])


def test_a_node_cut_off_from_all_does_not_raise_its_term(bench: Bench) -> None:
    """It could not win; and with a higher term it would disturb the others when it comes back."""
    bench.elect("n1")
    bench.disconnect("n3", "n1")
    bench.disconnect("n3", "n2")
    bench.run(5.0)
    assert bench.nodes["n3"].status.term == 1
    bench.connect("n3", "n1")
    bench.connect("n3", "n2")
    bench.run(1.0)
    assert {node.status.term for node in bench.nodes.values()} == {1}


def test_a_leader_that_differs_in_what_is_committed_stops_the_process(bench: Bench) -> None:
    """It would be rejected for ever, and nobody would see that the replicas differ."""
    bench.elect("n1")
    message = {
        "type": "append_entries",
        "term": 1,
        "commit_index": 2,
        "entries": [],
        "seq": 9,
        "last_index": 2,
        "confirmed_seq": 0,
    }
    with pytest.raises(LogBroken, match="entry 2 is committed here in term 1, n1 has another"):
        bench.nodes["n2"].receive(
            "n1", message | {"prevLogIdx": 2, "prevLogTerm": 0}, connection=bench.connections["n1", "n2"]
        )


def test_a_stranger_is_not_heard(bench: Bench) -> None:
    bench.nodes["n1"].receive("n9", {"type": "response_vote", "term": 1}, connection=1)
    assert bench.step("n1").status.role is Role.FOLLOWER


def test_a_tick_is_one_transaction(bench: Bench) -> None:
    """Term, vote, entries, commit index and state of a tick are on the disk together, or not at all."""
    bench.elect("n1")
    for seq in (1, 2, 3):
        bench.propose("n1", seq)
    bench.step("n1")
    number = bench.disks["n2"].environment.info()["last_txnid"]
    for _ in range(2):
        bench.deliver("n1", "n3")
        bench.step("n3")
        bench.deliver("n3", "n1")
        bench.step("n1")
    bench.deliver("n1", "n2")
    status = bench.step("n2").status
    assert (status.last_index, status.applied_index) == (5, 5)
    assert bench.disks["n2"].environment.info()["last_txnid"] == number + 1
