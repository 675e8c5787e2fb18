"""The traps of the library that cost time, memory or liveness: each with its guard, and again without it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from pysyncobj import syncobj
from raftlog_bench import Bench, must_raise

from raftlog import elections, guards, pysyncobj_bindings
from raftlog.config import RaftConfig
from raftlog.core import Core
from raftlog.errors import LogBroken, MessageRefused
from raftlog.interface import Applied, Role
from raftlog.node import RaftNode
from raftlog.proposals import LocalProposals

STOCK = syncobj.SyncObj


def entries_sent(bench: Bench, source: str, target: str) -> list[int]:
    """Indices of the entries under way."""
    messages = [message for message in bench.links[source, target] if message["type"] == "append_entries"]
    return [entry[1] for message in messages for entry in message["entries"]]


def test_trap_1_an_acknowledgement_does_not_send_again_what_is_under_way(bench: Bench, guard: Any) -> None:
    guard.remove(guards, "next_index_after", lambda success_next, before: success_next)
    bench.elect("n1")
    for seq in (1, 2):
        bench.propose("n1", seq)
        bench.step("n1")
    bench.deliver("n1", "n2", 1)
    bench.step("n2")
    bench.deliver("n2", "n1")
    assert entries_sent(bench, "n1", "n2") == [4]
    with guard.verdict():
        bench.step("n1")
        assert entries_sent(bench, "n1", "n2") == [4]


def test_trap_2_one_lost_message_is_sent_again_once(bench: Bench, guard: Any) -> None:
    """Each message behind the lost one is rejected; only the first rejection says something new."""
    guard.remove(guards, "is_new_reset", lambda message, reset_floor: True)
    bench.elect("n1")
    for seq in range(1, 6):
        bench.propose("n1", seq)
        bench.step("n1")
    bench.links["n1", "n2"].popleft()
    sent: list[int] = []
    with guard.verdict():
        for _ in range(4):
            bench.deliver("n1", "n2", 1)
            bench.step("n2")
        for _ in range(4):
            bench.deliver("n2", "n1", 1)
            bench.step("n1")
        sent = entries_sent(bench, "n1", "n2")
        assert sent == [3, 4, 5, 6, 7]
    bench.settle()
    assert bench.nodes["n2"].status.last_index == 7


def test_trap_3_a_follower_before_the_first_entry_does_not_spin_the_leader(bench: Bench, guard: Any) -> None:
    """Without a snapshot to send, the library tries for a whole heartbeat period; on a clock that stands still, for
    ever."""
    guard.remove(pysyncobj_bindings._NoSerializer, "getTransmissionData", lambda self, node: None)
    guard.remove(Core, "_SyncObj__sendAppendEntries", _stock_send_with_bound)
    bench.elect("n1")
    node = bench.nodes["n1"]
    with guard.verdict():
        for peer in node._core._peers:
            node._core._SyncObj__raftNextIndex[peer] = 1
        bench.now += 0.2
        kinds = [message["type"] for _, message in bench.step("n1").immediate]
        assert kinds == ["append_entries"] * 2 + ["snapshot_offer"] * 2


def _stock_send_with_bound(self: Core) -> None:
    calls = 0

    def monotonic() -> float:
        nonlocal calls
        calls += 1
        assert calls < 10_000, "spins"
        return 0.0

    former, syncobj.monotonicTime = syncobj.monotonicTime, monotonic
    put, self._outbox.put = self._outbox.put, lambda peer, message: None
    try:
        STOCK._SyncObj__sendAppendEntries(self)
    finally:
        syncobj.monotonicTime = former
        self._outbox.put = put


def test_trap_5_a_deposed_leader_is_told(bench: Bench, guard: Any) -> None:
    """n2 is terms ahead and hears an append of term 1: the library would keep silent, and n1 would go on for ever."""
    guard.remove(Core, "_answer_stale", lambda self, node: None)
    bench.elect("n1")
    with bench.nodes["n2"]._seams:
        bench.nodes["n2"]._core._step_down(7)
    with guard.verdict():
        bench.now += 0.2
        bench.settle()
        status = bench.nodes["n1"].status
        assert (status.role, status.term) == (Role.FOLLOWER, 7)


def test_trap_5_a_node_of_a_higher_term_finds_its_way_back(bench: Bench) -> None:
    bench.elect("n1")
    with bench.nodes["n2"]._seams:
        bench.nodes["n2"]._core._step_down(7)
    bench.run(4.0)
    statuses = [node.status for node in bench.nodes.values()]
    assert len({(status.leader, status.term) for status in statuses}) == 1
    assert statuses[0].leader is not None
    assert statuses[0].term > 7


class CallsBack:
    """Calls its node in the middle of applying, as a transport or a client's callback might."""

    def __init__(self, inner: Any, call: Any) -> None:
        self.inner = inner
        self.call = call

    def applied_index(self, transaction: Any) -> int:
        return self.inner.applied_index(transaction)

    def apply(self, transaction: Any, *, index: int, proposal: Any) -> Applied:
        self.call()
        applied: Applied = self.inner.apply(transaction, index=index, proposal=proposal)
        return applied


