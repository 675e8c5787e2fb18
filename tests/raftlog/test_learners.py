"""Learners: nodes that follow the log and propose, and are counted nowhere. Whether they come or go, nobody cares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from log_cluster import LogCluster
from raftlog_bench import Bench, must_raise

from raftlog import guards
from raftlog.config import Identity, RaftConfig
from raftlog.core import Core
from raftlog.elections import Elections
from raftlog.errors import LogRefused, MessageRefused, NoQuorum
from raftlog.interface import Role

VOTES = [
    {"type": "request_vote", "term": 9, "last_log_index": 9, "last_log_term": 9, "transfer": True},
    {"type": "response_vote", "term": 1},
    {"type": "pre_vote", "term": 9, "round": 1, "last_log_index": 9, "last_log_term": 9},
    {"type": "pre_vote_answer", "term": 9, "round": 1, "granted": True},
    {"type": "timeout_now", "term": 1},
    {"type": "append_entries", "term": 9, "commit_index": 0, "entries": [], "prevLogIdx": 1, "prevLogTerm": 0}
    | {"seq": 1, "last_index": 1, "confirmed_seq": 0},
]
"""What only members say."""


def with_learner(bench: Bench, *more: str) -> Bench:
    bench.elect("n1")
    for name in ("w1", *more):
        bench.start(name, bootstrap=False)
    bench.connect_all()
    bench.run(0.5)
    return bench


# What it does.


def test_a_learner_follows_proposes_and_asks(bench: Bench) -> None:
    with_learner(bench)
    bench.propose("n2", 1)
    bench.propose("w1", 1)
    bench.nodes["w1"].barrier(7)
    bench.run(0.5)
    assert [result.seq for result in bench.results["w1"]] == [1]
    assert [barrier.barrier_id for barrier in bench.barriers["w1"]] == [7]
    assert len(set(bench.digests().values())) == 1
    status = bench.nodes["w1"].status
    assert (status.role, status.leader, status.quorum, status.members) == (Role.FOLLOWER, "n1", True, bench.members)


def test_a_learner_gets_a_copy_of_the_state_when_the_log_is_trimmed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, config=RaftConfig(log_keep_entries=5))
    bench.connect_all()
    bench.elect("n1")
    for seq in range(1, 40):
        bench.propose("n1", seq)
        bench.settle()
    assert bench.nodes["n1"].status.first_index > 1
    bench.start("w1", bootstrap=False)
    bench.connect_all()
    bench.run(2.0)
    assert bench.nodes["w1"].status.snapshots_received == 1
    assert len(set(bench.digests().values())) == 1
    bench.close()


def test_a_learner_follows_the_next_leader(bench: Bench) -> None:
    with_learner(bench)
    bench.crash("n1")
    bench.run(5.0)
    bench.propose("w1", 1)
    bench.run(1.0)
    assert bench.nodes["w1"].status.leader in ("n2", "n3")
    assert [result.seq for result in bench.results["w1"]] == [1]
    assert len(set(bench.digests().values())) == 1


def test_a_learner_comes_back_under_its_name(bench: Bench) -> None:
    with_learner(bench)
    bench.crash("w1")
    bench.propose("n1", 1)
    bench.run(0.5)
    bench.start("w1", bootstrap=False)
    bench.connect_all()
    bench.propose("w1", 1)
    bench.run(0.5)
    assert [result.seq for result in bench.results["w1"]] == [1]
    assert len(set(bench.digests().values())) == 1


# What it does not do.


def test_a_learner_counts_for_no_majority(bench: Bench, guard: Any) -> None:
    """Two of three members are gone: what the learners have is on the disk of one member."""
    guard.remove(Core, "_learner_connected", _as_a_member)
    with_learner(bench, "w2")
    commit_index = bench.nodes["n1"].status.commit_index
    bench.crash("n2")
    bench.crash("n3")
    bench.propose("n1", 1)
    with guard.verdict():
        bench.run(1.0)
        assert bench.nodes["n1"].status.commit_index == commit_index
        bench.nodes["n1"].barrier(1)
        bench.run(5.0)
        assert bench.barriers["n1"] == []
        assert not bench.nodes["n1"].status.quorum
        assert bench.nodes["n1"].status.role is not Role.LEADER


def _as_a_member(core: Core, peer: str) -> None:
    _learner_connected(core, peer)
    core._SyncObj__otherNodes.add(core._known[peer])
    core._SyncObj__lastResponseTime[core._known[peer]] = core._clock()
    core._peers.append(core._known[peer])


_learner_connected = Core._learner_connected


def test_a_learner_never_stands(bench: Bench, guard: Any) -> None:
    """Without a leader it would have the newest log and the votes of all."""
    guard.remove(Elections, "_may_stand", lambda self: True)
    with_learner(bench)
    bench.lose_patience("w1")
    with guard.verdict():
        bench.crash("n1")
        bench.nodes["w1"]._core._SyncObj__raftElectionDeadline = bench.now - 1
        bench.now += 1.0
        ready = bench.step("w1")
        assert [message["type"] for _, message in (*ready.immediate, *ready.held)] == []
        assert ready.status.role is Role.FOLLOWER


@pytest.mark.parametrize("message", VOTES, ids=lambda message: message["type"])
def test_what_only_members_say_is_refused_from_a_learner(bench: Bench, guard: Any, message: Any) -> None:
    guard.remove(guards, "_OF_LEARNERS", frozenset(guards._NUMBERS))
    with_learner(bench)
    with guard.verdict(), must_raise(MessageRefused):
        bench.nodes["n1"].receive("w1", message, connection=bench.connections["w1", "n1"])


def test_the_leadership_is_not_handed_to_a_learner(bench: Bench) -> None:
    with_learner(bench)
    bench.nodes["n1"].transfer("w1")
    bench.run(2.0)
    assert bench.nodes["n1"].status.role is Role.LEADER


def test_learners_that_come_and_go_leave_nothing_behind(bench: Bench) -> None:
    with_learner(bench)
    core = bench.nodes["n1"]._core
    kept = [core._known, core._followers, core._SyncObj__raftMatchIndex, core._SyncObj__lastResponseTime]
    sizes = [len(one) for one in kept]
    for number in range(2, 6):
        bench.crash(f"w{number - 1}")
        bench.start(f"w{number}", bootstrap=False)
        bench.connect_all()
        bench.run(0.5)
    assert [len(one) for one in kept] == sizes


# Who is one.


@pytest.mark.parametrize(
    ("node", "members", "settings", "fault"),
    [
        ("w1", ("n1",), {}, "not among the members"),
        ("n1", ("n1",), {"learner": True}, "is to be a learner"),
        ("w1", ("n1",), {"learner": True, "bootstrap": True}, "does not bootstrap"),
        ("w1", (), {"learner": True}, "has members"),
    ],
)
def test_who_cannot_be(node: str, members: tuple[str, ...], settings: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Identity(node=node, members=members, cluster_id="c", **settings).validate()


def test_the_disk_of_a_member_does_not_become_a_learners(bench: Bench) -> None:
    """What it promised as a member it would not keep."""
    bench.crash("n3")
    bench.members = ("n1", "n2")
    with pytest.raises(LogRefused, match="the members of a cluster cannot be changed"):
        bench.start("n3", bootstrap=False)


# Real processes.


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    cluster = LogCluster(tmp_path, 3)
    await cluster.start()
    yield cluster
    await cluster.close()


@pytest.mark.cluster
@pytest.mark.slow
async def test_learners_join_propose_and_die_without_an_election(cluster: LogCluster) -> None:
    leader = await cluster.leader()
    term = cluster.clients[leader].status.term
    await cluster.start("w1", "w2")
    index = await cluster.clients[leader].read_barrier()
    for node in ("w1", "w2"):
        await cluster.until(lambda: cluster.clients[node].status.applied_index >= index)  # noqa: B023
        await cluster.clients[node].propose(b"of %s" % node.encode())
    await cluster.equal_standing()
    assert set(cluster.ledger_of("n1")) == set(cluster.ledger_of("w1")) == {b"of w1", b"of w2"}
    await cluster.kill("w1")
    await cluster.clients["w2"].propose(b"after w1")
    assert cluster.clients[leader].status.term == term

    others = [name for name in ("n1", "n2", "n3") if name != leader]
    await cluster.kill(others[0])
    await cluster.clients["w2"].propose(b"with two members")
    await cluster.kill(others[1])
    with pytest.raises(NoQuorum):
        await cluster.clients["w2"].read_barrier(timeout_s=2)
