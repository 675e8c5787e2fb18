"""The holes of the library, one directed test each: run with the guard, and again without it, when it must fail.

Both halves of every test were seen to do what they say; the second half is part of the suite, so a guard that stops
mattering is noticed as well.
"""

from __future__ import annotations

from typing import Any

import pytest
from pysyncobj import syncobj
from raftlog_bench import Bench, must_raise

from raftlog import core, guards, outbox, replication
from raftlog.core import Core
from raftlog.errors import CommandTooLarge, LogBroken, MessageRefused
from raftlog.interface import Applied, Role
from raftlog.journal import LmdbJournal
from raftlog.node import RaftNode

EVERY_TYPE = outbox.IMMEDIATE | outbox.HELD


def with_unverified_tail(bench: Bench) -> None:
    """n1, deposed, holds entry 3 of term 1, which no other node has; n2 leads term 2 and has committed another entry
    3."""
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    bench.propose("n1", 1)
    bench.step("n1")
    bench.nodes["n1"].cancel(incarnation=1, seq=1)
    bench.elect("n2")
    bench.connect("n1", "n2")
    assert bench.log("n1")[-1] == (3, 1)
    assert bench.log("n2")[-1] == (3, 2)
    assert bench.nodes["n2"].status.commit_index == 3


def append(term: int, commit_index: int, **more: Any) -> dict[str, Any]:
    message = {"type": "append_entries", "term": term, "commit_index": commit_index, "seq": 1, "last_index": 3}
    return message | {"confirmed_seq": 0} | more


def committed_by(bench: Bench, name: str) -> int:
    return bench.step(name).status.commit_index


def test_S1_an_append_without_a_previous_entry_commits_nothing(bench: Bench, guard: Any) -> None:
    """Such as every chunk of a snapshot: it compares nothing with the leader's log, so nothing it says can be
    committed. (Today such a message is refused at the door; the core must not depend on that.)"""
    guard.remove(guards, "bounded_append", lambda message: message)
    with_unverified_tail(bench)
    with guard.verdict():
        node = bench.nodes["n1"]
        with node._seams:
            node._core.receive("n2", append(2, 3))
        assert committed_by(bench, "n1") == 2
        with must_raise(MessageRefused):
            node.receive("n2", append(2, 3), connection=bench.connections["n2", "n1"])


def test_S2_an_append_commits_no_further_than_it_compares(bench: Bench, guard: Any) -> None:
    """A heartbeat behind the entries that a follower lacks carries a commit index beyond them: what the follower has at
    that index is not what was committed."""
    guard.remove(guards, "bounded_append", lambda message: message)
    with_unverified_tail(bench)
    with guard.verdict():
        heartbeat = append(2, 3, prevLogIdx=2, prevLogTerm=1, entries=[])
        bench.nodes["n1"].receive("n2", heartbeat, connection=bench.connections["n2", "n1"])
        assert committed_by(bench, "n1") == 2


def test_S6_an_answer_to_an_earlier_leadership_does_not_count(bench_of_five: Bench, guard: Any) -> None:
    """n2 acknowledges entries 3 to 5 to n1 in term 1; they are replaced in term 2; the acknowledgement arrives when n1
    leads term 3 and has another entry 5, which n2 never saw."""
    guard.remove(guards, "is_current_answer", lambda message, term: True)
    bench = bench_of_five
    stale = _acknowledgement_of_replaced_entries(bench)
    _lead_with(bench, "n1", ["n4", "n5"])
    bench.propose("n1", 4)
    bench.step("n1")
    bench.deliver("n1", "n4")
    bench.step("n4")
    bench.deliver("n4", "n1")
    assert bench.log("n1")[-1] == (5, 3)
    with guard.verdict():
        bench.nodes["n1"].receive("n2", stale, connection=bench.connections["n2", "n1"])
        assert committed_by(bench, "n1") < 5, "committed on two nodes of five"


