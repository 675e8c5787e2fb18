"""A log of one node inside the test: applies each proposal to the real state machine at once, and can be told to
fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from raftlog.errors import DiskFull, LogError, NoQuorum
from raftlog.interface import EventListener, Lane, LogStatus, Proposal, Role, StatusListener
from statemachine.machine import Machine


class DirectLog:
    """Implements raftlog.interface.Log. `lose_answers`: commands are applied and their answer is lost; `cut`: nothing
    gets through at all; `disk_low`: clients are refused."""

    def __init__(self, environment: Any, *, node: str, role: Role = Role.LEADER) -> None:
        self.environment = environment
        self.machine = Machine(environment)
        self.node = node
        self.role = role
        self.incarnation = 1
        self.index = 0
        self.term = 1
        self.lose_answers: LogError | None = None
        self.cut: LogError | None = None
        self.disk_low = False
        self.events_lost = False
        self.transfers: list[int] = []
        """At which indices the leadership was to be handed over; there is nobody to take it."""
        self.commands: list[bytes] = []
        self.snapshots_received = 0
        self._applied = asyncio.Event()
        self._seq = 0
        self._listeners: dict[str, list[EventListener]] = {}
        self._status_listeners: list[StatusListener] = []

    @property
    def status(self) -> LogStatus:
        return LogStatus(
            node=self.node,
            role=self.role,
            leader=self.node,
            term=self.term,
            commit_index=self.index,
            applied_index=self.index,
            last_index=self.index,
            quorum=True,
            members=(self.node,),
            snapshots_received=self.snapshots_received,
            disk_free_bytes=5 * 1024 * 1024,
            low_disks=(self.node,) if self.disk_low else (),
            refuses_clients=self.disk_low,
        )

    async def propose(self, command: bytes, *, lane: Lane = Lane.CLIENT, timeout_s: float = 10.0) -> bytes:
        await asyncio.sleep(0)
        if self.cut is not None:
            raise self.cut
        if self.disk_low and lane is Lane.CLIENT:
            raise DiskFull("the disk is low")
        reply = self.apply([command])[0]
        if self.lose_answers is not None:
            raise self.lose_answers
        return reply

    def apply(self, commands: Sequence[bytes]) -> Sequence[bytes]:
        """Apply at once, and tell the listeners."""
        self.commands.extend(commands)
        self._seq += 1
        self.index += 1
        proposal = Proposal(
            node=self.node, incarnation=self.incarnation, seq=self._seq, acknowledged=self._seq - 1, commands=commands
        )
        with self.environment.begin(write=True) as transaction:
            applied = self.machine.apply(transaction, index=self.index, proposal=proposal)
        topics: dict[str, list[bytes]] = {}
        for event in applied.events:
            topics.setdefault(event.topic, []).append(event.body)
        if not self.events_lost:
            for topic, bodies in topics.items():
                for listener in self._listeners.get(topic, []):
                    listener(self.index, bodies)
        self._applied.set()
        return applied.replies

    def state_replaced(self) -> None:
        """Say that what was applied without events came with a copy of another node's state."""
        self.snapshots_received += 1
        for listener in self._status_listeners:
            listener(self.status)

    async def wait_applied(self) -> None:
        """Until something more is applied."""
        self._applied.clear()
        await self._applied.wait()

    async def read_barrier(self, *, timeout_s: float = 5.0) -> int:
        await asyncio.sleep(0)
        if self.cut is not None:
            raise NoQuorum
        return self.index

    async def transfer_leadership(self, to: str | None = None, *, timeout_s: float = 2.0) -> bool:
        await asyncio.sleep(0)
        self.transfers.append(self.index)
        if self.cut is not None:
            raise self.cut
        return self.role is not Role.LEADER

    def subscribe(self, topic: str, listener: EventListener) -> None:
        self._listeners.setdefault(topic, []).append(listener)

    def on_status(self, listener: StatusListener) -> None:
        self._status_listeners.append(listener)

    async def close(self) -> None:
        return None
