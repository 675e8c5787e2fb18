"""How much room a node's disk has, and what is given up, in which order, when it runs out.

    enough     everything
    low        this node's clients are refused (`DiskFull`), and a leader hands over to a member that has room. When
               fewer than a majority have room, no node takes clients. Leases, results and deletes go on everywhere.
    out        the node stands aside: it proposes nothing and is cut off from the others, so it writes nothing. They go
               on without it, as without one that is dead, and it can still say why.

Both end by themselves when there is room again. The members tell each other who is low (`disk` messages), so that a
leader knows whom to hand over to before it has to. The levels are kept well above what a commit needs; one that fails
all the same ends the process, with nothing lost that was acknowledged (storage_faults.py).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

from raftlog.config import MIB
from raftlog.connection import Message
from raftlog.errors import DiskFull, MessageRefused
from raftlog.interface import LogStatus, Proposal, Role
from raftlog.outbox import Outgoing
from raftlog.ready import Ready

logger = logging.getLogger(__name__)

LOOK_PERIOD_S: Final = 0.1
"""Between two looks at the disk. Writing 100 MB/s takes 10 MB meanwhile, a sixth of what is kept free at the least."""
HAND_OVER_PERIOD_S: Final = 2.0
"""Between two attempts of a leader to get rid of its office: each holds clients up for 0.6 s if it fails."""
READERS_PERIOD_S: Final = 10.0
"""Between two looks for readers that died in a transaction."""
STAND_ASIDE_AFTER_S: Final = 1.0
"""How long a leader whose disk is out tries to hand over before it leaves the others to notice that it is gone."""
META_PAGES: Final = 2
"""At the head of the file."""
MESSAGE: Final = "disk"
"""The type of what members tell each other: {"type": "disk", "low": bool}."""


class Room(NamedTuple):
    """Bytes that can still be written, of how many there are."""

    free_bytes: int
    total_bytes: int


class Level(IntEnum):
    ENOUGH = 0
    LOW = 1
    OUT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceLimits:
    """The levels, in bytes free. On a small file system they shrink together, until the reserve is `share` of it."""

    reserve_bytes: int = 256 * MIB
    """Below it the disk is low. A busy cluster's own work writes a few MB/s: minutes to free something."""
    stop_bytes: int = 64 * MIB
    """Below it the disk is out. The largest commits write some MiB, and what is committed still has to be applied."""
    share: float = 0.1
    recovery: float = 1.25
    """A level ends only at so many times its bytes, or it would come and go with each page."""

    def validate(self) -> None:
        """Raises ValueError naming the relation that does not hold."""
        if not 0 < self.stop_bytes < self.reserve_bytes:
            raise ValueError("the limits of the disk do not fit: 0 < stop_bytes < reserve_bytes")
        if not 0 < self.share < 1 <= self.recovery:
            raise ValueError("the limits of the disk do not fit: 0 < share < 1 <= recovery")

    def level(self, room: Room, former: Level) -> Level:
        """The level at this room, coming from the former one."""
        reserve = min(float(self.reserve_bytes), self.share * room.total_bytes)
        stop = reserve * self.stop_bytes / self.reserve_bytes
        if room.free_bytes < stop * (self.recovery if former >= Level.OUT else 1.0):
            return Level.OUT
        if room.free_bytes < reserve * (self.recovery if former >= Level.LOW else 1.0):
            return Level.LOW
        return Level.ENOUGH


class WatchedNode(Protocol):
    """The Raft node, as it is seen from its peers and its node process."""

    @property
    def incarnation(self) -> int: ...

    @property
    def status(self) -> LogStatus: ...

    def peer_connected(self, peer: str) -> int: ...

    def peer_disconnected(self, peer: str, *, connection: int) -> None: ...

    def receive(self, peer: str, message: Message, *, connection: int) -> None: ...

    def propose(self, proposal: Proposal) -> None: ...

    def cancel(self, *, incarnation: int, seq: int) -> None: ...

    def barrier(self, barrier_id: int) -> None: ...

    def transfer(self, peer: str | None = None) -> None: ...


