"""The log process of one simulated node: the real RaftNode and the real state machine on an LMDB of their own, driven
as raftlog/driver.py drives them, between the simulated network and the node process' real LogClient.

A crash may hit it before a commit (what was sent at once has left, nothing is on the disk), after it (it is on the
disk, nothing that it allows has left) or half way through what it allows: at the next step, or at the next one that
votes, acknowledges, applies and so on.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, NamedTuple, cast

from chaos.simulated_disk import SimulatedMachine
from chaos.simulated_network import Network
from chaos.simulated_plan import Plan
from chaos.simulated_truth import TruthLog, WitnessedMachine
from chaos.virtual_loop import Process, VirtualHandle, VirtualLoop
from raftlog.config import Identity, RaftConfig
from raftlog.local_protocol import socket_path
from raftlog.node import Message, RaftNode, Ready
from raftlog.service import LogService
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, FrameParser, frame
from statemachine.codec import decode_event
from statemachine.commands import RunClaimed, SessionRenewed
from statemachine.reader import StateReader

LOCAL_S = 0.00005
"""From one process of a node to the other."""
APPLY_S = 0.00005
"""What applying an entry takes; the node's clock moves by it within a step."""

BEFORE_COMMIT = "before the commit"
AFTER_COMMIT = "after the commit"
HALF_SENT = "half sent"
MOMENTS = (BEFORE_COMMIT, AFTER_COMMIT, HALF_SENT)
ANY, VOTE, ACKNOWLEDGEMENT, APPLY, LEASE, CLAIM, RESULT = "any step", "vote", "ack", "apply", "lease", "claim", "result"
APPEND = "append"
EDGES = (ANY, VOTE, ACKNOWLEDGEMENT, APPLY, LEASE, CLAIM, RESULT, APPEND)


class Doom(NamedTuple):
    """Where a log process crashes: in the next step that has this to make durable, and at which moment of it."""

    edge: str
    moment: str

    def __str__(self) -> str:
        return f"{self.moment} of {self.edge}"


BEFORE_APPEND = Doom(APPEND, BEFORE_COMMIT)


class LogProcess:
    """From its start to its end. `ended(why)` is called once, outside of any step, when it crashes by itself."""

    def __init__(
        self,
        *,
        name: str,
        members: tuple[str, ...],
        machine: SimulatedMachine,
        bootstrap: bool,
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
        self.doom: Doom | None = None
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
        self._committing: tuple[VirtualHandle, Ready] | None = None
        self._finished = False
        """It has crashed by itself."""
        self._wake_s = float("inf")
        self._machine = machine
        self._applied_index = self._last_index = 0
        identity = Identity(node=name, members=members, cluster_id="simulated", bootstrap=bootstrap)
        self.disk = machine.open()
        try:
            self.node = RaftNode(
                identity=identity,
                config=RaftConfig(
                    log_keep_entries=plan.log_keep_entries, snapshot_chunk_bytes=plan.snapshot_chunk_bytes
                ),
                disk=self.disk,
                applier=WitnessedMachine(name, self.disk.environment, truth, self._charge),
                clock=lambda: self._clock() + self._charged_s,
                random=dice,
            )
        except Exception:
            self.disk.close()
            raise
        # LMDB opens no tables while a write transaction is open; from the first step on there may always be one.
        self.reader = StateReader(self.disk.environment)
        self._service = LogService(node=self.node, clock=self._clock)
        self._address = str(socket_path(machine.directory))
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
        ready = None
        with self._on_disk():
            while self._inbox:
                source, number, message = self._inbox.popleft()
                self.node.receive(source, message, connection=number)
            self._charged_s = 0.0
            ready = self.node.step()
        if ready is None:
            return
        self._stepping = True
        self._network.send(self.name, ready.immediate)
        took_s = self._charged_s + self._dice.expovariate(1 / self._plan.commit_s) + self.slow_s
        self._committing = self._commit_in(took_s, ready), ready

    def _commit_in(self, seconds: float, ready: Ready) -> VirtualHandle:
        return self._loop.call_later(seconds, self._commit, ready, context=self.process.context)

    def repair(self) -> None:
        """Its disk is quick again: a slow commit that is under way ends, too, or healing would begin seconds later."""
        self.doom = None
        if self._committing is not None:
            handle, ready = self._committing
            handle.cancel()
            self._committing = self._commit_in(0.0, ready), ready
        self.slow_s = 0.0

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """What raises while the disk is at fault ends the process in order; nothing else may raise."""
        try:
            yield
        except Exception as error:
            if not self._machine.excuses():
                raise
            self._end(f"by its disk: {type(error).__name__}")

    def _end(self, why: str) -> None:
        self._finished = self._stepping = True
        self._ended(why)

    def _commit(self, ready: Ready) -> None:
        self._committing = None
        doomed = self.doom is not None and self._reaches(self.doom.edge, ready)
        if doomed and self._crash_at(BEFORE_COMMIT):
            return
        self._charged_s = 0.0
        with self._on_disk():
            self.node.commit()
        if self._finished:
            return
        self._stepping = False
        if doomed and self._crash_at(AFTER_COMMIT):
            return
        if doomed:
            self._network.send(self.name, ready.held[: len(ready.held) // 2])
            self._crash_at(HALF_SENT)
            return
        self._network.send(self.name, ready.held)
        self._service.deliver(ready)
        if self._inbox:
            self.wake()
        self.wake_at(self._loop.time() + max(self.node.next_deadline() - self._clock(), 0.0))

    def _crash_at(self, moment: str) -> bool:
        assert self.doom is not None
        if self.doom.moment == moment:
            self._end(f"killed {self.doom}")
            return True
        return False

    def _reaches(self, edge: str, ready: Ready) -> bool:
        """Whether this step has such a thing to make durable."""
        applied, self._applied_index = self._applied_index, ready.status.applied_index
        last, self._last_index = self._last_index, ready.status.last_index
        types = {message["type"] for _, message in ready.held}
        events = {type(decode_event(body)) for _, _, bodies in ready.events for body in bodies}
        return {
            ANY: True,
            VOTE: bool(types & {"request_vote", "response_vote"}),
            ACKNOWLEDGEMENT: "next_node_idx" in types,
            APPLY: ready.status.applied_index > applied > 0,
            LEASE: SessionRenewed in events,
            CLAIM: RunClaimed in events,
            RESULT: bool(ready.results),
            APPEND: ready.status.last_index > last > 0,
        }[edge]

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
