"""The simulated network between the logs of the nodes: connections that are in order while they last, and ways to break
them. What a cut holds back is sent again when it heals, as TCP does; what a lost connection held is lost, or arrives
when a newer one has taken its place."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgpack

from chaos.simulated_plan import Plan
from chaos.virtual_loop import VirtualHandle, VirtualLoop
from raftlog.node import Message

Link = tuple[str, str]
"""From one node to another: a cut is one-way."""
SILENCE_S = 4.0
"""A connection on which nothing was heard for so long is given up (RaftConfig.connection_timeout_s)."""
NOTICED_S = (0.0, 0.01, 0.3, 2.0, SILENCE_S)
"""How soon an end notices that its connection is lost; until then it is half open."""
SWALLOWED = 0.5
"""Part of the lost connections that lose what was under way, too; from the others it still arrives."""
RECENT = 32
"""Messages that an old socket may deliver once more."""
BACKLOG_BYTES_MAX = 16 * 1024 * 1024
"""Waiting for a slow link: more, and the connection is dropped, as raftlog/connection.py has it."""

WORLD = Context()
"""What is in flight belongs to no process: it arrives although its sender has died."""


class Station(Protocol):
    """A node as the network sees it. `life` changes with each start; 0 while it is down."""

    life: int

    def connected(self, peer: str) -> int: ...

    def disconnected(self, peer: str, number: int) -> None: ...

    def deliver(self, source: str, number: int, message: Message) -> None: ...


class Queued(NamedTuple):
    """A message on a narrow link. Once that is wide again, it arrives at `unhindered_s`, or at once."""

    handle: VirtualHandle
    arrival_s: float
    unhindered_s: float
    message: Message


@dataclass(kw_only=True)
class Connection:
    """Each end knows it by a number of its own; an end that has noticed its loss has None."""

    ends: tuple[str, str]
    lives: dict[str, int]
    numbers: dict[str, int | None]
    arrival: dict[str, float] = field(default_factory=dict)
    """When the last message to each end arrives: what is sent later arrives later."""
    stalled: dict[str, list[Message]]
    """Messages to each end that a cut holds back."""
    former: dict[str, int]
    """The numbers that the ends once knew it by."""
    recent: deque[tuple[str, Message]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """What it carried last, and to whom."""
    busy_until_s: dict[str, float] = field(default_factory=dict)
    """When the last byte to each end has left."""
    unhindered_s: dict[str, float] = field(default_factory=dict)
    """When the last message to each end would arrive if no link had ever been narrow."""
    queued: dict[str, deque[Queued]] = field(default_factory=dict)
    """What waits, or waited, on a narrow link to each end."""
    alive: bool = True
    swallows: bool = False
    """What is under way does not arrive."""

    def other(self, end: str) -> str:
        return self.ends[0] if self.ends[1] == end else self.ends[1]


class Network:
    def __init__(self, loop: VirtualLoop, plan: Plan, seed: int, note: Callable[..., None]) -> None:
        self._loop = loop
        self._plan = plan
        self._dice = random.Random(f"network {seed}")
        self._note = note
        self.stations: dict[str, Station] = {}
        self.connections: dict[Link, Connection] = {}
        self._cuts: Counter[Link] = Counter()
        """How many faults cut each link: they may overlap."""
        self._lag_s: Counter[Link] = Counter()
        """What a message takes longer at present."""
        self._bytes_per_s: dict[Link, float] = {}
        """Links that are narrow at present."""

    @property
    def cut(self) -> set[Link]:
        return set(self._cuts)

    def _after(self, delay_s: float, action: Callable[..., object], *args: Any) -> None:
        self._loop.call_later(delay_s, action, *args, context=WORLD)

    # --- stations come and go ----------------------------------------------------------------------------------------

    def up(self, name: str) -> None:
        """It dials the others."""
        for other in self.stations:
            if other != name:
                self._after(self._dice.uniform(0.0, 0.2), self._dial, name, other)

    def down(self, name: str) -> None:
        for connection in list(self.connections.values()):
            if name in connection.ends:
                connection.numbers[name] = None
                self._lose(connection)

    def _dial(self, one: str, other: str) -> None:
        pair = (min(one, other), max(one, other))
        former = self.connections.get(pair)
        if former is not None and former.numbers[one] is not None:
            return
        ends = [self.stations[name] for name in pair]
        if not all(end.life for end in ends) or pair in self._cuts or pair[::-1] in self._cuts:
            if self.stations[one].life:
                self._after(self._dice.uniform(0.1, 0.5), self._dial, one, other)
            return
        numbers = {pair[0]: ends[0].connected(pair[1]), pair[1]: ends[1].connected(pair[0])}
        self.connections[pair] = Connection(
            ends=pair,
            lives={name: self.stations[name].life for name in pair},
            numbers={**numbers},
            stalled={pair[0]: [], pair[1]: []},
            former=numbers,
        )
        self._note("connected", *pair)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, source: str, messages: Iterable[tuple[str, Message]]) -> None:
        for peer, message in messages:
            connection = self.connections.get((min(source, peer), max(source, peer)))
            if connection is None or connection.numbers[source] is None:
                continue
            packed = msgpack.packb(message, use_bin_type=True)
            if (source, peer) in self._cuts:
                connection.stalled[peer].append(_unpacked(packed))
            elif connection.alive:
                self._transmit(connection, peer, _unpacked(packed), len(packed))

    def _transmit(self, connection: Connection, target: str, message: Message, size: int = 0) -> None:
        delay_s = self._dice.expovariate(1 / self._plan.delay_s)
        if self._dice.random() < 0.02:
            delay_s += self._dice.uniform(0.0, self._plan.delay_tail_s)
        link = (connection.other(target), target)
        now_s = self._loop.time()
        delay_s += self._lag_s[link]
        unhindered_s = max(now_s + delay_s, connection.unhindered_s.get(target, 0.0))
        delay_s += self._queued_s(connection, link, size)
        arrival_s = max(now_s + delay_s, connection.arrival.get(target, 0.0))
        connection.unhindered_s[target], connection.arrival[target] = unhindered_s, arrival_s
        connection.recent.append((target, message))
        handle = self._loop.call_at(arrival_s, self._arrive, connection, target, message, context=WORLD)
        if link in self._bytes_per_s:
            connection.queued.setdefault(target, deque()).append(Queued(handle, arrival_s, unhindered_s, message))

    def _queued_s(self, connection: Connection, link: Link, size: int) -> float:
        """How long it takes until the last byte is on its way."""
        rate = self._bytes_per_s.get(link)
        if rate is None:
            return 0.0
        now_s = self._loop.time()
        begins_s = max(now_s, connection.busy_until_s.get(link[1], 0.0))
        connection.busy_until_s[link[1]] = begins_s + size / rate
        if (begins_s - now_s) * rate > BACKLOG_BYTES_MAX:
            self._lose(connection)
        self._note("narrow")
        return connection.busy_until_s[link[1]] - now_s

    def _arrive(self, connection: Connection, target: str, message: Message) -> None:
        number = connection.numbers[target]
        station = self.stations[target]
        if station.life != connection.lives[target] or number is None:
            return
        if connection.swallows:
            self._note("swallowed")
            return
        if (connection.other(target), target) in self._cuts:
            connection.stalled[target].append(message)
            return
        station.deliver(connection.other(target), number, message)

    # --- faults ------------------------------------------------------------------------------------------------------

    def lose_one(self, dice: random.Random) -> None:
        """Some connection breaks."""
        self.lose(dice.random())

    def lose(self, which: float) -> None:
        """One of the connections breaks: `which` of 0 to 1 says which."""
        if self.connections:
            pairs = sorted(self.connections)
            self._lose(self.connections[pairs[int(which * len(pairs))]])

    def haunt_one(self, dice: random.Random) -> None:
        """Some connection breaks, a new one takes its place, and then the old sockets still deliver what they carried,
        what had arrived already included."""
        which, waits_s = dice.random(), [dice.uniform(0.1, 2.0) for _ in range(RECENT)]
        if not self.connections:
            return
        pairs = sorted(self.connections)
        former = self.connections[pairs[int(which * len(pairs))]]
        self._lose(former)
        for end in former.ends:
            self._notice(former, end)
        for wait_s, (target, message) in zip(waits_s, former.recent, strict=False):
            self._after(wait_s, self._arrive_late, former, target, message)

    def _arrive_late(self, connection: Connection, target: str, message: Message) -> None:
        now = self.connections.get(connection.ends)
        if now is connection or now is None or self.stations[target].life != connection.lives[target]:
            return
        self._note("old socket")
        self.stations[target].deliver(connection.other(target), connection.former[target], message)

    def _lose(self, connection: Connection) -> None:
        """It carries nothing any more; its ends notice sooner or later."""
        if connection.alive:
            connection.alive = False
            connection.swallows = self._dice.random() < SWALLOWED
            for end in connection.ends:
                self._after(self._dice.choice(NOTICED_S), self._notice, connection, end)

    def _notice(self, connection: Connection, end: str) -> None:
        number, connection.numbers[end] = connection.numbers[end], None
        station = self.stations[end]
        if number is not None and station.life == connection.lives[end]:
            station.disconnected(connection.other(end), number)
            self._after(self._dice.uniform(0.05, 0.5), self._dial, end, connection.other(end))

    def cut_links(self, links: set[Link], seconds: float) -> None:
        """Nothing passes; what is sent waits. Cuts may overlap."""
        self._note("cut", *sorted(links))
        self._cuts.update(links)
        self._after(seconds, self._uncut, links)
        self._after(SILENCE_S, self._silence, links)

    def _uncut(self, links: set[Link]) -> None:
        self._cuts.subtract(links)
        self._cuts = +self._cuts
        self._go_on()

    def mend(self) -> None:
        """All links are as good as on the first day."""
        self._cuts.clear()
        self._lag_s.clear()
        self._widen(set(self._bytes_per_s))
        self._go_on()

    def _go_on(self) -> None:
        for connection in list(self.connections.values()):
            for end in connection.ends:
                held, connection.stalled[end] = connection.stalled[end], []
                if (connection.other(end), end) in self._cuts:
                    connection.stalled[end] = held
                elif connection.alive:
                    for message in held:
                        self._transmit(connection, end, message)

    def delay_links(self, links: set[Link], by_s: float, seconds: float) -> None:
        """Each message takes so much longer."""
        self._note("lag", by_s, *sorted(links))
        self._change_lag(links, by_s)
        self._after(seconds, self._change_lag, links, -by_s)

    def _change_lag(self, links: set[Link], by_s: float) -> None:
        for link in links:
            self._lag_s[link] = max(self._lag_s[link] + by_s, 0.0)  # type: ignore[assignment]  # seconds

    def narrow_links(self, links: set[Link], bytes_per_s: float, seconds: float) -> None:
        """Each link carries no more than that."""
        self._bytes_per_s |= dict.fromkeys(links, bytes_per_s)
        self._after(seconds, self._widen, links)

    def _widen(self, links: set[Link]) -> None:
        for link in links:
            if self._bytes_per_s.pop(link, None) is not None:
                for connection in self._connections_of(link):
                    self._hurry(connection, link[1])

    def _connections_of(self, link: Link) -> list[Connection]:
        return [one for one in self.connections.values() if set(one.ends) == set(link)]

    def _hurry(self, connection: Connection, target: str) -> None:
        """What waited for the narrow link goes on its way at once, in order."""
        now_s = self._loop.time()
        connection.busy_until_s.pop(target, None)
        for handle, due_s, unhindered_s, message in connection.queued.pop(target, ()):
            if due_s > now_s:
                handle.cancel()
                arrival_s = connection.arrival[target] = max(unhindered_s, now_s)
                self._loop.call_at(arrival_s, self._arrive, connection, target, message, context=WORLD)

    def _silence(self, links: set[Link]) -> None:
        """Nothing was heard on these links for long enough, if they are cut still."""
        for connection in list(self.connections.values()):
            if any(link in self._cuts and link in links for link in (connection.ends, connection.ends[::-1])):
                self._lose(connection)

    def silent(self, name: str) -> None:
        """A node that was paused for so long has been given up by the others."""
        for connection in list(self.connections.values()):
            if name in connection.ends:
                self._lose(connection)


def _unpacked(packed: bytes) -> Message:
    """As the receiver gets it: lists for tuples, and nothing shared with the sender."""
    message: Message = msgpack.unpackb(packed, raw=False)
    return message
