"""One simulated node: the two processes that `horae serve` is, on a disk, a clock and a network that are simulated.

A composition root, as node/serve.py is one: it puts the very same parts together, but for sockets, HTTP and threads.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from chaos.simulated_executor import ScriptedHttp, ScriptedNoop, Witness
from chaos.simulated_log import NOW, LogProcess
from chaos.simulated_network import WORLD, Network
from chaos.simulated_plan import Plan
from chaos.simulated_truth import TruthLog
from chaos.virtual_loop import Process, VirtualLoop
from chaos.workload import Call, NodeGone
from node.composition import Node, Surroundings, compose
from node.config import NodeConfig
from node.runlogs import RunLogs
from node.service import Identity
from raftlog.client import LogClient
from raftlog.config import RaftConfig
from raftlog.interface import LogStatus, Role
from raftlog.node import Message
from statemachine.reader import StateReader
from statemachine.snapshot import Snapshot

AWAY_S_MAX = 20.0
RESTART_S = 0.2
"""How long a supervisor takes when nothing goes wrong any more."""


class World(Protocol):
    """What a node sees of the simulation that it is part of."""

    loop: VirtualLoop
    plan: Plan
    seed: int
    members: tuple[str, ...]
    network: Network
    truth: TruthLog
    witness: Witness

    @property
    def healing(self) -> bool: ...

    def note(self, *facts: object) -> None: ...


class SimulatedClock:
    """A node's clocks: a wall that may be off, a rate that is not exactly one, and boots that lie back differently."""

    def __init__(self, loop: VirtualLoop, epoch_ms: int, *, rate: float, offset_s: float, booted_s: float) -> None:
        self._loop = loop
        self._epoch_ms = epoch_ms
        self._rate = rate
        self._booted_s = booted_s
        self.offset_s = offset_s
        """How far the wall is ahead of the right time."""

    def wall_ms(self) -> int:
        return self._epoch_ms + int((self._loop.time() + self.offset_s) * 1000)

    def monotonic(self) -> float:
        return self._booted_s + self._loop.time() * self._rate

    def boottime(self) -> float:
        return self.monotonic()


