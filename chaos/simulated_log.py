"""The log process of one simulated node: the real RaftNode and the real state machine on an LMDB of their own, driven
as raftlog/driver.py drives them, between the simulated network and the node process' real LogClient.

A crash may hit it before a commit (what was sent at once has left, nothing is on the disk) or after (it is on the disk,
nothing that it allows has left).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from chaos.simulated_network import Network
from chaos.simulated_plan import Plan
from chaos.simulated_truth import TruthLog, WitnessedMachine
from chaos.virtual_loop import Process, VirtualLoop
from raftlog import local_protocol as local
from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.interface import LogStatus, Proposal
from raftlog.node import Message, RaftNode, Ready
from raftlog.process import database_path
from raftlog.server import SHAPES, STATUS_PERIOD_S
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, FrameParser, frame, pack
from statemachine.reader import StateReader

MAP_BYTES = 256 * 1024 * 1024
LOCAL_S = 0.00005
"""From one process of a node to the other."""
APPLY_S = 0.00005
"""What applying an entry takes; the node's clock moves by it within a step."""

NOW = "now"
BEFORE_COMMIT = "before the commit"
AFTER_COMMIT = "after the commit"
DOOMS = (NOW, BEFORE_COMMIT, AFTER_COMMIT)


class LogProcess:
    """From its start to its end. `ended(why)` is called once, outside of any step, when it crashes by itself."""

    def __init__(
        self,
        *,
        name: str,
        members: tuple[str, ...],
        directory: Path,
        process: Process,
        loop: VirtualLoop,
        network: Network,
        plan: Plan,
        dice: random.Random,
        clock: Callable[[], float],
        truth: TruthLog,
        ended: Callable[[str], None],
    ) -> None:
        self.name = name
        self.process = process
        self.doom: str | None = None
        """Where in its next step it crashes."""
        self.slow_s = 0.0
        """What a commit takes longer at present."""
        self._loop = loop
        self._network = network
        self._plan = plan
        self._dice = dice
        self._clock = clock
        self._ended = ended
        self._charged_s = 0.0
        self._inbox: deque[tuple[str, int, Message]] = deque()
        self._stepping = False
        self._wake_s = float("inf")
        self.disk = LmdbDisk(database_path(directory), map_bytes=MAP_BYTES, synchronous=False)
        self.node = RaftNode(
            identity=Identity(node=name, members=members, cluster_id="simulated", bootstrap=True),
            config=RaftConfig(),
            disk=self.disk,
            applier=WitnessedMachine(name, self.disk.environment, truth, self._charge),
            clock=lambda: self._clock() + self._charged_s,
            random=dice,
        )
        # LMDB opens no tables while a write transaction is open; from the first step on there may always be one.
        self.reader = StateReader(self.disk.environment)
        self._server = LocalServer(self)
        self._address = str(local.socket_path(directory))
        loop.unix_listeners[self._address] = self._server.accept

    def _charge(self) -> None:
        self._charged_s += APPLY_S

    def close(self) -> None:
        """Killed: what was not committed is gone."""
        self._loop.unix_listeners.pop(self._address, None)
        self.node.close()
        self.disk.close()

    # --- the order of a tick -----------------------------------------------------------------------------------------

    def wake(self) -> None:
        self.wake_at(self._loop.time())

    def wake_at(self, at_s: float) -> None:
        if at_s < self._wake_s:
            self._wake_s = at_s
            self._loop.call_at(at_s, self._step, at_s, context=self.process.context)

    def _step(self, at_s: float) -> None:
        if at_s != self._wake_s:
            return  # woken earlier in the meantime
        self._wake_s = float("inf")
        if self._stepping:
            return  # its commit will see to the next step
        while self._inbox:
            source, number, message = self._inbox.popleft()
            self.node.receive(source, message, connection=number)
        self._charged_s = 0.0
        ready = self.node.step()
        self._stepping = True
        self._network.send(self.name, ready.immediate)
        took_s = self._charged_s + self._dice.expovariate(1 / self._plan.commit_s) + self.slow_s
        self._loop.call_later(took_s, self._commit, ready, context=self.process.context)

    def _commit(self, ready: Ready) -> None:
        if self.doom == BEFORE_COMMIT:
            self._ended(BEFORE_COMMIT)
            return
        self._charged_s = 0.0
        self.node.commit()
        self._stepping = False
        if self.doom == AFTER_COMMIT:
            self._ended(AFTER_COMMIT)
            return
        self._network.send(self.name, ready.held)
        self._server.deliver(ready)
        if self._inbox:
            self.wake()
        self.wake_at(self._loop.time() + max(self.node.next_deadline() - self._clock(), 0.0))

    # --- the network's side ------------------------------------------------------------------------------------------

    def connected(self, peer: str) -> int:
        number = self.node.peer_connected(peer)
        self.wake()
        return number

    def disconnected(self, peer: str, number: int) -> None:
        self.node.peer_disconnected(peer, connection=number)
        self.wake()

    def deliver(self, source: str, number: int, message: Message) -> None:
        self._inbox.append((source, number, message))
        self.wake()


