"""One node of the replicated log, sans-IO: inputs in, `step()`, a `Ready` of values out. No socket, thread or clock.

A driver's tick:
    node.peer_connected / peer_disconnected / receive / propose / barrier ...    (any number of inputs)
    ready = node.step()
    send ready.immediate            (promises nothing about this node's disk)
    node.commit()                   (ONE LMDB commit with fsync; nothing was written: nothing is synced)
    send ready.held                 (acknowledgements, votes, results: what they say is on the disk now)
    hand out ready.results, ready.barriers, ready.events, ready.status
and the next tick begins with an input, or at `next_deadline()` at the latest. Steps and commits alternate.
An exception from anything but `propose` (CommandTooLarge, LogOverloaded), `barrier` (LogOverloaded) and `receive`
(MessageRefused: close that connection) means that the process must end at once: the node is broken, refuses every
further call with LogBroken, and its open transaction is aborted.

The messages are described in ready.py.
"""

from __future__ import annotations

import logging
import random as random_module
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from raftlog import guards
from raftlog.barriers import BarrierPassed, LeaderBarriers, LocalBarriers
from raftlog.config import Identity, RaftConfig
from raftlog.core import Core, Hooks
from raftlog.disk import Disk
from raftlog.envelope import decode
from raftlog.errors import CommandTooLarge, LogBroken, LogOverloaded, MessageRefused
from raftlog.interface import Applied, Applier, LogStatus, Proposal
from raftlog.journal import Entry, LmdbJournal
from raftlog.meta import MetaStore
from raftlog.outbox import Message, Outbox, Outgoing
from raftlog.proposals import LeaderProposals, LocalProposals, Result, Route, name_of
from raftlog.pysyncobj_bindings import NO_OP, REGULAR, Seams, verify_library
from raftlog.ready import AppliedEvents, Ready, grouped

__all__ = ["AppliedEvents", "BarrierPassed", "Message", "Outgoing", "RaftNode", "Ready", "Result"]

logger = logging.getLogger(__name__)

TIMER_SLACK_S = 0.001
"""The library's timers fire strictly after their time."""

INCARNATIONS_SKIPPED = 1000
"""Starts of a store that was lost which may have proposed something that no state shows yet, as a generous bound."""

_REFUSALS = (CommandTooLarge, LogOverloaded, MessageRefused)
"""Errors that leave the node as it was."""


