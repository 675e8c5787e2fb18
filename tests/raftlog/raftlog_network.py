"""The simulated network: connections that are in order while they last, and ways to break them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raftlog_bench import over_the_wire
from raftlog_machine import Machine

from raftlog.node import Message

if TYPE_CHECKING:
    from raftlog_simulator import Simulator


@dataclass(kw_only=True)
class Connection:
    """A connection of two nodes. Each end knows it by a number of its own; an end that has noticed its loss has
    None."""

    ends: tuple[str, str]
    lives: dict[str, int]
    numbers: dict[str, int | None]
    arrival: dict[str, float] = field(default_factory=dict)
    """When the last message to each end arrives: what is sent later arrives later."""
    stalled: dict[str, list[Message]] = field(default_factory=dict)
    """Messages to each end that a cut holds back: TCP sends them again when it heals."""
    alive: bool = True


class Network:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._dice = random.Random(f"network {simulator.seed}")
        self.connections: dict[tuple[str, str], Connection] = {}
        self.cut: set[tuple[str, str]] = set()

    def boot(self, name: str) -> None:
        """A machine has come up: it dials the others."""
        for other in self._simulator.members:
            if other != name:
                self._simulator.after(self._dice.uniform(0.0, 0.2), self.dial, name, other)

    def crash(self, name: str) -> None:
        """A machine has gone down, and with it its ends of its connections."""
        for connection in list(self.connections.values()):
            if name in connection.ends:
                connection.numbers[name] = None
                self.lose(connection)

    def dial(self, one: str, other: str) -> None:
        """Make a connection between two running nodes that can reach each other, in place of any former one."""
        pair = (min(one, other), max(one, other))
        former = self.connections.get(pair)
        if former is not None and former.numbers[one] is not None:
            return
        ends = [self._simulator.machines[name] for name in pair]
        if any(end.node is None for end in ends) or pair in self.cut or pair[::-1] in self.cut:
            if self._simulator.machines[one].node is not None:
                self._simulator.after(self._dice.uniform(0.1, 0.5), self.dial, one, other)
            return
        numbers: dict[str, int | None] = {}
        for end, peer in ((ends[0], pair[1]), (ends[1], pair[0])):
            assert end.node is not None
            numbers[end.name] = end.node.peer_connected(peer)
            self._simulator.wake(end)
        lives = {end.name: end.life for end in ends}
        stalled: dict[str, list[Message]] = {pair[0]: [], pair[1]: []}
        self.connections[pair] = Connection(ends=pair, lives=lives, numbers=numbers, stalled=stalled)
        self._simulator.note("connected", *pair)

    def send(self, machine: Machine, messages: Any) -> None:
        for peer, message in messages:
            connection = self.connections.get((min(machine.name, peer), max(machine.name, peer)))
            if connection is None or connection.numbers[machine.name] is None:
                continue
            packed = over_the_wire(message)
            if (machine.name, peer) in self.cut:
                connection.stalled[peer].append(packed)
            elif connection.alive:
                self.transmit(connection, peer, packed)

    def transmit(self, connection: Connection, target: str, message: Message) -> None:
        delay = self._dice.expovariate(1 / self._simulator.plan.delay_s)
        if self._dice.random() < 0.02:
            delay += self._dice.uniform(0.0, self._simulator.plan.delay_tail_s)
        arrival = max(self._simulator.now + delay, connection.arrival.get(target, 0.0))
        connection.arrival[target] = arrival
        self._simulator.at(arrival, self.arrive, connection, target, message)

    def arrive(self, connection: Connection, target: str, message: Message) -> None:
        machine = self._simulator.machines[target]
        number = connection.numbers[target]
        source = connection.ends[0] if connection.ends[1] == target else connection.ends[1]
        if machine.node is None or machine.life != connection.lives[target] or number is None:
            return
        if (source, target) in self.cut:
            connection.stalled[target].append(message)
            return
        machine.inbox.append((source, number, message))
        self._simulator.wake(machine)

    def lose(self, connection: Connection) -> None:
        """Break a connection: what is under way may still arrive; each end notices in its own time, then dials."""
        if connection.alive:
            connection.alive = False
            self._simulator.note("lost", *connection.ends)
            for end in connection.ends:
                notice = self._simulator.fault_dice.choice([0.0, 0.01, 0.3, 2.0])
                self._simulator.after(notice, self.notice_loss, connection, end)

    def notice_loss(self, connection: Connection, end: str) -> None:
        number, connection.numbers[end] = connection.numbers[end], None
        machine = self._simulator.machines[end]
        if machine.node is not None and machine.life == connection.lives[end] and number is not None:
            # A newer connection may have replaced this one already: then the node takes no notice.
            machine.node.peer_disconnected(self.other_end(connection, end), connection=number)
            self._simulator.wake(machine)
            self._simulator.after(self._dice.uniform(0.05, 0.5), self.dial, end, self.other_end(connection, end))

    @staticmethod
    def other_end(connection: Connection, end: str) -> str:
        return connection.ends[0] if connection.ends[1] == end else connection.ends[1]

    def cut_for(self, links: set[tuple[str, str]], seconds: float) -> None:
        self._simulator.note("cut", *sorted(links))
        self.cut |= links
        self._simulator.after(seconds, self.mend, links)
        self._simulator.after(self._simulator.config.connection_timeout_s, self.time_out, links)

    def mend(self, links: set[tuple[str, str]]) -> None:
        self.cut -= links
        for connection in list(self.connections.values()):
            for end in connection.ends:
                held, connection.stalled[end] = connection.stalled[end], []
                if (self.other_end(connection, end), end) in self.cut:
                    connection.stalled[end] = held
                elif connection.alive:
                    for message in held:
                        self.transmit(connection, end, message)

    def time_out(self, links: set[tuple[str, str]]) -> None:
        """Nothing was heard on these links for the connection's timeout."""
        for connection in list(self.connections.values()):
            if connection.ends in self.cut or connection.ends[::-1] in self.cut:
                self.lose(connection)