class LocalServer:
    """The log process' side of the local socket, as raftlog/server.py: it speaks the same bytes."""

    def __init__(self, log: LogProcess) -> None:
        self._log = log
        self._pipe: LocalPipe | None = None
        self._parser = FrameParser(LOCAL_FRAME_BYTES_MAX)
        self._topics: set[str] = set()
        self._status = log.node.status
        self._told_s = float("-inf")
        self._unsent = bytearray()

    def accept(self, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport:
        self._pipe = LocalPipe(self._log._loop, self.received, self._log.process, cast(asyncio.Protocol, protocol))
        return self._pipe

    def received(self, data: bytes) -> None:
        self._parser.feed(data)
        while (content := self._parser.next_frame()) is not None:
            kind, fields = local.parse(content, SHAPES)
            getattr(self, f"_{kind}")(*fields)
        self._flush()
        self._log.wake()

    def deliver(self, ready: Ready) -> None:
        node = self._log.node
        for applied_index, topic, bodies in ready.events:
            if topic in self._topics:
                self._send(local.EVENTS, applied_index, topic, list(bodies))
        for incarnation, seq, replies in ready.results:
            if incarnation == node.incarnation:
                self._send(local.REPLY, seq, list(replies))
        for barrier_id, read_index in ready.barriers:
            self._send(local.BARRIER, barrier_id, read_index)
        self._tell_status(ready.status, at_once=ready.status_changed)
        self._flush()

    def _tell_status(self, status: LogStatus, *, at_once: bool) -> None:
        now_s = self._log._loop.time()
        if at_once or (now_s - self._told_s >= STATUS_PERIOD_S and status != self._status):
            self._status, self._told_s = status, now_s
            self._send(local.STATUS, local.packable(status))

    def _send(self, *message: Any) -> None:
        self._unsent += frame(pack(message), LOCAL_FRAME_BYTES_MAX)

    def _flush(self) -> None:
        if self._pipe is not None and self._unsent:
            self._pipe.to_client(bytes(self._unsent))
        self._unsent.clear()

    def _hello(self, version: int) -> None:
        self._status, self._told_s = self._log.node.status, self._log._loop.time()
        self._send(local.HELLO, local.VERSION, self._log.node.incarnation, local.packable(self._status))

    def _propose(self, seq: int, acknowledged: int, commands: list[bytes]) -> None:
        node = self._log.node
        proposal = Proposal(
            node=self._log.name,
            incarnation=node.incarnation,
            seq=seq,
            acknowledged=acknowledged,
            commands=commands,
        )
        try:
            node.propose(proposal)
        except (CommandTooLarge, LogOverloaded) as error:
            self._send(local.REFUSED, seq, type(error).__name__, str(error))

    def _cancel(self, seq: int) -> None:
        self._log.node.cancel(incarnation=self._log.node.incarnation, seq=seq)

    def _barrier(self, barrier_id: int) -> None:
        try:
            self._log.node.barrier(barrier_id)
        except LogOverloaded:
            self._send(local.NO_BARRIER, barrier_id)

    def _subscribe(self, topic: str) -> None:
        self._topics.add(topic)


class LocalPipe(asyncio.Transport):
    """The local socket between the two processes of a node, seen from the node process; loses nothing, keeps order."""

    def __init__(
        self,
        loop: VirtualLoop,
        received: Callable[[bytes], None],
        server: Process,
        client: asyncio.Protocol,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._received = received
        self._server = server.context
        self._client = client
        self._closing = False
        self._client_context = loop.process_context()

    def write(self, data: Any) -> None:
        self._loop.call_later(LOCAL_S, self._received, bytes(data), context=self._server.copy())

    def to_client(self, data: bytes) -> None:
        self._loop.call_later(LOCAL_S, self._client.data_received, data, context=self._client_context.copy())

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        """The log process spoke nonsense."""
        raise AssertionError("the local protocol is broken")