def test_trap_7_nothing_calls_back_into_a_step(bench: Bench, guard: Any) -> None:
    guard.remove(pysyncobj_bindings.Seams, "__enter__", lambda self: _enter_again(self))
    guard.remove(pysyncobj_bindings.Seams, "__exit__", lambda self, *error: None)
    bench.elect("n1")
    node = bench.nodes["n1"]
    connection = bench.connections["n2", "n1"]
    node._applier = CallsBack(bench.appliers["n1"], lambda: node.peer_disconnected("n2", connection=connection))
    bench.propose("n1", 1)
    try:
        with guard.verdict(), must_raise(LogBroken):
            bench.settle()
    finally:
        pysyncobj_bindings._at_work = None


def _enter_again(seams: Any) -> None:
    pysyncobj_bindings._at_work = seams


def test_trap_7_sending_cannot_close_a_connection(bench: Bench) -> None:
    """Sending only collects: whatever the network does later, it does outside the library's loops."""
    bench.elect("n1")
    outbox = bench.nodes["n1"]._outbox
    assert outbox.send(bench.nodes["n1"]._core._known["n2"], {"type": "response_vote", "term": 1})
    with must_raise(LogBroken):
        outbox.put("n2", {"type": "transfer", "term": 1})


class FailsAt:
    """Writes half of entry `index`, then fails."""

    def __init__(self, inner: Any, index: int) -> None:
        self.inner = inner
        self.index = index

    def applied_index(self, transaction: Any) -> int:
        return self.inner.applied_index(transaction)

    def apply(self, transaction: Any, *, index: int, proposal: Any) -> Applied:
        applied: Applied = self.inner.apply(transaction, index=index, proposal=proposal)
        if index == self.index:
            raise ZeroDivisionError("a broken invariant")
        return applied


def test_trap_8_an_error_in_a_tick_commits_nothing_of_it(tmp_path: Any, guard: Any) -> None:
    guard.remove(RaftNode, "close", lambda self: None)
    bench = Bench(tmp_path, 1)
    bench.now += 2
    for _ in range(3):
        bench.step("n1")
    node = bench.nodes["n1"]
    node._applier = FailsAt(bench.appliers["n1"], 4)
    for seq in (1, 2):
        bench.propose("n1", seq)
    bench.step("n1")
    with guard.verdict():
        with must_raise(ZeroDivisionError):
            node.step()
        with contextlib.suppress(LogBroken):
            node.commit()
        bench.crash("n1")
        bench.start("n1")
        assert bench.nodes["n1"].status.applied_index == 2, "entry 4 was half applied"
        assert bench.nodes["n1"].status.last_index == 4
    bench.close()