class SimulatedNode:
    """`life` counts its starts; 0 while it is down. Also a Station of the network."""

    def __init__(self, name: str, world: World, root: Path) -> None:
        dice = random.Random(f"machine {world.seed} {name}")
        plan = world.plan
        self.name = name
        self.life = 0
        self._lives = 0
        self._world = world
        self._directory = root / name
        self.clock = SimulatedClock(
            world.loop,
            plan.epoch_ms,
            rate=1.0 + dice.uniform(-plan.drift, plan.drift),
            offset_s=dice.uniform(-plan.clock_offset_s, plan.clock_offset_s),
            booted_s=dice.uniform(0.0, 1e6),
        )
        self.log: LogProcess | None = None
        self.worker = Process(name)
        self.node: Node | None = None
        """None until it has come up."""
        self._callers: dict[asyncio.Future[Any], None] = {}
        self.dead: list[Process] = []

    # --- life and death ----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        if self.life:
            return
        self._lives += 1
        self.life = self._lives
        self._world.note("boot", self.name, self.life)
        self.worker = Process(f"{self.name} node process {self.life}")
        self.log = LogProcess(
            name=self.name,
            members=self._world.members,
            directory=self._directory,
            process=Process(f"{self.name} log process {self.life}"),
            loop=self._world.loop,
            network=self._world.network,
            plan=self._world.plan,
            dice=self._dice("log"),
            clock=self.clock.monotonic,
            truth=self._world.truth,
            ended=self._log_ended,
        )
        self._world.network.up(self.name)
        self.log.wake()
        self._world.loop.call_soon(self._start_worker, context=self.worker.context)

    def _dice(self, what: str) -> random.Random:
        return random.Random(f"{what} {self._world.seed} {self.name} {self.life}")

    def _start_worker(self) -> None:
        self._world.loop.create_task(self._work())

    def _log_ended(self, why: str) -> None:
        self._world.loop.call_soon(self.crash, f"killed {why}", context=WORLD)

    def crash(self, why: str = "killed", away_s: float | None = None) -> None:
        """Both processes are gone at once, with all that was not committed; comes back by itself."""
        if not self.life or self.log is None:
            return
        self._world.note("crash", self.name, why)
        if away_s is None:
            away_s = self._draw_away_s()
        self.life = 0
        for process in (self.worker, self.log.process):
            process.alive = False
            self.dead.append(process)
        self.log.close()
        self._world.network.down(self.name)
        self.log = self.node = None
        for caller in list(self._callers):
            if not caller.done():
                caller.set_exception(NodeGone(definite=False))
        self._world.loop.call_later(away_s, self.boot, context=WORLD)

    def _draw_away_s(self) -> float:
        if self._world.healing:
            return RESTART_S
        return min(self._dice("away").expovariate(1 / self._world.plan.away_s), AWAY_S_MAX)

    def leave(self) -> None:
        """SIGTERM: drain, then end, then come back."""
        if self.node is not None:
            self._world.note("leave", self.name)
            self._world.loop.call_soon(self.node.runtime.stop, context=self.worker.context)

    async def _work(self) -> None:
        """The node process, as node/serve.py."""
        assert self.log is not None
        log = await LogClient.connect(self._directory, RaftConfig())
        self.node = node = self._compose(log, self.log.reader)
        await node.runtime.run()
        self._world.loop.call_soon(self.crash, "left", context=WORLD)

    def _compose(self, log: LogClient, reader: StateReader) -> Node:
        plan, dice = self._world.plan, self._dice("targets")
        http = ScriptedHttp(self.name, self._world.witness, dice, failing=plan.failing, die=self._die)
        around = Surroundings(
            log=log,
            reader=reader,
            executors={"http": http, "noop": ScriptedNoop(self.name, self._world.witness)},
            logs=RunLogs(self._directory / "logs", node=self.name),
            clock=self.clock,
            random=self._dice("node"),
        )
        identity = Identity(node=self.name, cluster_id="simulated", raft_addresses={}, tzdata="simulated")
        return compose(self._config(), around, identity, version="simulated")

    def _die(self) -> None:
        """A target kills the node that called it."""
        if not self._world.healing:
            self.crash("killed by its target")

    def _config(self) -> NodeConfig:
        plan = self._world.plan
        return NodeConfig(
            node=self.name, http=f"{self.name}:80", raft=f"{self.name}:81", slots=plan.slots, ahead=plan.ahead
        )

    def consists_of(self, process: Process) -> bool:
        return self.log is not None and process in (self.worker, self.log.process)

    # --- pauses and disks --------------------------------------------------------------------------------------------

    def pause(self, which: str, seconds: float) -> None:
        """SIGSTOP of one of its processes, or of both."""
        if self.log is None:
            return
        self._world.note("pause", self.name, which, round(seconds, 3))
        paused = {"both": (self.worker, self.log.process), "node": (self.worker,), "log": (self.log.process,)}[which]
        for process in paused:
            self._world.loop.pause(process)
            self._world.loop.call_later(seconds, self._world.loop.resume, process, context=WORLD)

    def resume(self) -> None:
        """End all pauses."""
        if self.log is not None:
            for process in (self.worker, self.log.process):
                process.pauses = 0
                self._world.loop.resume(process)

    def doom(self, where: str) -> None:
        if self.log is None:
            return
        if where == NOW:
            self.crash()
        else:
            self.log.doom = where

    # --- its clients -------------------------------------------------------------------------------------------------

    async def call(self, call: Call) -> Any:
        """A client's request. Raises NodeGone or what the node raises."""
        if self.node is None:
            raise NodeGone(definite=True)
        answer = self._world.loop.create_future()
        self._callers[answer] = None
        answer.add_done_callback(self._callers.pop)
        self._world.loop.call_soon(self._serve, call, self.node, answer, context=self.worker.context)
        return await answer

    def _serve(self, call: Call, node: Node, answer: asyncio.Future[Any]) -> None:
        self._world.loop.create_task(_answer(call(node.service), answer))

    # --- what can be seen of it --------------------------------------------------------------------------------------

    @property
    def status(self) -> LogStatus | None:
        return None if self.log is None else self.log.node.status

    @property
    def leads(self) -> bool:
        return self.status is not None and self.status.role is Role.LEADER

    def look(self, see: Callable[[Snapshot], Any]) -> Any:
        """Something of its committed state."""
        assert self.log is not None
        with self.log.reader.snapshot() as snapshot:
            return see(snapshot)

    # --- the network's side ------------------------------------------------------------------------------------------

    def connected(self, peer: str) -> int:
        assert self.log is not None
        return self.log.connected(peer)

    def disconnected(self, peer: str, number: int) -> None:
        assert self.log is not None
        self.log.disconnected(peer, number)

    def deliver(self, source: str, number: int, message: Message) -> None:
        assert self.log is not None
        self.log.deliver(source, number, message)


async def _answer(request: Awaitable[Any], answer: asyncio.Future[Any]) -> None:
    try:
        value = await request
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(value)
