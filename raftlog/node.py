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

Messages between nodes are dicts of msgpack types. Field types: int unless said otherwise.
    append_entries  term, commit_index, prevLogIdx, prevLogTerm, entries: [[payload: bytes, index, term], ...],
                    seq, last_index
    next_node_idx   term, next_node_idx, reset: bool, success: bool, seq     (the answer; seq echoes the append's)
    request_vote    term, last_log_index, last_log_term
    response_vote   term
    propose         envelope: bytes                                          (forwarded to the leader; see envelope.py)
    result          incarnation, seq, replies: [bytes, ...]                  (the leader's answer to it)
    barrier         id                                                       (forwarded to the leader)
    barrier_result  id, index
All integers are >= 0 and < 2**63. Anything else is refused.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from raftlog.config import Identity, RaftConfig
from raftlog.disk import Disk
from raftlog.interface import Applier, LogStatus, Proposal

Message = dict[str, Any]


class Outgoing(NamedTuple):
    """Send `message` to `peer` over its current connection, in the order of the list; drop it if there is none."""

    peer: str
    message: Message


class Result(NamedTuple):
    """The applier's replies to a local proposal, one a command. Handed out once a proposal."""

    incarnation: int
    seq: int
    replies: Sequence[bytes]


class BarrierPassed(NamedTuple):
    """Everything acknowledged before `barrier(barrier_id)` is at or below `read_index`, which this node has committed."""

    barrier_id: int
    read_index: int


class AppliedEvents(NamedTuple):
    """Events of one topic that applying the entry at `applied_index` gave."""

    applied_index: int
    topic: str
    bodies: Sequence[bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """What one step wants done; see the module's head for the order."""

    immediate: Sequence[Outgoing]
    held: Sequence[Outgoing]
    results: Sequence[Result]
    barriers: Sequence[BarrierPassed]
    events: Sequence[AppliedEvents]
    status: LogStatus
    status_changed: bool
    """Role, leader, term or quorum differ from the last step's."""


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
        raise NotImplementedError

    @property
    def incarnation(self) -> int:
        """Durable; rises with every start on this disk."""
        raise NotImplementedError

    @property
    def status(self) -> LogStatus:
        """As of the last step (`commit_seconds`: of the last commit)."""
        raise NotImplementedError

    def peer_connected(self, peer: str) -> int:
        """A connection to a member was established, replacing any older one: messages of an older one are dropped from
        now on. Returns the connection's number, to be named in `receive` and `peer_disconnected`."""
        raise NotImplementedError

    def peer_disconnected(self, peer: str, *, connection: int) -> None:
        """The connection was lost. Ignored if a newer one has replaced it."""
        raise NotImplementedError

    def receive(self, peer: str, message: Message, *, connection: int) -> None:
        """Take in one message, in the order of the connection. Dropped silently if the connection has been replaced.

        Raises MessageRefused (nothing of it was used) for what no member of this version sends."""
        raise NotImplementedError

    def propose(self, proposal: Proposal) -> None:
        """Take in a local proposal (proposal.node is this node). It is kept and sent again, under the same id, until
        its result comes in a Ready or it is cancelled. Repeating a pending one does nothing.

        Raises CommandTooLarge or LogOverloaded (`proposals_pending_max`); both definite: it was not taken in."""
        raise NotImplementedError

    def cancel(self, *, incarnation: int, seq: int) -> None:
        """Forget a pending proposal: it is not sent again and gives no Result. What was sent may still be applied."""
        raise NotImplementedError

    def barrier(self, barrier_id: int) -> None:
        """Ask for a read barrier; answered by a BarrierPassed in some later Ready, or never (then cancel it).
        `barrier_id` is the caller's, unique among the pending ones. Raises LogOverloaded (`barriers_pending_max`)."""
        raise NotImplementedError

    def cancel_barrier(self, barrier_id: int) -> None:
        """Forget a pending barrier."""
        raise NotImplementedError

    def step(self) -> Ready:
        """Process the inputs, elect, replicate, apply a slice. Must be followed by `commit()`."""
        raise NotImplementedError

    def commit(self) -> None:
        """Make the step durable: one commit with fsync, or nothing if nothing was written."""
        raise NotImplementedError

    def next_deadline(self) -> float:
        """The time, on `clock`, by which step() must be called again; not later than now when work is left over."""
        raise NotImplementedError

    def close(self) -> None:
        """Abort an open transaction and refuse further calls. The disk stays open: it is its opener's."""
        raise NotImplementedError
