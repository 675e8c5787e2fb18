"""What a node tells of itself, when it wants to be stepped, and how long a step may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from raftlog_applier import ChainApplier
from raftlog_bench import Bench

from raftlog.core import Core
from raftlog.interface import Applied, Proposal, Role


def test_status_tells_roles_and_the_change_is_marked(bench: Bench) -> None:
    bench.elect("n1")
    statuses = {name: node.status for name, node in bench.nodes.items()}
    assert {name: status.role for name, status in statuses.items()} == {
        "n1": Role.LEADER,
        "n2": Role.FOLLOWER,
        "n3": Role.FOLLOWER,
    }
    assert {(status.leader, status.term, status.quorum) for status in statuses.values()} == {("n1", 1, True)}
    assert not bench.step("n2").status_changed
    bench.now += bench.config.leader_fallback_s + 0.1
    ready = bench.step("n1")
    assert (ready.status_changed, ready.status.role, ready.status.quorum) == (True, Role.FOLLOWER, False)


def test_a_followers_quorum_is_a_leader_heard_lately(bench: Bench) -> None:
    bench.elect("n1")
    bench.disconnect("n2", "n1")
    bench.disconnect("n2", "n3")
    assert bench.step("n2").status.quorum
    bench.now += bench.config.leader_fallback_s + 0.1
    assert not bench.step("n2").status.quorum


def test_the_commit_time_is_that_of_the_last_commit_that_wrote(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1)
    bench.now += 2
    node = bench.nodes["n1"]
    commit = bench.disks["n1"].commit

    def slow_commit() -> bool:
        bench.now += 0.25
        return commit()

    node.step()
    bench.disks["n1"].commit = slow_commit  # type: ignore[method-assign]
    node.commit()
    bench.disks["n1"].commit = commit  # type: ignore[method-assign]
    for _ in range(4):
        bench.step("n1")
    bench.propose("n1", 1)
    assert bench.step("n1").status.commit_seconds < 0.25
    bench.close()


def test_a_node_without_work_asks_for_its_next_heartbeat(bench: Bench) -> None:
    bench.elect("n1")
    bench.now += 0.2
    bench.settle()
    leader, follower = bench.nodes["n1"], bench.nodes["n2"]
    assert 0 < leader.next_deadline() - bench.now <= bench.config.heartbeat_s + 0.002
    assert 0 < follower.next_deadline() - bench.now <= bench.config.tick_wait_max_s + 1e-6
    bench.now = leader.next_deadline()
    assert [message["type"] for _, message in bench.step("n1").immediate] == ["append_entries"] * 2


def test_a_node_that_has_an_elections_time_steps_then(bench: Bench) -> None:
    """The deadline is not met by a step that comes a hair too early and must be repeated."""
    names = set()
    for _ in range(40):
        name = min(bench.members, key=lambda member: bench.nodes[member].next_deadline())
        bench.now = max(bench.now, bench.nodes[name].next_deadline())
        for member in bench.members:
            if bench.nodes[member].next_deadline() <= bench.now:
                if [message for _, message in bench.step(member).immediate if message["type"] == "pre_vote"]:
                    names.add(member)
                assert bench.nodes[member].next_deadline() > bench.now
        if names:
            break
    assert names


def test_a_pending_proposal_does_not_keep_a_node_awake(bench: Bench) -> None:
    bench.propose("n2", 1)
    bench.step("n2")
    assert bench.nodes["n2"].next_deadline() > bench.now, "there is no leader to send it to"
    bench.elect("n1")
    bench.propose("n2", 2)
    assert bench.nodes["n2"].next_deadline() <= bench.now
    bench.step("n2")
    assert bench.nodes["n2"].next_deadline() > bench.now


class Slow(ChainApplier):
    """Every entry takes 10 ms of the bench's time."""

    bench: Bench

    def apply(self, transaction: Any, *, index: int, proposal: Proposal | None) -> Applied:
        self.bench.now += 0.01
        return super().apply(transaction, index=index, proposal=proposal)


def test_applying_pauses_for_heartbeats(tmp_path: Path, guard: Any) -> None:
    guard.remove(Core, "_SyncObj__applyLogEntries", _apply_everything)
    bench = Bench(tmp_path, make_applier=Slow, started=())
    Slow.bench = bench
    for name in bench.members:
        bench.start(name)
    bench.connect_all()
    bench.elect("n1")
    for seq in range(1, 61):
        bench.propose("n1", seq)
    bench.step("n1")
    for name in ("n2", "n3"):
        bench.deliver("n1", name)
        bench.step(name)
        bench.deliver(name, "n1")
    with guard.verdict():
        heartbeats = 0
        while bench.nodes["n1"].status.applied_index < 62:
            before = bench.now
            ready = bench.step("n1")
            assert bench.now - before <= bench.config.apply_slice_s + 0.011
            heartbeats += sum(target == "n2" for target, _ in ready.immediate)
            if ready.status.applied_index < 62:
                assert bench.nodes["n1"].next_deadline() <= bench.now, "work is left over"
        assert heartbeats >= 6
    bench.close()


@pytest.mark.parametrize(("commit_s", "applied_a_step"), [(0.0, 3), (0.05, 5), (5.0, 8)])
def test_applying_takes_as_long_as_the_commits_and_no_longer_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit_s: float, applied_a_step: int
) -> None:
    """A node on a slow disk spends half of its time on applying, or it would never catch up."""
    bench = Bench(tmp_path, size=1, make_applier=Slow, started=())
    Slow.bench = bench
    bench.start("n1")
    bench.elect("n1")
    commit = bench.disks["n1"].commit

    def slow_commit() -> bool:
        bench.now += commit_s
        return commit()

    monkeypatch.setattr(bench.disks["n1"], "commit", slow_commit)
    for seq in range(1, 41):
        bench.propose("n1", seq)
    steps = []
    while bench.nodes["n1"].status.applied_index < 40:
        before = bench.nodes["n1"].status.applied_index
        bench.step("n1")
        steps.append(bench.nodes["n1"].status.applied_index - before)
    assert max(steps) in (applied_a_step, applied_a_step + 1)
    bench.close()


def _apply_everything(core: Core) -> bool:
    while core.applied_index() < core.commit_index():
        core._hooks.apply(core._journal.entry(core.applied_index() + 1))
        core._SyncObj__raftLastApplied += 1
    return False