def test_trap_8_a_broken_node_refuses_everything(bench: Bench) -> None:
    node = bench.elect("n1")
    node._applier = FailsAt(bench.appliers["n1"], 3)
    bench.propose("n1", 1)
    with must_raise(ZeroDivisionError):
        bench.settle()
    for call in (node.step, node.commit, lambda: node.peer_connected("n2"), lambda: node.barrier(1)):
        with must_raise(LogBroken):
            call()


def test_trap_9_every_attribute_of_the_core_is_readable_before_it_is_set_up(
    guard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's constructor reads every name in dir(self): a property would run before what it needs is there."""
    if guard.removed:
        monkeypatch.setattr(Core, "last_index", property(lambda self: self._journal.last_index), raising=False)
    bare = Core.__new__(Core)
    with guard.verdict():
        for name in [*vars(Core), *vars(elections.Elections)]:
            try:
                getattr(bare, name)
            except AttributeError as error:
                raise AssertionError(f"{name} cannot be read: {error}") from error


def test_trap_12_no_entry_of_the_log_changes_who_counts(bench: Bench, guard: Any) -> None:
    """The library's membership changes take effect at the append, and are undone with a truncation that this journal
    does not make; and they are pickles. A node that believed one would count its majority among other members."""
    guard.remove(guards, "is_payload", lambda payload, config: True)
    guard.remove(elections, "library_settings", _with_membership)
    bench.crash("n2")
    bench.start("n2")  # the settings are read when a node starts
    bench.connect_all()
    bench.elect("n1")
    core = bench.nodes["n2"]._core
    members = set(core._SyncObj__otherNodes)
    add_n9 = b"\x02" + b"(lp0\nS'add'\np1\naS'127.0.0.1:9'\np2\na."
    message = {"type": "append_entries", "term": 1, "commit_index": 2, "prevLogIdx": 2, "prevLogTerm": 1, "seq": 99}
    with guard.verdict():
        with contextlib.suppress(MessageRefused, NotImplementedError):
            content = message | {"entries": [[add_n9, 3, 1]], "last_index": 3, "confirmed_seq": 0}
            bench.nodes["n2"].receive("n1", content, connection=bench.connections["n1", "n2"])
        assert set(core._SyncObj__otherNodes) == members
        assert bench.nodes["n2"]._journal.last_index == 2


def _with_membership(config: RaftConfig) -> Any:
    settings = pysyncobj_bindings.library_settings(config)
    settings.dynamicMembershipChange = True
    return settings


def test_trap_15_a_leader_that_nobody_answers_steps_down_soon(bench: Bench, guard: Any) -> None:
    """A one-way failure: n1's heartbeats arrive, the answers do not. The library's default is 30 seconds."""
    guard.remove(elections, "library_settings", _with_fallback_of_30_s)
    bench.elect("n1")
    if guard.removed:  # the settings are read when a node starts
        bench.crash("n1")
        bench.start("n1")
        bench.connect_all()
        bench.elect("n1")
    term = bench.nodes["n1"].status.term
    with guard.verdict():
        while bench.now < 1002.0 and bench.nodes["n1"].status.term == term:
            bench.now += 0.05
            for follower in ("n2", "n3"):
                bench.links[follower, "n1"].clear()
                bench.deliver("n1", follower)
                bench.step(follower)
            if bench.step("n1").status.role is not Role.LEADER:
                break
        assert bench.nodes["n1"].status.role is not Role.LEADER
        assert bench.now - 1000.0 <= bench.config.leader_fallback_s + 0.1


def _with_fallback_of_30_s(config: RaftConfig) -> Any:
    settings = pysyncobj_bindings.library_settings(config)
    settings.leaderFallbackTimeout = 30.0
    return settings


def test_trap_15_a_long_fallback_is_refused() -> None:
    with pytest.raises(ValueError, match="leader_fallback_s <= 3"):
        RaftConfig(leader_fallback_s=30.0).validate()


def test_a_leader_that_steps_down_waits_before_it_stands_again(bench: Bench, guard: Any) -> None:
    """Its election timer ran out long ago: it would stand in the same tick, and disturb whoever can be elected."""
    guard.remove(Core, "_SyncObj__setState", STOCK._SyncObj__setState)
    bench.elect("n1")
    bench.now += bench.config.leader_fallback_s + 0.1
    bench.step("n1")
    with guard.verdict():
        bench.now += 0.001
        ready = bench.step("n1")
        assert (ready.status.role, ready.status.term) == (Role.FOLLOWER, 1)
        assert not ready.immediate, "it asks for pre-votes"


def test_trap_16_a_forwarded_command_that_came_to_nothing_is_sent_again(bench: Bench, guard: Any) -> None:
    """The node it was sent to had just lost its role, or was overloaded; nobody would ever call back."""
    guard.remove(LocalProposals, "_due_at", lambda self, pending: -1.0 if pending.sent_at is None else float("inf"))
    bench.elect("n1")
    bench.propose("n2", 1)
    bench.step("n2")
    assert [message["type"] for message in bench.links["n2", "n1"]] == ["propose"]
    bench.links["n2", "n1"].clear()
    with guard.verdict():
        bench.run(bench.config.retry_s + 0.2)
        assert [result.seq for result in bench.results["n2"]] == [1]


def test_trap_16_a_forwarded_command_lost_with_its_connection_is_sent_on_the_next(bench: Bench, guard: Any) -> None:
    guard.remove(RaftNode, "_route", lambda self: (self._core.leader(), self._core.term(), 0))
    bench.elect("n1")
    bench.propose("n2", 1)
    bench.step("n2")
    bench.connect("n1", "n2")
    with guard.verdict():
        bench.settle()
        assert [result.seq for result in bench.results["n2"]] == [1]


def test_trap_16_a_command_whose_result_is_lost_takes_effect_once(bench: Bench) -> None:
    """n2 is out of touch when its command is committed, and asks again under the same name."""
    bench.elect("n1")
    bench.propose("n2", 1, b"once")
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.disconnect("n1", "n2")
    bench.settle()
    assert bench.nodes["n1"].status.applied_index == 3
    bench.connect("n1", "n2")
    bench.run(1.0)
    assert [list(result.replies) for result in bench.results["n2"]] == [[b"1"]]
    transaction = bench.disks["n3"].transaction
    assert bench.appliers["n3"].count(transaction) == 1


def test_trap_17_no_pipe_counts_the_commands(bench: Bench, guard: Any) -> None:
    """With appendEntriesUseBatch=False the library wakes itself through a pipe that is full after 65,536 commands."""
    guard.remove(elections, "library_settings", _without_batch)
    with guard.verdict():
        bench.crash("n1")
        try:
            bench.start("n1")
        except AttributeError as error:
            raise AssertionError("a pipe was subscribed") from error
        assert not hasattr(bench.nodes["n1"]._core, "_SyncObj__pipeNotifier")


def _without_batch(config: RaftConfig) -> Any:
    settings = pysyncobj_bindings.library_settings(config)
    settings.appendEntriesUseBatch = False
    return settings


def test_a_lagging_follower_is_sent_no_more_than_its_window(bench: Bench, guard: Any) -> None:
    """The library queues the whole missing log at once, whatever its size."""
    config = RaftConfig(append_batch_bytes=300 * 1024, in_flight_bytes_max=400 * 1024)
    bench.elect("n1")
    node = bench.nodes["n1"]
    node._core._config = config if not guard.removed else dataclasses.replace(config, in_flight_bytes_max=1 << 40)
    bench.disconnect("n1", "n2")
    for seq in range(1, 31):
        bench.propose("n1", seq, bytes(100 * 1024))
        bench.settle()
    bench.connect("n1", "n2")
    with guard.verdict():
        largest = 0
        for _ in range(40):
            bench.now += 0.05
            bench.step("n1")
            largest = max(largest, len(entries_sent(bench, "n1", "n2")))
            bench.deliver("n1", "n2")
            bench.step("n2")
            bench.deliver("n2", "n1")
        assert bench.nodes["n2"].status.last_index == bench.nodes["n1"].status.last_index == 32
        assert largest <= 7, "two batches of three, and one entry over each"