def _acknowledgement_of_replaced_entries(bench: Bench) -> dict[str, Any]:
    bench.elect("n1")
    for other in ("n3", "n4", "n5"):
        bench.disconnect("n1", other)
    for seq in (1, 2, 3):
        bench.propose("n1", seq)
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    (stale,) = bench.links["n2", "n1"]
    assert (stale["term"], stale["next_node_idx"], stale["success"]) == (1, 6, True)
    for seq in (1, 2, 3):
        bench.nodes["n1"].cancel(incarnation=1, seq=seq)
    bench.disconnect("n1", "n2")
    bench.elect("n3")
    for other in ("n2", "n3", "n4", "n5"):
        bench.connect("n1", other)
    bench.now += 0.2
    bench.settle()
    assert bench.log("n1")[-1] == bench.log("n2")[-1] == (3, 2)
    return dict(stale)


def _lead_with(bench: Bench, name: str, voters: list[str]) -> None:
    """Make `name` leader by the votes of these nodes; nothing else is delivered."""
    bench.stand(name)
    bench.step(name)
    for voter in voters:
        bench.deliver(name, voter)
        bench.step(voter)
        bench.deliver(voter, name)
    assert bench.step(name).status.role is Role.LEADER


def test_S7_an_acknowledgement_leaves_after_the_commit(bench: Bench, guard: Any) -> None:
    """n2 crashes between its step and its commit: what it was sent is gone, so nobody may have been told that it has
    it."""
    _hold_back_nothing(guard)
    bench.elect("n1")
    bench.disconnect("n1", "n3")
    bench.propose("n1", 1)
    bench.step("n1")
    bench.deliver("n1", "n2")
    with guard.verdict():
        _step_and_crash(bench, "n2")
        bench.step("n1")
        acknowledged = bool(bench.results["n1"])
        bench.start("n2")
        assert bench.log("n2")[-1] == (2, 1), "the crash took the entry with it"
        assert not acknowledged, "acknowledged by a majority of one disk"


def test_S8_a_vote_leaves_after_the_commit(bench: Bench, guard: Any) -> None:
    """n3 votes for n1 and crashes before its commit; it may then vote for n2 in the same term, so n1 must not have got
    its vote."""
    _hold_back_nothing(guard)
    bench.disconnect("n1", "n2")
    for candidate in ("n1", "n2"):
        bench.stand(candidate)
        bench.step(candidate)
    request = bench.links["n2", "n3"].popleft()
    bench.deliver("n1", "n3")
    with guard.verdict():
        _step_and_crash(bench, "n3")
        bench.start("n3")
        bench.connect("n2", "n3")
        bench.nodes["n3"].receive("n2", request, connection=bench.connections["n2", "n3"])
        bench.step("n3")
        bench.deliver("n3", "n2")
        standings = [bench.step(name).status for name in ("n1", "n2")]
        assert [(status.role, status.term) for status in standings].count((Role.LEADER, 1)) == 1


def _hold_back_nothing(guard: Any) -> None:
    guard.remove(outbox, "HELD", frozenset())
    guard.remove(outbox, "IMMEDIATE", EVERY_TYPE)


def _step_and_crash(bench: Bench, name: str) -> None:
    """A step of which only what leaves before the commit leaves."""
    ready = bench.nodes[name].step()
    for target, message in ready.immediate:
        if (name, target) in bench.connections:
            bench.nodes[target].receive(name, message, connection=bench.connections[name, target])
    bench.crash(name)


def test_S9_entries_that_match_are_kept(bench: Bench, guard: Any) -> None:
    """An append_entries that comes again must not cut off what was acknowledged behind it."""
    guard.remove(LmdbJournal, "deleteEntriesFrom", _truncate_as_the_library_asks)
    bench.elect("n1")
    for seq in (1, 2, 3):
        bench.propose("n1", seq)
    bench.step("n1")
    (message,) = bench.deliver("n1", "n2")
    bench.step("n2")
    (answer,) = bench.links["n2", "n1"]
    assert answer["next_node_idx"] == 6
    with guard.verdict():
        again = message | {"entries": message["entries"][:1]}
        bench.nodes["n2"].receive("n1", again, connection=bench.connections["n1", "n2"])
        bench.step("n2")
        assert bench.log("n2")[-1] == (5, 1)


def _truncate_as_the_library_asks(journal: LmdbJournal, position: int) -> None:
    journal._truncate_from(journal.first_index + position)