class SpaceWatch:
    """Stands between a Raft node and whoever talks to it: its peers (a PeerInput) and its node process (a LogNode).

    `room` looks at the disk; it is called in `turn`, between two transactions."""

    def __init__(
        self, node: WatchedNode, *, room: Callable[[], Room], clock: Callable[[], float], limits: SpaceLimits
    ) -> None:
        limits.validate()
        self._node = node
        self._room = room
        self._clock = clock
        self._limits = limits
        self._connections: dict[str, int] = {}
        self._low: dict[str, bool] = {}
        """What the connected members said of their disks."""
        self._told: dict[str, bool] = {}
        """What they were told of this one."""
        self._level = Level.ENOUGH
        self._free_bytes: int | None = None
        self._refused_clients = False
        """As last told."""
        self._look_at_s = clock()
        self._hand_over_at_s = float("-inf")
        self._out_since_s = float("-inf")

    # --- the driver's side -------------------------------------------------------------------------------------------

    def turn(self) -> Sequence[Outgoing]:
        """Look at the disk, if it is time, and do what its level asks for; returns what the peers are to be told."""
        now_s = self._clock()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_PERIOD_S
            self._look(now_s)
        if self.is_low and now_s >= self._hand_over_at_s and self._leads():
            self._hand_over(now_s)
        return self._news()

    def stands_aside(self) -> bool:
        """Whether the node is to be cut off from its peers now."""
        if self._level < Level.OUT:
            return False
        trying = self._leads() and bool(self._successors())
        return not trying or self._clock() >= self._out_since_s + STAND_ASIDE_AFTER_S

    @property
    def is_low(self) -> bool:
        return self._level >= Level.LOW

    def _look(self, now_s: float) -> None:
        room = self._room()
        self._free_bytes = room.free_bytes
        former, self._level = self._level, self._limits.level(room, self._level)
        if self._level is Level.OUT > former:
            self._out_since_s = now_s
        if self._level is not former:
            logger.log(*_line(self._level, room.free_bytes))

    def _leads(self) -> bool:
        return self._node.status.role is Role.LEADER

    def _successors(self) -> list[str]:
        return sorted(peer for peer, low in self._low.items() if not low)

    def _hand_over(self, now_s: float) -> None:
        """To each in turn: the first one may lag behind."""
        successors = self._successors()
        if successors:
            successor = successors[int(now_s / HAND_OVER_PERIOD_S) % len(successors)]
            logger.warning("the disk of this node is nearly full: its leadership is handed to %s", successor)
            self._hand_over_at_s = now_s + HAND_OVER_PERIOD_S
            self._node.transfer(successor)

    def _news(self) -> list[Outgoing]:
        untold = [peer for peer in self._connections if self._told.get(peer) != self.is_low]
        self._told.update(dict.fromkeys(untold, self.is_low))
        return [Outgoing(peer, {"type": MESSAGE, "low": self.is_low}) for peer in untold]

    # --- the peers' side ---------------------------------------------------------------------------------------------

    def peer_connected(self, peer: str) -> int:
        self._forget(peer)
        number = self._connections[peer] = self._node.peer_connected(peer)
        return number

    def peer_disconnected(self, peer: str, *, connection: int) -> None:
        if self._connections.get(peer) == connection:
            self._forget(peer)
        self._node.peer_disconnected(peer, connection=connection)

    def receive(self, peer: str, message: Message, *, connection: int) -> None:
        """See RaftNode.receive."""
        if message.get("type") != MESSAGE:
            self._node.receive(peer, message, connection=connection)
        elif message.keys() != {"type", "low"} or type(message["low"]) is not bool:
            raise MessageRefused("a disk message with wrong fields")
        elif self._connections.get(peer) == connection and peer in self._node.status.members:
            self._low[peer] = message["low"]

    def _forget(self, peer: str) -> None:
        for known in (self._connections, self._low, self._told):
            known.pop(peer, None)

    # --- the node process' side --------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        return self._node.incarnation

    @property
    def status(self) -> LogStatus:
        return self._completed(self._node.status)

    def completed(self, ready: Ready) -> Ready:
        """With what the node itself does not know in its status."""
        status = self._completed(ready.status)
        changed = ready.status_changed or status.refuses_clients != self._refused_clients
        self._refused_clients = status.refuses_clients
        return replace(ready, status=status, status_changed=changed)

    def _completed(self, status: LogStatus) -> LogStatus:
        low = [peer for peer, is_low in self._low.items() if is_low]
        if self.is_low:
            low.append(status.node)
        return replace(
            status,
            disk_free_bytes=self._free_bytes,
            low_disks=tuple(sorted(low)),
            refuses_clients=self.is_low or (bool(low) and self._have_room(status) <= len(status.members) // 2),
        )

    def _have_room(self, status: LogStatus) -> int:
        """Members known to have room. Who is not connected may be one that stands aside."""
        return int(not self.is_low and status.node in status.members) + len(self._successors())

    def propose(self, proposal: Proposal) -> None:
        """See RaftNode.propose. Raises DiskFull besides: nothing whatever is proposed while the disk is out."""
        if self._level is Level.OUT:
            raise DiskFull("the disk of this node is full")
        self._node.propose(proposal)

    def cancel(self, *, incarnation: int, seq: int) -> None:
        self._node.cancel(incarnation=incarnation, seq=seq)

    def barrier(self, barrier_id: int) -> None:
        self._node.barrier(barrier_id)

    def transfer(self, peer: str | None = None) -> None:
        self._node.transfer(peer)


def _line(level: Level, free_bytes: int) -> tuple[int, str, float]:
    """What the log says of a change: its severity, the line, what it is about."""
    return {
        Level.ENOUGH: (logging.WARNING, "the disk has room again: %.1f MiB free"),
        Level.LOW: (logging.ERROR, "the disk is nearly full, %.1f MiB free: clients of this node are refused"),
        Level.OUT: (
            logging.CRITICAL,
            "the disk is full, %.1f MiB free: this node stands aside; make room, and it goes on by itself",
        ),
    }[level] + (free_bytes / MIB,)


# --- looking at the disk ---------------------------------------------------------------------------------------------


class DiskGauge:
    """Looks at the room of an LMDB environment: what the file system has left or the map, whichever is less, and the
    pages of the file that are free (it never shrinks; what was deleted is used again). These are counted only when the
    rest is less than the reserve."""

    def __init__(self, environment: Any, *, clock: Callable[[], float], limits: SpaceLimits) -> None:
        self._environment = environment
        self._clock = clock
        self._reserve_bytes = limits.reserve_bytes * limits.recovery
        self._readers_at_s = float("-inf")

    def __call__(self) -> Room:
        """Not while a write transaction is open. Raises OSError, lmdb.Error."""
        self._maybe_forget_dead_readers()
        system = os.statvfs(self._environment.path())
        info, page_bytes = self._environment.info(), self._environment.stat()["psize"]
        pages = info["last_pgno"] + 1
        total_bytes = min(system.f_blocks * system.f_frsize, info["map_size"])
        free_bytes = min(system.f_bavail * system.f_frsize, info["map_size"] - pages * page_bytes)
        if free_bytes < self._reserve_bytes:
            free_bytes += (pages - _used_pages(self._environment)) * page_bytes
        return Room(free_bytes, total_bytes)

    def _maybe_forget_dead_readers(self) -> None:
        """A reader that was killed in a transaction would keep every page that was freed since from being used
        again."""
        now_s = self._clock()
        if now_s >= self._readers_at_s:
            self._readers_at_s = now_s + READERS_PERIOD_S
            dead = self._environment.reader_check()
            if dead:
                logger.warning("%d readers of the database were killed; what they kept is free again", dead)


def _used_pages(environment: Any) -> int:
    """Pages that hold something, of the named databases and of the one that lists them."""
    with environment.begin() as transaction, transaction.cursor() as cursor:
        names = [bytes(name) for name in cursor.iternext(values=False)]
    handles = [environment.open_db(name, create=False) for name in names]
    with environment.begin() as transaction:
        listed = [environment.stat(), *(transaction.stat(handle) for handle in handles)]
    return META_PAGES + sum(map(_pages_of, listed))


def _pages_of(stat: dict[str, int]) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
