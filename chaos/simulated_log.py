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
from contextvars import Context
from pathlib import Path
from typing import Any, cast

from chaos.simulated_network import Network
from chaos.simulated_plan import Plan
from chaos.simulated_truth import TruthLog, WitnessedMachine
from chaos.virtual_loop import Process, VirtualLoop
from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.local_protocol import socket_path
from raftlog.node import Message, RaftNode, Ready
from raftlog.process import database_path
from raftlog.service import LogService
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, FrameParser, frame
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
            config=RaftConfig(
                log_keep_entries=plan.log_keep_entries, snapshot_chunk_bytes=plan.snapshot_chunk_bytes
            ),
            disk=self.disk,
            applier=WitnessedMachine(name, self.disk.environment, truth, self._charge),
            clock=lambda: self._clock() + self._charged_s,
            random=dice,
        )
        # LMDB opens no tables while a write transaction is open; from the first step on there may always be one.
        self.reader = StateReader(self.disk.environment)
        self._service = LogService(node=self.node, clock=self._clock)
        self._address = str(socket_path(directory))
        loop.unix_listeners[self._address] = self._accept

    def _charge(self) -> None:
        self._charged_s += APPLY_S

    def close(self) -> None:
        """Killed: what was not committed is gone."""
        self._loop.unix_listeners.pop(self._address, None)
        self.node.close()
        self.disk.close()

    def _accept(self, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport:
        pipe = LocalPipe(self._loop, self._received, self.process, cast(asyncio.Protocol, protocol))
        self._service.attach(pipe.carrier)
        return pipe

    def _received(self, content: bytes) -> None:
        self._service.frame_received(content)
        self.wake()

    # --- the order of a tick -----------------------------------------------------------------------------------------

    def wake(self) -> None:
        self.wake_at(self._loop.time())

    def wake_at(self, at_s: float) -> None:
        if at_s < self._wake_s and not self._stepping:  # its commit will see to the next step
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
        self._service.deliver(ready)
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


class LocalPipe(asyncio.Transport):
    """The local socket between the two processes of a node, seen from the node process; loses nothing, keeps order."""

    def __init__(
        self, loop: VirtualLoop, received: Callable[[bytes], None], server: Process, client: asyncio.Protocol
    ) -> None:
        super().__init__()
        self.carrier = PipeCarrier(loop, loop.process_context(), client)
        self._loop = loop
        self._received = received
        self._parser = FrameParser(LOCAL_FRAME_BYTES_MAX)
        self._server = server
        self._closing = False

    def write(self, data: Any) -> None:
        self._parser.feed(data)
        while (content := self._parser.next_frame()) is not None:
            self._loop.call_later(LOCAL_S, self._received, content, context=self._server.context)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        """The log process spoke nonsense."""
        raise AssertionError("the local protocol is broken")


class PipeCarrier:
    """The way back: what one step has to say arrives at once."""

    def __init__(self, loop: VirtualLoop, context: Context, client: asyncio.Protocol) -> None:
        self._loop = loop
        self._context = context
        self._client = client
        self._unsent = bytearray()

    def write(self, content: bytes) -> None:
        self._unsent += frame(content, LOCAL_FRAME_BYTES_MAX)

    def flush(self) -> None:
        if self._unsent:
            data = bytes(self._unsent)
            self._loop.call_later(LOCAL_S, self._client.data_received, data, context=self._context.copy())
            self._unsent.clear()