class RaftNode:
    """See the module's head. Not thread-safe; several nodes with clocks of their own may live in one process."""

    def __init__(
        self,
        *,
        identity: Identity,
        config: RaftConfig,
        disk: Disk,
        applier: Applier,
        clock: Callable[[], float],
        random: random_module.Random,
    ) -> None:
        """Opens the journal on `disk`, counts the incarnation up and commits that. `clock` is monotonic seconds.

        Raises ValueError for settings that do not fit, LogRefused for a store of another cluster, node or format."""
        identity.validate()
        config.validate()
        verify_library()
        self._identity = identity
        self._config = config
        self._disk = disk
        self._applier = applier
        self._clock = clock
        self._outbox = Outbox()
        self._proposals = LocalProposals(config)
        self._leader_proposals = LeaderProposals(config)
        self._leader_barriers = LeaderBarriers()
        self._results: list[Result] = []
        self._events: list[AppliedEvents] = []
        self._connections = dict.fromkeys(identity.members, 0)
        self._broken = False
        self._stepped = False
        self._commit_seconds = 0.0
        try:
            self._core = self._open_store(random)
            disk.commit()
        except BaseException:
            disk.abort()
            raise
        self._core.committed()
        self._barriers = LocalBarriers(config, self._incarnation)
        self._status = self._current_status()

    def _open_store(self, random: random_module.Random) -> Core:
        meta = MetaStore(self._disk)
        self._journal = LmdbJournal(self._disk, meta, cache_bytes=self._config.journal_cache_bytes)
        self._incarnation = meta.open(self._identity)
        self._meta = meta
        self._is_nameless = not meta.joined()
        self._seams = Seams(clock=self._clock, random=random, journal=self._journal)
        with self._seams:
            return Core(
                identity=self._identity,
                config=self._config,
                seams=self._seams,
                journal=self._journal,
                meta=meta,
                disk=self._disk,
                applier=self._applier,
                outbox=self._outbox,
                hooks=Hooks(apply=self._apply_entry, take_envelopes=self._leader_proposals.take),
                applied_index=self._journal.checked(self._applier.applied_index(self._disk.transaction)),
            )

    @property
    def incarnation(self) -> int:
        """Durable; rises with every start of this node, also if its disk was lost in between: once, then, while it
        runs, before it takes in anything."""
        return self._incarnation

    @property
    def status(self) -> LogStatus:
        """As of the last step."""
        return self._status

    # Inputs.

    def peer_connected(self, peer: str) -> int:
        """A connection to a node was established, replacing any older one: messages of an older one are dropped from
        now on. Returns its number, to be named in `receive` and `peer_disconnected`. Who is no member is a learner."""
        with self._at_work():
            self._connections[peer] = self._connections.get(peer, 0) + 1
            self._core.peer_connected(peer)
            return self._connections[peer]

    def peer_disconnected(self, peer: str, *, connection: int) -> None:
        """The connection was lost. Ignored if a newer one has replaced it."""
        with self._at_work():
            if connection == self._connections[peer]:
                self._core.peer_disconnected(peer)

    def receive(self, peer: str, message: Message, *, connection: int) -> None:
        """Take in one message, in the order of the connection. Dropped silently if the connection has been replaced.

        Raises MessageRefused (nothing of it was used) for what no member of this version sends."""
        with self._at_work():
            if connection == self._connections.get(peer):
                guards.check_message(message, self._config, from_member=peer in self._identity.members)
                _RECEIVERS.get(message["type"], RaftNode._receive_consensus)(self, peer, message)

    def propose(self, proposal: Proposal) -> None:
        """Take in a local proposal (proposal.node is this node). It is kept and sent again, under the same id, until
        its result comes in a Ready or it is cancelled. Repeating a pending one does nothing.

        Raises CommandTooLarge or LogOverloaded (`proposals_pending_max`); both definite: it was not taken in."""
        with self._at_work():
            if proposal.node != self._identity.node:
                raise LogBroken(f"node {self._identity.node} proposes in the name of {proposal.node}")
            self._check_named()
            self._proposals.add(proposal)

    def cancel(self, *, incarnation: int, seq: int) -> None:
        """Forget a pending proposal: it is not sent again and gives no Result. What was sent may still be applied."""
        self._proposals.cancel((self._identity.node, incarnation, seq))

    def barrier(self, barrier_id: int) -> None:
        """Ask for a read barrier; answered by a BarrierPassed in some later Ready, or never.
        `barrier_id` is the caller's, unique among the pending ones. Raises LogOverloaded (`barriers_pending_max`)."""
        with self._at_work():
            self._check_named()
            self._barriers.add(barrier_id)

    def transfer(self, peer: str | None = None) -> None:
        """Hand the leadership to another member: `peer`, or the one that has most of the log. Meanwhile this leader
        appends nothing, for the shortest election timeout at most; if nobody else leads by then it goes on. Does
        nothing if this node does not lead, or if there is no such member that answers. The status tells the end."""
        with self._at_work():
            self._core.hand_over(peer)

    # A tick.

    def step(self) -> Ready:
        """Process the inputs, elect, replicate, apply a slice. Must be followed by `commit()`."""
        with self._at_work():
            if self._stepped:
                raise LogBroken("a step without the commit of the one before")
            self._stepped = True
            self._route_own()
            self._core.tick()
            self._maybe_take_name()
            self._lead_or_forget()
            self._core.send_snapshots()
            self._core.flush_answers()
            return self._take_ready()

    def commit(self) -> None:
        """Make the step durable: one commit with fsync, or nothing if nothing was written."""
        if not self._stepped:
            raise LogBroken("a commit without a step")
        self._stepped = False
        with self._at_work():
            began = self._clock()
            if self._disk.commit():
                self._commit_seconds = self._core.last_commit_s = self._clock() - began
            self._core.committed()

    def next_deadline(self) -> float:
        """The time, on `clock`, by which step() must be called again; not later than now when work is left over."""
        now = self._clock()
        if self._core.has_backlog() or (self._leader_proposals.waits and not self._core.is_handing_over()):
            return now
        routed = float("inf")
        if self._route() is not None:
            routed = min(self._proposals.next_deadline(), self._barriers.next_deadline())
        timer = self._core.next_deadline() + TIMER_SLACK_S
        return max(now, min(now + self._config.tick_wait_max_s, routed, timer))

    def close(self) -> None:
        """Abort an open transaction and refuse further calls. The disk stays open: it is its opener's."""
        self._broken = True
        self._core.snapshots_out.close()
        self._disk.abort()

    # Inside: names that were never used before.

    def _check_named(self) -> None:
        if self._is_nameless:
            raise LogOverloaded("this node's disk is new: it is still catching up")

    def _maybe_take_name(self) -> None:
        """What this node proposed and asked before its disk was lost must not be taken for what it does now, nor be
        answered to it. Once it has joined, its state knows under which incarnations that was."""
        if self._is_nameless and self._meta.joined():
            used = self._applier.incarnation_of(self._disk.transaction, self._identity.node)
            self._incarnation = self._meta.next_incarnation(least=used + INCARNATIONS_SKIPPED)
            self._barriers.begin(self._incarnation)
            self._is_nameless = False

    # Inside: the way of proposals and barriers.

    def _route(self) -> Route | None:
        """Where proposals and questions go now: this leader, or a leader that can be reached."""
        leader = self._core.leader()
        if leader is None or not (self._core.is_leader() or self._core.is_connected(leader)):
            return None
        return leader, self._core.term(), self._connections[leader]

    def _route_own(self) -> None:
        route = self._route()
        if route is None:
            return
        now = self._clock()
        for pending in self._proposals.take_due(now, route):
            if self._core.is_leader():
                self._leader_proposals.offer(self._identity.node, pending.name, pending.envelope)
            else:
                self._outbox.put(route[0], {"type": "propose", "envelope": pending.envelope})
        self._route_barriers(now, route)

    def _route_barriers(self, now: float, route: Route) -> None:
        round_number = self._barriers.take_round(now, route)
        if round_number is None:
            return
        if self._core.is_leader():
            self._leader_barriers.ask(self._identity.node, round_number)
        else:
            self._outbox.put(route[0], {"type": "barrier", "id": round_number})

    def _lead_or_forget(self) -> None:
        """After the tick: a leader answers and sends; anybody else owes the former followers nothing."""
        if not self._core.is_leader():
            self._leader_proposals.forget()
            self._leader_barriers.forget()
            return
        if self._core.has_applied_own_term():
            self._leader_barriers.number(self._core.commit_index(), self._core.next_append_seq())
        self._core.send_where_wanted(self._leader_barriers.wanted_seq())
        for question in self._leader_barriers.take_confirmed(self._core.is_echoed):
            self._answer_barrier(question.origin, question.round_number, question.read_index)

    def _answer_barrier(self, origin: str, round_number: int, read_index: int) -> None:
        if origin == self._identity.node:
            self._barriers.answer(round_number, read_index)
        else:
            self._outbox.put(origin, {"type": "barrier_result", "id": round_number, "index": read_index})

    # Inside: messages.

    def _receive_consensus(self, peer: str, message: Message) -> None:
        self._core.receive(peer, message)

    def _receive_propose(self, peer: str, message: Message) -> None:
        if self._core.is_leader():
            proposal = guards.forwarded_proposal(peer, message["envelope"])
            self._leader_proposals.offer(peer, name_of(proposal), message["envelope"])

    def _receive_result(self, peer: str, message: Message) -> None:
        self._resolve(message["incarnation"], message["seq"], message["replies"])

    def _receive_barrier(self, peer: str, message: Message) -> None:
        if self._core.is_leader():
            self._leader_barriers.ask(peer, message["id"])

    def _receive_barrier_result(self, peer: str, message: Message) -> None:
        self._barriers.answer(message["id"], message["index"])

    # Inside: applying.

    def _apply_entry(self, entry: Entry) -> None:
        payload, index, _ = entry
        proposal = None if payload == NO_OP else decode(payload[len(REGULAR) :])
        applied = self._applier.apply(self._disk.transaction, index=index, proposal=proposal)
        self._events.extend(grouped(index, applied.events))
        if proposal is not None:
            self._settle(proposal, applied)

    def _settle(self, proposal: Proposal, applied: Applied) -> None:
        """Hand the replies to whoever waits for them: here, or the node that forwarded the proposal to this leader."""
        origin = self._leader_proposals.applied(name_of(proposal))
        if len(applied.replies) != len(proposal.commands):
            # Another proposal under a name that was used: the applier answers the first one. Being in the log, it must
            # not stop the nodes, or no restart would get past it.
            logger.error("%d replies to %d commands of %s", len(applied.replies), len(proposal.commands), proposal.node)
        elif proposal.node == self._identity.node:
            self._resolve(proposal.incarnation, proposal.seq, applied.replies)
        elif origin is not None and sum(map(len, applied.replies)) <= self._config.result_bytes_max:
            content = {"incarnation": proposal.incarnation, "seq": proposal.seq, "replies": list(applied.replies)}
            self._outbox.put(origin, {"type": "result", **content})

    def _resolve(self, incarnation: int, seq: int, replies: Sequence[bytes]) -> None:
        result = self._proposals.resolve((self._identity.node, incarnation, seq), replies)
        if result is not None:
            self._results.append(result)

    # Inside: what comes out.

    def _take_ready(self) -> Ready:
        immediate, held = self._outbox.take()
        former, self._status = self._status, self._current_status()
        results, self._results = self._results, []
        events, self._events = self._events, []
        return Ready(
            immediate=immediate,
            held=held,
            results=results,
            barriers=self._barriers.take_passed(self._core.applied_index()),
            events=events,
            status=self._status,
            status_changed=_standing(former) != _standing(self._status),
        )

    def _current_status(self) -> LogStatus:
        return LogStatus(
            node=self._identity.node,
            role=self._core.role(),
            leader=self._core.leader(),
            term=self._core.term(),
            commit_index=self._core.commit_index(),
            applied_index=self._core.applied_index(),
            last_index=self._journal.last_index,
            quorum=self._core.has_quorum(),
            members=self._identity.members,
            proposals_pending=len(self._proposals),
            commit_seconds=self._commit_seconds,
            first_index=self._journal.first_index,
            log_bytes=self._core.log_bytes(),
            snapshots_sent=self._core.snapshots_out.installed,
            snapshots_received=self._core.snapshots_received,
        )

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Every call that can change anything. An exception in the middle leaves half a tick behind: the transaction is
        aborted and the node refuses to go on (trap 8)."""
        if self._broken:
            raise LogBroken("the log is closed, or an earlier error has broken it")
        try:
            with self._seams:
                yield
        except _REFUSALS:
            raise
        except BaseException:
            self.close()
            raise


_RECEIVERS: dict[str, Callable[[RaftNode, str, Message], None]] = {
    "propose": RaftNode._receive_propose,
    "result": RaftNode._receive_result,
    "barrier": RaftNode._receive_barrier,
    "barrier_result": RaftNode._receive_barrier_result,
}


def _standing(status: LogStatus) -> tuple[object, ...]:
    return status.role, status.leader, status.term, status.quorum, status.snapshots_received
