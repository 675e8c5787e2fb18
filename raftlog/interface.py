"""What raftlog promises, and the seams it is driven through.

A `Log` is a replicated, durable, ordered log of byte strings. It knows no command, no job and no run: what the bytes
mean is the business of the `Applier` that the composition root hands in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Protocol

Transaction = Any
"""An open LMDB write transaction; opaque to everybody but the journal and the applier."""

EVERY_NODE = "*"
"""The event topic that every node's process receives; any other topic is a node id."""


class Role(StrEnum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Lane(IntEnum):
    """How a command waits for the log: the lanes are served in this order, each has room of its own under way, and
    only within a lane is the order that of the calls."""

    URGENT = 0
    """Few and small, and the node's standing depends on them: leases."""
    WORK = 1
    """What the node itself has to do; it cannot be put off for long."""
    CLIENT = 2
    """Whoever asks can be told to wait: the first to be slowed down, by growing times and then by LogOverloaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """One log entry's content: commands of one proposer, committed and applied together.

    (node, incarnation, seq) names it for ever: a retry carries the same three, so that the applier can drop repeats.
    `acknowledged` is the highest seq below which the proposer has seen every result and will never ask again.
    """

    node: str
    incarnation: int
    seq: int
    acknowledged: int
    commands: Sequence[bytes]


class Event(NamedTuple):
    """A hint for the node processes: `topic` is EVERY_NODE or a node id, `body` is the applier's encoding."""

    topic: str
    body: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """What applying one proposal gave: a reply a command, in order, and the events for the node processes."""

    replies: Sequence[bytes]
    events: Sequence[Event] = field(default=())


class StateCopy(Protocol):
    """The state as of one moment, to be read in chunks while it goes on changing. It keeps every page that it reads
    from being used again: close it as soon as possible."""

    @property
    def index(self) -> int:
        """The index that it stands at."""
        ...

    def read(self, position: bytes, bytes_max: int) -> tuple[bytes, bytes | None]:
        """The chunk at a position (b"": the beginning) of about `bytes_max`, and the position behind it; None: that was
        the last one. The same position and size give the same chunk."""
        ...

    def close(self) -> None: ...


class Applier(Protocol):
    """The state machine as the log sees it. All calls but `copy_state` run inside the tick's write transaction and
    never raise on input; an exception is a broken invariant and stops the process before anything of the tick is
    committed.

    Beside the state there is room for a copy of another node's, received chunk by chunk; what is in there is no part of
    the state until `install`."""

    def applied_index(self, transaction: Transaction) -> int:
        """The index that the state in this transaction stands at; 0 for an empty store."""
        ...

    def incarnation_of(self, transaction: Transaction, node: str) -> int:
        """The last incarnation under which a proposal of `node` was applied; 0: none was."""
        ...

    def apply(self, transaction: Transaction, *, index: int, proposal: Proposal | None) -> Applied:
        """Apply the entry at `index`, which must be applied_index + 1. None is an entry without commands
        (a new leader's no-op): it only moves the index."""
        ...

    def copy_state(self) -> StateCopy:
        """The state as it is committed now."""
        ...

    def receive(self, transaction: Transaction, chunk: bytes) -> bool:
        """Take in the next chunk of a copy; False if it is none, or not the next. The room must have been empty before
        the first one."""
        ...

    def install(self, transaction: Transaction, *, index: int) -> bool:
        """What was received becomes the state; False, without any effect, if it does not stand at `index`."""
        ...

    def discard(self, transaction: Transaction) -> bool:
        """Empty the room: a step's worth of it. Whether nothing is left in it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LogStatus:
    """A snapshot of this node's view; may be stale the moment it is read."""

    node: str
    role: Role
    leader: str | None
    term: int
    commit_index: int
    applied_index: int
    last_index: int
    quorum: bool
    """Leader: a majority answered within the fallback timeout. Follower: a live leader was heard within it."""
    members: tuple[str, ...]
    proposals_pending: int = 0
    commit_seconds: float = 0.0
    """Duration of the last LMDB commit (fsync included)."""
    first_index: int = 1
    """Of the log as it is kept here; what is before it is in the state only."""
    log_bytes: int = 0
    """What the log takes on this node's disk."""
    snapshots_sent: int = 0
    """Copies of the state that others installed from here, since the start."""
    snapshots_received: int = 0
    """Copies of another node's state that were installed here, since the start. Each stands for entries that were never
    applied here, so their events were never told: whoever lives by events must read the state anew."""
    disk_free_bytes: int | None = None
    """Room for this node's data, freed pages of its file included; None before the first look."""
    low_disks: tuple[str, ...] = ()
    """Members that this node knows to be short of room."""
    refuses_clients: bool = False
    """Whether Lane.CLIENT is refused for want of room: here, or on so many nodes that no majority has any."""


EventListener = Callable[[int, Sequence[bytes]], None]
"""(applied index, event bodies): called after the commit that contains them."""

StatusListener = Callable[[LogStatus], None]


class Log(Protocol):
    """The replicated log as the node process uses it. Implementations: `client.LogClient` (the log process over a Unix
    socket) and `memory.MemoryLog` (in-process twin); both pass tests/raftlog/raftlog_conformance.py."""

    @property
    def incarnation(self) -> int:
        """Rises with every start of this node's log; part of every proposal's name."""
        ...

    @property
    def status(self) -> LogStatus: ...

    async def propose(self, command: bytes, *, lane: Lane = Lane.CLIENT, timeout_s: float = 10.0) -> bytes:
        """Commit one command (grouped with others of its lane that are waiting) and return the applier's reply to it.

        Raises CommandTooLarge, LogOverloaded, DiskFull, LogClosed (definite: nothing happened, nor will) or
        OutcomeUnknown (indefinite: the time is over; it may happen yet). Retries under the same id happen inside, until
        `timeout_s` is over."""
        ...

    async def read_barrier(self, *, timeout_s: float = 5.0) -> int:
        """An index R such that everything acknowledged before the call is at or below R; returns once this node has
        applied AND committed R, so a NEW read transaction sees it. Raises NoQuorum after `timeout_s`."""
        ...

    async def transfer_leadership(self, to: str | None = None, *, timeout_s: float = 2.0) -> bool:
        """If this node leads, hand the leadership to another member: `to`, or the one that has most of the log. Returns
        whether this node does not lead (any more); False after `timeout_s` or if nobody can take over: it goes on.

        Costs the cluster a round trip instead of an election timeout. Proposals wait meanwhile, none is lost. Raises
        ValueError if `to` is not another member, LogClosed."""
        ...

    def subscribe(self, topic: str, listener: EventListener) -> None:
        """Hear the events of a topic. An event may be lost with a process: rebuild from the state at start."""
        ...

    def on_status(self, listener: StatusListener) -> None:
        """Hear every change of role, leader, term, quorum or snapshots_received (other changes are sampled, at least
        once a second)."""
        ...

    async def close(self) -> None: ...