def test_S10_an_entry_is_never_split(bench: Bench, guard: Any) -> None:
    """The library cuts an entry of a whole batch into pieces with a wrong end mark, and by pickle."""
    bench.elect("n1")
    large = bytes(bench.config.command_bytes_max)
    guard.remove(Core, "send_where_wanted", lambda self, seq: syncobj.SyncObj._SyncObj__sendAppendEntries(self))
    with guard.verdict():
        for name in bench.members:
            bench.nodes[name]._core._SyncObj__conf.appendEntriesBatchSizeBytes = 1000
        bench.propose("n1", 1, large)
        bench.settle()
        assert bench.nodes["n3"]._journal.entry(3)[0].endswith(large)
        assert bench.nodes["n3"].status.applied_index == 3


def test_S10_nothing_larger_than_an_envelope_enters_the_log(bench: Bench, guard: Any) -> None:
    guard.remove(guards, "is_payload", lambda payload, config: True)
    guard.remove(guards, "_check_propose", lambda message, config, from_member: None)
    bench.elect("n1")
    with guard.verdict():
        with must_raise(CommandTooLarge):
            bench.propose("n1", 1, bytes(bench.config.command_bytes_max + 1))
        with must_raise(CommandTooLarge):
            bench.propose("n1", 1, *[bytes(bench.config.command_bytes_max)] * 2)
        oversized = [b"\x00" + bytes(bench.config.envelope_bytes_max + 1), 3, 1]
        message = append(1, 2, prevLogIdx=2, prevLogTerm=1, entries=[oversized])
        with must_raise(MessageRefused):
            bench.nodes["n2"].receive("n1", message, connection=bench.connections["n1", "n2"])


def test_S12_a_vote_counts_once(bench_of_five: Bench, guard: Any) -> None:
    """Two votes of n2 and its own are not three of five."""
    guard.remove(replication.Ballots, "is_first", lambda self, term, voter: True)
    bench = bench_of_five
    bench.stand("n1")
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    (vote,) = bench.deliver("n2", "n1")
    with guard.verdict():
        bench.nodes["n1"].receive("n2", vote, connection=bench.connections["n2", "n1"])
        assert bench.step("n1").status.role is Role.CANDIDATE


class FailsOnce:
    """Fails in the middle of applying entry 4, with the state half written, the first time."""

    def __init__(self, inner: Any, failures: list[int]) -> None:
        self.inner = inner
        self.failures = failures

    def applied_index(self, transaction: Any) -> int:
        return self.inner.applied_index(transaction)

    def digest(self, transaction: Any) -> bytes:
        return self.inner.digest(transaction)

    def apply(self, transaction: Any, *, index: int, proposal: Any) -> Applied:
        applied: Applied = self.inner.apply(transaction, index=index, proposal=proposal)
        if index in self.failures:
            self.failures.remove(index)
            raise ZeroDivisionError("a broken invariant")
        return applied


def test_S13_an_entry_is_applied_once_whatever_fails(bench: Bench, guard: Any) -> None:
    """The library would log the error, leave its index where it was, and apply the entry again on that node alone. Here
    the node refuses to go on, and after a restart applies it as if for the first time."""
    guard.remove(RaftNode, "close", lambda self: None)
    bench.elect("n1")
    node = bench.nodes["n2"]
    node._applier = FailsOnce(bench.appliers["n2"], [4])
    for seq in (1, 2):
        bench.propose("n1", seq)
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    bench.deliver("n1", "n2")
    with guard.verdict():
        with must_raise(ZeroDivisionError):
            node.step()
        with must_raise(LogBroken):
            node.step()
        with must_raise(LogBroken):
            node.commit()
        bench.crash("n2")
        bench.start("n2")
        assert bench.nodes["n2"].status.applied_index == 2
        bench.connect_all()
        bench.now += 0.2
        bench.settle()
        assert len(set(bench.digests().values())) == 1


def test_S14_a_replaced_connection_delivers_nothing_more(bench: Bench, guard: Any) -> None:
    """What still comes out of an old socket is older than what the new one brings: it would arrive out of order."""
    guard.remove(RaftNode, "receive", _receive_from_any_connection)
    bench.elect("n1")
    bench.propose("n1", 1)
    bench.step("n1")
    (message,) = bench.links["n1", "n2"]
    old = bench.connections["n1", "n2"]
    with guard.verdict():
        bench.connect("n1", "n2")
        bench.nodes["n2"].receive("n1", message, connection=old)
        assert bench.step("n2").status.last_index == 2
        bench.nodes["n2"].peer_disconnected("n1", connection=old)
        assert bench.nodes["n2"]._core.is_connected("n1"), "the loss of a replaced connection is no loss"


