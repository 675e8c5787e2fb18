from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from raftlog_applier import ChainApplier
from raftlog_bench import MAP_BYTES, Bench, must_raise

from raftlog.config import Identity, RaftConfig
from raftlog.core import Core
from raftlog.disk import LmdbDisk
from raftlog.envelope import decode, encode
from raftlog.errors import LogBroken, LogOverloaded, LogRefused, MessageRefused
from raftlog.interface import Applied, Proposal, Role
from raftlog.journal import LmdbJournal
from raftlog.node import AppliedEvents, RaftNode, Result

# A proposal's way.


def test_a_leaders_own_proposal_is_answered_when_a_majority_has_it(bench: Bench) -> None:
    bench.elect("n1")
    bench.propose("n1", 1, b"a", b"b")
    assert bench.step("n1").results == []
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    assert bench.step("n1").results == [Result(1, 1, [b"1", b"2"])]


def test_a_followers_proposal_is_answered_by_the_leader_before_it_applies_itself(bench: Bench) -> None:
    """A node that lags must not make its clients wait for its own apply."""
    bench.elect("n1")
    bench.propose("n2", 1)
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    result = bench.links["n1", "n2"].pop()
    assert result == {"type": "result", "incarnation": 1, "seq": 1, "replies": [b"1"]}
    bench.links["n1", "n2"].clear()
    bench.nodes["n2"].receive("n1", result, connection=bench.connections["n1", "n2"])
    ready = bench.step("n2")
    assert ready.results == [Result(1, 1, [b"1"])]
    assert ready.status.applied_index == 2


def test_a_result_leaves_after_the_leaders_commit(bench: Bench) -> None:
    bench.elect("n1")
    bench.propose("n2", 1)
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    bench.deliver("n2", "n1")
    ready = bench.nodes["n1"].step()
    assert "result" not in [message["type"] for _, message in ready.immediate]
    assert "result" in [message["type"] for _, message in ready.held]


def test_a_result_too_large_for_a_message_comes_from_the_proposers_own_apply(bench: Bench) -> None:
    bench.elect("n1")
    bench.nodes["n1"]._config = RaftConfig(result_bytes_max=0)
    bench.propose("n2", 1)
    bench.settle()
    assert bench.results["n2"] == [Result(1, 1, [b"1"])]


def test_a_proposal_waits_for_a_leader(bench: Bench) -> None:
    bench.propose("n2", 1)
    bench.propose("n1", 1)
    bench.settle()
    assert bench.results["n1"] == bench.results["n2"] == []
    bench.elect("n1")
    bench.settle()
    assert [result.seq for result in bench.results["n1"] + bench.results["n2"]] == [1, 1]


def test_a_proposal_survives_a_change_of_leader_under_its_name(bench: Bench) -> None:
    """n1 appended it and went down; n2 asks the next leader; it takes effect once, wherever the first copy went."""
    bench.elect("n1")
    bench.propose("n2", 1, b"once")
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.crash("n1")
    bench.run(3.0)
    assert bench.results["n2"] == [Result(1, 1, [b"1"])]
    assert {bench.appliers[name].count(bench.disks[name].transaction) for name in ("n2", "n3")} == {1}


def test_a_cancelled_proposal_gives_no_result(bench: Bench) -> None:
    bench.propose("n2", 1)
    bench.nodes["n2"].cancel(incarnation=1, seq=1)
    bench.elect("n1")
    bench.run(1.0)
    assert bench.results["n2"] == []
    assert bench.nodes["n2"].status.proposals_pending == 0


def test_too_many_proposals_are_refused_and_the_node_works_on(bench: Bench) -> None:
    for seq in range(bench.config.proposals_pending_max):
        bench.propose("n2", seq)
    with pytest.raises(LogOverloaded):
        bench.propose("n2", 9999)
    bench.elect("n1")
    bench.settle()
    assert len(bench.results["n2"]) == bench.config.proposals_pending_max


def test_a_proposal_in_another_nodes_name_is_refused(bench: Bench) -> None:
    bench.elect("n1")
    foreign = encode(Proposal(node="n3", incarnation=1, seq=1, acknowledged=0, commands=[b"x"]))
    with pytest.raises(MessageRefused, match="in the name of 'n3'"):
        bench.nodes["n1"].receive(
            "n2", {"type": "propose", "envelope": foreign}, connection=bench.connections["n2", "n1"]
        )
    with must_raise(LogBroken):
        bench.nodes["n1"].propose(decode(foreign))


def test_a_malformed_proposal_never_enters_the_log(bench: Bench) -> None:
    bench.elect("n1")
    with pytest.raises(MessageRefused):
        bench.nodes["n1"].receive(
            "n2", {"type": "propose", "envelope": b"junk"}, connection=bench.connections["n2", "n1"]
        )
    bench.settle()
    assert bench.nodes["n1"].status.last_index == 2


def test_a_name_used_for_another_number_of_commands_gets_no_result(bench: Bench) -> None:
    """The applier answers the first one; nodes must live with it, since it is in the log of all of them."""
    bench.elect("n1")
    bench.propose("n2", 1, b"one")
    bench.settle()
    bench.propose("n2", 1, b"one", b"two")
    bench.run(1.0)
    assert [len(result.replies) for result in bench.results["n2"]] == [1]
    assert len({node.status.applied_index for node in bench.nodes.values()}) == 1


def test_events_come_with_the_entry_that_gave_them_on_every_node(bench: Bench) -> None:
    bench.elect("n1")
    bench.propose("n2", 1, b"event:n3", b"event:", b"silent", b"event:n3")
    bench.settle()
    expected = [AppliedEvents(3, "n3", [b"event:n3", b"event:n3"]), AppliedEvents(3, "*", [b"event:"])]
    assert bench.events == dict.fromkeys(bench.members, expected)


# Status and time.


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
                if bench.step(member).status.role is not Role.FOLLOWER:
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


def _apply_everything(core: Core) -> bool:
    while core.applied_index() < core.commit_index():
        core._hooks.apply(core._journal.entry(core.applied_index() + 1))
        core._SyncObj__raftLastApplied += 1
    return False


# Restart.


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


# The contract of a tick.


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
