"""The library's consensus with its losses closed: what is overridden, and the plain names under which the rest is read.

All uses of the library's private names are in this file, elections.py and state_copies.py;
pysyncobj_bindings.verify_library checks each at start-up.
No properties here: the library's constructor reads every attribute of the object before this class is set up (trap 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from raftlog import guards
from raftlog.config import Identity, RaftConfig
from raftlog.disk import Disk
from raftlog.errors import LogBroken, MessageRefused
from raftlog.interface import Applier
from raftlog.journal import Entry, LmdbJournal
from raftlog.meta import MetaStore
from raftlog.outbox import Message, Outbox
from raftlog.pysyncobj_bindings import REGULAR, PeerNode, Seams
from raftlog.replication import Answer, Answers, Follower, is_reset_to_act_upon
from raftlog.state_copies import StateCopies


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """What the core asks its node for, inside a tick."""

    apply: Callable[[Entry], None]
    """Apply the next committed entry. An exception ends the process."""
    take_envelopes: Callable[[], Iterable[bytes]]
    """Envelopes for this node, the leader, to append."""


class Core(StateCopies):
    """One member's consensus. Every call must happen inside `with seams`."""

    def __init__(
        self,
        *,
        identity: Identity,
        config: RaftConfig,
        seams: Seams,
        journal: LmdbJournal,
        meta: MetaStore,
        disk: Disk,
        applier: Applier,
        outbox: Outbox,
        hooks: Hooks,
        applied_index: int,
    ) -> None:
        self._hooks = hooks
        self._answers = Answers()
        self._answering_seq = 0
        self._in_tick = False
        self._elected_in_tick = False
        super().__init__(
            identity=identity,
            config=config,
            seams=seams,
            journal=journal,
            meta=meta,
            disk=disk,
            applier=applier,
            outbox=outbox,
        )
        self._SyncObj__raftLastApplied = applied_index
        self.committed()
        self.last_commit_s = 0.0

    # What the node asks.

    def committed(self) -> None:
        """What there is, is on this disk."""
        self.durable_index = self._journal.last_index
        self.durable_applied_index = self.applied_index()

    def has_backlog(self) -> bool:
        """Whether another step, without any input, has something to apply or to commit."""
        alone = self._majority == 1 and self.is_leader()
        waits = self.snapshots_out.has_more or self._snapshots_in.waits_for_room()
        commits = alone and self.commit_index() < self.durable_index
        return waits or commits or self.applied_index() < self.commit_index()

    # Read barriers.

    def has_applied_own_term(self) -> bool:
        """Whether this leader's own no-op is applied: only then does its commit index cover all that was
        acknowledged."""
        return self.is_leader() and self.applied_index() >= int(self._SyncObj__noopIDx)

    def next_append_seq(self) -> int:
        """The number of the next append_entries: an echo of it or a later one proves leadership after now."""
        return self._append_seq + 1

    def is_echoed(self, seq: int) -> bool:
        """Whether a majority, this leader included, has answered the append_entries `seq` or a later one."""
        echoes = sum(self._followers[peer.id].echoed_seq >= seq for peer in self._peers)
        return 1 + echoes >= self._majority

    def _confirmed_seq(self) -> int:
        """The last append_entries of which that is true."""
        echoed = sorted((self._followers[peer.id].echoed_seq for peer in self._peers), reverse=True)
        return self._append_seq if self._majority == 1 else echoed[self._majority - 2]

    # Inputs.

    def peer_connected(self, peer: str) -> None:
        self.snapshots_out.connected(peer)
        if peer not in self._known:
            self._learner_connected(peer)
        elif self._known[peer] in self._peers:
            self._outbox._onNodeConnected(self._known[peer])
        self._followers[peer].forget_in_flight()

    def peer_disconnected(self, peer: str) -> None:
        if self._known[peer] in self._peers:
            self._outbox._onNodeDisconnected(self._known[peer])
        else:
            self._learner_disconnected(peer)

    def receive(self, peer: str, message: Message) -> None:
        self._outbox._onMessageReceived(self._known[peer], message)

    def _learner_connected(self, peer: str) -> None:
        """It is sent what members are sent, and is counted nowhere: the library calls such a node read-only."""
        self._known[peer] = PeerNode(peer)
        self._followers[peer] = Follower(reset_floor=self._append_seq)
        self._outbox._onReadonlyNodeConnected(self._known[peer])

    def _learner_disconnected(self, peer: str) -> None:
        """Nothing is kept for one that has gone: it may never come back, or under another name."""
        node = self._known.pop(peer)
        del self._followers[peer]
        self._catching_up.pop(peer, None)
        self._SyncObj__lastResponseTime.pop(node, None)
        self._outbox._onReadonlyNodeDisconnected(node)

    def tick(self) -> None:
        """Elect, commit, apply a slice, append what the node has."""
        before = self.commit_index()
        self._stand_if_told()
        self._in_tick = True
        self._onTick(0.0)
        self._in_tick = False
        self._has_stood_if_told()
        if self.commit_index() > before and not guards.is_durable(self.commit_index(), self.durable_index):
            raise LogBroken(
                f"entry {self.commit_index()} was counted before it was on this disk ({self.durable_index})"
            )
        if self._elected_in_tick:
            self._elected_in_tick = False
            super()._SyncObj__onBecomeLeader()
        self._go_on_with_handover()
        self._snapshots_in.work(self.commit_index())

    def send_where_wanted(self, barrier_seq: int) -> None:
        """Send to each follower that lacks entries, the commit index, or a message numbered `barrier_seq` or later."""
        if not self.is_leader():
            return
        for peer in self._known.values():
            follower = self._followers[peer.id]
            behind = self._may_send_entries(peer, follower) or follower.sent_commit_index < self.commit_index()
            if self.is_connected(peer.id) and (behind or follower.sent_seq < barrier_seq):
                self._send_append(peer, follower)

    def flush_answers(self) -> None:
        """Hand the tick's acknowledgements to the outbox, merged."""
        for peer, message in self._answers.take():
            self._outbox.put(peer, message)
        answer = self._snapshots_in.take_answer()
        if answer is not None:
            self._outbox.put(*answer)

    # Overrides: messages.

    def _SyncObj__onMessageReceived(self, node: PeerNode, message: Message) -> None:  # noqa: N802
        _HANDLERS[message["type"]](self, node, message)

    def _on_append(self, node: PeerNode, message: Message) -> None:
        term = self.term()
        self._answering_seq = message.get("seq", 0)
        if message["term"] < term:
            self._answer_stale(node)
            return
        if message["term"] == term and (self.is_leader() or self.leader() not in (None, node.id)):
            raise LogBroken(f"two leaders in term {term}: {node.id} and {self.leader()}")
        self._assert_committed_prefix(node, message)
        self._pass_on(node, guards.bounded_append(message))
        self._pre_votes.forget()
        self._heard_leader_at = self._clock()
        confirmed_seq = message.get("confirmed_seq", 0)
        self._joining.heard(self.term(), message.get("last_index", 0), self._answering_seq, confirmed_seq)

    def _assert_committed_prefix(self, node: PeerNode, message: Message) -> None:
        """A leader holds everything that is committed: one that differs there would be rejected for ever, and
        unseen."""
        previous_index = message.get("prevLogIdx", 0)
        if self._journal.first_index <= previous_index <= self.commit_index():
            term = self._journal.entry(previous_index)[2]
            if term != message["prevLogTerm"]:
                raise LogBroken(f"entry {previous_index} is committed here in term {term}, {node.id} has another")

    def _answer_stale(self, node: PeerNode) -> None:
        """Tell a deposed leader so: the library keeps silent, and a leader of an older term would never learn it (trap
        5)."""
        self._answers.add(node.id, Answer(self.term(), self._answering_seq, 1, False, False))

    def _on_answer(self, node: PeerNode, message: Message) -> None:
        if message["term"] > self.term():
            self._step_down(message["term"])
            return
        if not self.is_leader() or not guards.is_current_answer(message, self.term()):
            return
        if message["next_node_idx"] > self._journal.last_index + 1:
            raise MessageRefused(f"an answer of {node.id} about entries that this leader does not have")
        self._take_answer(node, message)

    def _take_answer(self, node: PeerNode, message: Message) -> None:
        follower = self._followers[node.id]
        follower.echoed(message["seq"], joined=message["joined"])
        reset = is_reset_to_act_upon(follower, message)
        before = self._SyncObj__raftNextIndex[node]
        self._pass_on(node, message | {"reset": reset})
        if reset:
            follower.reset_floor = self._append_seq
            follower.forget_in_flight()
        else:
            self._SyncObj__raftNextIndex[node] = guards.next_index_after(self._SyncObj__raftNextIndex[node], before)

    def _SyncObj__sendNextNodeIdx(  # noqa: N802
        self,
        node: PeerNode,
        reset: bool = False,
        nextNodeIdx: int | None = None,  # noqa: N803
        success: bool = False,
    ) -> None:
        """A rejection names the entry after the commit index, which always fits the leader's log: the library's own
        guesses step back one entry a round trip, or jump ahead (trap 14)."""
        next_index = self.commit_index() + 1 if reset else nextNodeIdx or self._journal.last_index + 1
        joined = self._joining.has_joined()
        if not joined:
            # What it says it has, it helps to commit: nothing, beyond what is committed without it (S5).
            next_index = min(next_index, self.commit_index() + 1)
        self._answers.add(node.id, Answer(self.term(), self._answering_seq, next_index, reset, success, joined))

    # Overrides: becoming the leader.

    def _SyncObj__onBecomeLeader(self) -> None:  # noqa: N802
        """A majority of one is elected in the middle of a tick, before the commit rule runs: its no-op waits until
        after, or it would be counted before it is on the disk."""
        if self._in_tick:
            self._elected_in_tick = True
            return
        for peer_id in self._followers:
            self._followers[peer_id] = Follower(reset_floor=self._append_seq, echoed_seq=0)
        super()._SyncObj__onBecomeLeader()

    # Overrides: appending, sending, applying.

    def _checkCommandsToApply(self) -> None:  # noqa: N802
        """Append the node's envelopes. The library's own queue, its forwarding and its callbacks are not used: they
        lose track of a command across a lost connection or a change of leader (trap 16)."""
        if self.is_leader() and not self.is_handing_over():
            for envelope in self._hooks.take_envelopes():
                self._journal.add(REGULAR + envelope, self._journal.last_index + 1, self.term())

    def _SyncObj__sendAppendEntries(self) -> None:  # noqa: N802
        self._SyncObj__newAppendEntriesTime = self._clock() + self._config.heartbeat_s
        for peer in self._known.values():
            if self.is_connected(peer.id):
                self._send_append(peer, self._followers[peer.id])

    def _send_append(self, peer: PeerNode, follower: Follower) -> None:
        """One append_entries at least, further ones while the follower lacks entries and its window has room."""
        self._send_one_append(peer, follower)
        while self._may_send_entries(peer, follower):
            self._send_one_append(peer, follower)

    def _may_send_entries(self, peer: PeerNode, follower: Follower) -> bool:
        room = follower.in_flight_bytes < self._config.in_flight_bytes_max
        lacks = self._SyncObj__raftNextIndex[peer] <= self._journal.last_index
        return bool(room and lacks and not self._needs_snapshot(peer))

    def _send_one_append(self, peer: PeerNode, follower: Follower) -> None:
        next_index = self._next_index(peer)
        entries: list[Entry] = []
        if self._may_send_entries(peer, follower):
            entries = self._journal.batch(next_index, self._config.append_batch_bytes)
            self._SyncObj__raftNextIndex[peer] = next_index + len(entries)
        self._append_seq += 1
        self._outbox.put(peer.id, self._append_message(next_index - 1, entries))
        follower.sent(self._append_seq, sum(len(entry[0]) for entry in entries), self.commit_index())

    def _next_index(self, peer: PeerNode) -> int:
        """A follower that needs a copy of the state gets heartbeats all the same, with the oldest entry that can be
        compared. The library would send pieces of a snapshot instead, in a loop that spins without one (trap 3)."""
        return max(int(self._SyncObj__raftNextIndex[peer]), self._journal.first_index + 1)

    def _append_message(self, previous_index: int, entries: list[Entry]) -> Message:
        return {
            "type": "append_entries",
            "term": self.term(),
            "commit_index": self.commit_index(),
            "entries": entries,
            "prevLogIdx": previous_index,
            "prevLogTerm": self._journal.entry(previous_index)[2],
            "seq": self._append_seq,
            "last_index": self._journal.last_index,
            "confirmed_seq": self._confirmed_seq(),
        }

    def _SyncObj__applyLogEntries(self) -> bool:  # noqa: N802
        """Apply for one slice of time. Nothing is swallowed and nobody is called back: a raising callback made the
        library apply the same entry again, on that node alone (S13)."""
        slice_s = min(max(self._config.apply_slice_s, self.last_commit_s), self._config.apply_slice_max_s)
        slice_end = self._clock() + slice_s
        while self.applied_index() < self.commit_index():
            index = self.applied_index() + 1
            entry = self._journal.entry(index)
            self._hooks.apply(entry)
            self._SyncObj__raftLastApplied = index
            self._joining.applied(entry[2], index)
            if self._clock() >= slice_end:
                break
        return False

    # What the library offers and this log does not (S16): entries of pickle, and an order to stand to whoever is asked.

    def _applyCommand(self, command: bytes, callback: Any, commandType: Any = None) -> None:  # noqa: N802, N803
        raise LogBroken("commands enter the log as envelopes")

    def transferLeadership(self, node: Any = None, callback: Any = None) -> None:  # noqa: N802
        raise LogBroken("the leadership is handed over by hand_over")


_HANDLERS: dict[str, Callable[[Core, PeerNode, Message], None]] = {
    "append_entries": Core._on_append,
    "next_node_idx": Core._on_answer,
    "request_vote": Core._on_vote_request,
    "response_vote": Core._on_vote,
    "pre_vote": Core._on_pre_vote,
    "pre_vote_answer": Core._on_pre_vote_answer,
    "timeout_now": Core._on_timeout_now,
    "snapshot_offer": Core._on_snapshot_offer,
    "snapshot_chunk": Core._on_snapshot_chunk,
    "snapshot_answer": Core._on_snapshot_answer,
}