_RECEIVE = RaftNode.receive


def _receive_from_any_connection(node: RaftNode, peer: str, message: Any, *, connection: int) -> None:
    _RECEIVE(node, peer, message, connection=node._connections[peer])


def test_S15_a_stored_commit_index_ahead_of_the_log_is_not_believed(bench: Bench, guard: Any) -> None:
    guard.remove(LmdbJournal, "_stored_commit_index", lambda journal: journal._meta.commit_index())
    bench.elect("n1")
    bench.nodes["n1"]._journal._meta.put_commit_index(99)
    bench.disks["n1"].commit()
    bench.crash("n1")
    with guard.verdict():
        bench.start("n1")
        assert bench.step("n1").status.commit_index == 2


@pytest.mark.parametrize(
    "kind", ["apply_command", "apply_command_response", "transfer", "status", "add", "set_version"]
)
def test_S16_the_librarys_other_verbs_are_refused(bench: Bench, guard: Any, kind: str) -> None:
    guard.remove(guards, "check_message", lambda message, config, from_member: None)
    guard.remove(core, "_HANDLERS", core._HANDLERS | {kind: Core._pass_on})
    bench.elect("n1")
    before = bench.nodes["n2"].status
    message = {"type": kind, "term": 1, "request_id": 1, "command": b"\x03", "log_idx": 9, "log_term": 1}
    with guard.verdict():
        with must_raise(MessageRefused):
            bench.nodes["n2"].receive("n1", message, connection=bench.connections["n1", "n2"])
        assert bench.step("n2").status == before, "a refusal leaves the node as it was, and at work"


@pytest.mark.parametrize("type_byte", [b"\x02", b"\x03", b"\x80", b""])
def test_S16_entries_that_are_applied_by_pickle_are_refused(bench: Bench, guard: Any, type_byte: bytes) -> None:
    guard.remove(guards, "is_payload", lambda payload, config: True)
    bench.elect("n1")
    entry = [type_byte + (b"cbuiltins\nprint\n(tR." if type_byte else b""), 3, 1]
    message = append(1, 2, prevLogIdx=2, prevLogTerm=1, entries=[entry])
    with guard.verdict():
        with must_raise(MessageRefused):
            bench.nodes["n2"].receive("n1", message, connection=bench.connections["n1", "n2"])
        assert bench.nodes["n2"]._journal.last_index == 2


def test_S16_membership_code_version_and_transfer_are_not_offered(bench: Bench) -> None:
    bench.elect("n1")
    node = bench.nodes["n1"]
    assert node._outbox._onUtilityMessageCallbacks == {}
    with node._seams:
        with must_raise(LogBroken):
            node._core.setCodeVersion(0)
        with must_raise(Exception):
            node._core.addNodeToCluster("n9")
        with must_raise(LogBroken):
            node._core.transferLeadership()


def test_a_leader_counts_itself_only_for_what_is_on_its_disk(tmp_path: Any, guard: Any) -> None:
    """A majority of one is elected in the middle of a tick; its no-op is not committed in the same one."""
    guard.remove(Core, "_SyncObj__onBecomeLeader", syncobj.SyncObj._SyncObj__onBecomeLeader)
    bench = Bench(tmp_path, 1)
    bench.now += 2
    with guard.verdict():
        status = bench.step("n1").status
        assert (status.role, status.last_index, status.commit_index) == (Role.LEADER, 2, 1)
        assert bench.step("n1").status.commit_index == 2
    bench.close()


def test_counting_an_entry_before_it_is_on_the_disk_stops_the_process(bench: Bench, guard: Any) -> None:
    """Whatever might one day break the order of things: the assertion is there."""
    guard.remove(guards, "is_durable", lambda commit_index, durable_index: True)
    bench.elect("n1")
    bench.propose("n1", 1)
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.nodes["n1"]._core.durable_index = 2
    with guard.verdict(), must_raise(LogBroken):
        bench.nodes["n1"].step()
