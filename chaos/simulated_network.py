"""The simulated network between the logs of the nodes: connections that are in order while they last, and ways to break
them. What a cut holds back is sent again when it heals, as TCP does; what a lost connection held is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgpack

from chaos.simulated_plan import Plan
from chaos.virtual_loop import VirtualLoop
from raftlog.node import Message

Link = tuple[str, str]
"""From one node to another: a cut is one-way."""
NOTICED_S = (0.0, 0.01, 0.3, 2.0)
"""How soon an end notices that its connection is lost."""
SILENCE_S = 4.0
"""A connection on which nothing was heard for so long is given up (RaftConfig.connection_timeout_s)."""

WORLD = Context()
"""What is in flight belongs to no process: it arrives although its sender has died."""


class Station(Protocol):
    """A node as the network sees it. `life` changes with each start; 0 while it is down."""

    life: int

    def connected(self, peer: str) -> int: ...

    def disconnected(self, peer: str, number: int) -> None: ...

    def deliver(self, source: str, number: int, message: Message) -> None: ...


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
    alive: bool = True

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
        self.cut: set[Link] = set()

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
        if not all(end.life for end in ends) or pair in self.cut or pair[::-1] in self.cut:
            if self.stations[one].life:
                self._after(self._dice.uniform(0.1, 0.5), self._dial, one, other)
            return
        self.connections[pair] = Connection(
            ends=pair,
            lives={name: self.stations[name].life for name in pair},
            numbers={pair[0]: ends[0].connected(pair[1]), pair[1]: ends[1].connected(pair[0])},
            stalled={pair[0]: [], pair[1]: []},
        )
        self._note("connected", *pair)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, source: str, messages: Iterable[tuple[str, Message]]) -> None:
        for peer, message in messages:
            connection = self.connections.get((min(source, peer), max(source, peer)))
            if connection is None or connection.numbers[source] is None:
                continue
            packed = _over_the_wire(message)
            if (source, peer) in self.cut:
                connection.stalled[peer].append(packed)
            elif connection.alive:
                self._transmit(connection, peer, packed)

    def _transmit(self, connection: Connection, target: str, message: Message) -> None:
        delay_s = self._dice.expovariate(1 / self._plan.delay_s)
        if self._dice.random() < 0.02:
            delay_s += self._dice.uniform(0.0, self._plan.delay_tail_s)
        arrival_s = max(self._loop.time() + delay_s, connection.arrival.get(target, 0.0))
        connection.arrival[target] = arrival_s
        self._loop.call_at(arrival_s, self._arrive, connection, target, message, context=WORLD)

    def _arrive(self, connection: Connection, target: str, message: Message) -> None:
        number = connection.numbers[target]
        station = self.stations[target]
        if station.life != connection.lives[target] or number is None:
            return
        if (connection.other(target), target) in self.cut:
            connection.stalled[target].append(message)
            return
        station.deliver(connection.other(target), number, message)

    # --- faults ------------------------------------------------------------------------------------------------------

    def lose_one(self, dice: random.Random) -> None:
        """Some connection breaks."""
        if self.connections:
            self._lose(self.connections[dice.choice(sorted(self.connections))])

    def _lose(self, connection: Connection) -> None:
        """It carries nothing any more; its ends notice sooner or later."""
        if connection.alive:
            connection.alive = False
            for end in connection.ends:
                self._after(self._dice.choice(NOTICED_S), self._notice, connection, end)

    def _notice(self, connection: Connection, end: str) -> None:
        number, connection.numbers[end] = connection.numbers[end], None
        station = self.stations[end]
        if number is not None and station.life == connection.lives[end]:
            station.disconnected(connection.other(end), number)
            self._after(self._dice.uniform(0.05, 0.5), self._dial, end, connection.other(end))

    def cut_links(self, links: set[Link], seconds: float) -> None:
        self._note("cut", *sorted(links))
        self.cut |= links
        self._after(seconds, self.mend, links)
        self._after(SILENCE_S, self._silence, links)

    def mend(self, links: set[Link]) -> None:
        self.cut -= links
        for connection in list(self.connections.values()):
            for end in connection.ends:
                held, connection.stalled[end] = connection.stalled[end], []
                if (connection.other(end), end) in self.cut:
                    connection.stalled[end] = held
                elif connection.alive:
                    for message in held:
                        self._transmit(connection, end, message)

    def _silence(self, links: set[Link]) -> None:
        """Nothing was heard on these links for long enough, if they are cut still."""
        for connection in list(self.connections.values()):
            if any(link in self.cut and link in links for link in (connection.ends, connection.ends[::-1])):
                self._lose(connection)

    def silent(self, name: str) -> None:
        """A node that was paused for so long has been given up by the others."""
        for connection in list(self.connections.values()):
            if name in connection.ends:
                self._lose(connection)


def _over_the_wire(message: Message) -> Message:
    """As the receiver gets it: lists for tuples, and nothing shared with the sender."""
    unpacked: Message = msgpack.unpackb(msgpack.packb(message, use_bin_type=True), raw=False)
    return unpacked
