"""Nodes on a bench: one virtual clock, one list of messages a link, and a test that decides what is delivered when."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
from raftlog_applier import ChainApplier

from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.interface import Proposal, Role
from raftlog.node import BarrierPassed, Message, RaftNode, Ready, Result

MAP_BYTES = 64 * 1024 * 1024
MAKE_APPLIER = Callable[[LmdbDisk], Any]


@contextmanager
def must_raise(expected: type[BaseException]) -> Iterator[None]:
    """Like pytest.raises, but what does not raise is an AssertionError, which a scenario may be expected to end in."""
    try:
        yield
    except expected:
        return
    raise AssertionError(f"no {expected.__name__}")


def over_the_wire(message: Message) -> Message:
    """As the receiver gets it: lists for tuples, and nothing shared with the sender."""
    unpacked: Message = msgpack.unpackb(msgpack.packb(message, use_bin_type=True), raw=False)
    return unpacked


class Bench:
    """`size` nodes n1, n2, … with their disks under `root`. A node of another name is a learner."""

    def __init__(
        self,
        root: Path,
        size: int = 3,
        *,
        config: RaftConfig | None = None,
        bootstrap: bool = True,
        make_applier: MAKE_APPLIER = ChainApplier,
        started: Iterable[str] | None = None,
    ) -> None:
        self.now = 1000.0
        self.root = root
        self.config = config or RaftConfig()
        self.bootstrap = bootstrap
        self.make_applier = make_applier
        self.members = tuple(f"n{number}" for number in range(1, size + 1))
        self.disks: dict[str, LmdbDisk] = {}
        self.appliers: dict[str, Any] = {}
        self.nodes: dict[str, RaftNode] = {}
        self.links: dict[tuple[str, str], deque[Message]] = defaultdict(deque)
        self.connections: dict[tuple[str, str], int] = {}
        self.results: dict[str, list[Result]] = defaultdict(list)
        self.barriers: dict[str, list[BarrierPassed]] = defaultdict(list)
        self.events: dict[str, list[Any]] = defaultdict(list)
        for member in self.members if started is None else started:
            self.start(member)

    def start(self, name: str, *, bootstrap: bool | None = None) -> RaftNode:
        disk = LmdbDisk(self.root / name, map_bytes=MAP_BYTES, synchronous=False)
        self.disks[name] = disk
        self.appliers[name] = self.make_applier(disk)
        self.nodes[name] = RaftNode(
            identity=Identity(
                node=name,
                members=self.members,
                cluster_id="bench",
                bootstrap=self.bootstrap if bootstrap is None else bootstrap,
                learner=name not in self.members,
            ),
            config=self.config,
            disk=disk,
            applier=self.appliers[name],
            clock=lambda: self.now,
            random=random.Random(name),
        )
        return self.nodes[name]

    def crash(self, name: str) -> None:
        """What the open transaction holds is lost, and with it the connections and what is under way on them."""
        self.nodes.pop(name).close()
        self.disks.pop(name).close()
        for other in (*self.members, *self.nodes):
            self.disconnect(name, other)

    def connect(self, one: str, other: str) -> None:
        for source, target in ((one, other), (other, one)):
            self.links[source, target].clear()
            self.connections[source, target] = self.nodes[target].peer_connected(source)

    def connect_all(self) -> None:
        names = sorted(self.nodes)
        for position, one in enumerate(names):
            for other in names[position + 1 :]:
                if one in self.members or other in self.members:
                    self.connect(one, other)

    def disconnect(self, one: str, other: str) -> None:
        for source, target in ((one, other), (other, one)):
            self.links[source, target].clear()
            connection = self.connections.pop((source, target), None)
            if connection is not None and target in self.nodes:
                self.nodes[target].peer_disconnected(source, connection=connection)

    def step(self, name: str) -> Ready:
        """A step whose messages are sent as the contract says: the held ones after the commit."""
        ready = self.nodes[name].step()
        self._send(name, ready.immediate)
        self.nodes[name].commit()
        self._send(name, ready.held)
        self.results[name].extend(ready.results)
        self.barriers[name].extend(ready.barriers)
        self.events[name].extend(ready.events)
        return ready

    def _send(self, source: str, messages: Iterable[Any]) -> None:
        for target, message in messages:
            if (source, target) in self.connections:
                self.links[source, target].append(over_the_wire(message))

    def deliver(self, source: str, target: str, count: int | None = None) -> list[Message]:
        """Deliver what is under way from source to target (the first `count` messages), without a step."""
        link = self.links[source, target]
        delivered = [link.popleft() for _ in range(len(link) if count is None else min(count, len(link)))]
        for message in delivered:
            self.nodes[target].receive(source, message, connection=self.connections[source, target])
        return delivered

    def settle(self, rounds: int = 30) -> None:
        """Deliver and step, all nodes, until nothing is under way; the clock stands."""
        for _ in range(rounds):
            for name in sorted(self.nodes):
                for source in sorted(self.nodes.keys() | set(self.members)):
                    self.deliver(source, name)
                self.step(name)
            if not any(self.links.values()):
                return
        raise AssertionError("messages without end")

    def run(self, seconds: float, pace: float = 0.05) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += pace
            self.settle()

    def elect(self, name: str) -> RaftNode:
        """Make `name` the leader, with everybody connected and up to date."""
        self.stand(name)
        self.settle()
        assert self.nodes[name].status.role is Role.LEADER
        return self.nodes[name]

    def stand(self, name: str) -> None:
        """In its next step it stands, as if the leader had told it to."""
        self.nodes[name]._core._told_to_stand = True

    def lose_patience(self, name: str) -> None:
        """In its next step its election timer has run out."""
        self.nodes[name]._core._SyncObj__raftElectionDeadline = self.now - 1

    def propose(self, name: str, seq: int, *commands: bytes, acknowledged: int = 0) -> Proposal:
        proposal = Proposal(
            node=name,
            incarnation=self.nodes[name].incarnation,
            seq=seq,
            acknowledged=acknowledged,
            commands=commands or (b"command %d" % seq,),
        )
        self.nodes[name].propose(proposal)
        return proposal

    def log(self, name: str) -> list[tuple[int, int]]:
        """(index, term) of every entry."""
        journal = self.nodes[name]._journal
        return [(entry[1], entry[2]) for entry in journal[0:]]

    def digests(self) -> dict[str, bytes]:
        return {name: self.appliers[name].digest(self.disks[name].transaction) for name in self.nodes}

    def close(self) -> None:
        for name in list(self.nodes):
            self.nodes.pop(name).close()
            self.disks.pop(name).close()
