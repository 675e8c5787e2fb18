"""One simulated node: the two processes that `horae serve` is, on a disk, a clock and a network that are simulated.

A composition root, as node/serve.py is one: it puts the very same parts together, but for sockets, HTTP and threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from chaos.simulated_disk import SimulatedLogFolder, SimulatedMachine
from chaos.simulated_executor import ScriptedHttp, ScriptedNoop, ScriptedReceiver, Witness
from chaos.simulated_log import Doom, LogProcess
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
from raftlog.errors import LogError
from raftlog.interface import Lane, LogStatus, Role
from raftlog.meta import MetaStore
from raftlog.node import Message
from statemachine.reader import StateReader
from statemachine.snapshot import Snapshot

AWAY_S_MAX = 20.0
RESTART_S = 0.2
"""How long a supervisor takes when nothing goes wrong any more."""
REFUSED_S = 1.0
"""And when it did not start."""
STROBE_S = 0.05
"""How soon a clock that cannot make up its mind changes it."""


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
        self.rate = rate
        self._booted_s = booted_s
        self.offset_s = offset_s
        """How far the wall is ahead of the right time."""
        self.strobe_s = 0.0
        """Every other moment it is ahead by so much more."""
        self.frozen_s: float | None = None
        """The right time at which the wall has stopped."""

    def wall_ms(self) -> int:
        now_s = self._loop.time() if self.frozen_s is None else self.frozen_s
        strobe_s = self.strobe_s if int(self._loop.time() / STROBE_S) % 2 else 0.0
        return self._epoch_ms + int((now_s + self.offset_s + strobe_s) * 1000)

    def monotonic(self) -> float:
        return self._booted_s + self._loop.time() * self.rate

    def boottime(self) -> float:
        return self.monotonic()

    def repair(self) -> None:
        """The wall shows the right time again."""
        self.offset_s = self.strobe_s = 0.0
        self.frozen_s = None


class SimulatedNode:
    """`life` counts its starts; 0 while it is down. Also a Station of the network."""

    def __init__(self, name: str, world: World, root: Path) -> None:
        dice = random.Random(f"machine {world.seed} {name}")
        plan = world.plan
        self.name = name
        self.life = 0
        self._lives = 0
        self._world = world
        self.machine = SimulatedMachine(root / name, random.Random(f"disk {world.seed} {name}"), world.note)
        self.targets_slower = 1.0
        """Whatever it calls takes so many times as long at present."""
        self.dies_at_target: str | None = None
        """One of TARGET_EDGES: where its next call of a target kills it."""
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
        self._client: LogClient | None = None
        self._callers: dict[asyncio.Future[Any], None] = {}
        self.dead: list[Process] = []

    # --- life and death ----------------------------------------------------------------------------------------------

    def boot(self) -> None:
        if self.life:
            return
        try:
            self.log = self._log_process()
        except Exception as error:
            if not self.machine.excuses():
                raise
            self._refused(error)
            return
        self.life = self._lives
        self._world.note("boot", self.name, self.life)
        self.worker = Process(f"{self.name} node process {self.life}", rate=self.clock.rate)
        self._world.network.up(self.name)
        self.log.wake()
        self._world.loop.call_soon(self._start_worker, context=self.worker.context)

    def _log_process(self) -> LogProcess:
        self._lives += 1
        return LogProcess(
            name=self.name,
            members=self._world.members,
            machine=self.machine,
            bootstrap=not self.machine.wiped,
            process=Process(f"{self.name} log process {self._lives}", rate=self.clock.rate),
            loop=self._world.loop,
            network=self._world.network,
            plan=self._world.plan,
            dice=self._dice("log"),
            clock=self.clock.monotonic,
            truth=self._world.truth,
            ended=self._log_ended,
        )

    def _refused(self, error: Exception) -> None:
        """It does not start, and says why. A disk that is full or broken may be good again; one that is damaged is
        replaced."""
        self._world.note("refused", self.name, type(error).__name__)
        if self.machine.damaged:
            self.machine.wipe()
        self._world.loop.call_later(REFUSED_S, self.boot, context=WORLD)

    def _dice(self, what: str) -> random.Random:
        return random.Random(f"{what} {self._world.seed} {self.name} {self._lives}")

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
        self.log = self.node = self._client = None
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
        self._client = log = await LogClient.connect(self.machine.directory, RaftConfig())
        self.node = node = self._compose(log, self.log.reader)
        await node.runtime.run()
        self._world.loop.call_soon(self.crash, "left", context=WORLD)

    def _compose(self, log: LogClient, reader: StateReader) -> Node:
        plan, dice = self._world.plan, self._dice("targets")
        http = ScriptedHttp(self, self._world.witness, dice, failing=plan.failing)
        around = Surroundings(
            log=log,
            reader=reader,
            executors={"http": http, "noop": ScriptedNoop(self.name, self._world.witness)},
            logs=RunLogs(SimulatedLogFolder(self.machine), node=self.name),
            sender=ScriptedReceiver(),
            clock=self.clock,
            random=self._dice("node"),
        )
        identity = Identity(node=self.name, cluster_id="simulated", raft_addresses={}, tzdata="simulated")
        return compose(self._config(), around, identity, version="simulated")

    def die_by_target(self) -> None:
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

    def doom(self, where: Doom | None) -> None:
        """None: at once."""
        if self.log is None:
            return
        if where is None:
            self.crash()
        else:
            self.log.doom = where

    def replace_disk(self) -> None:
        """It is killed, and comes back with an empty disk under its own id, not being told that it is new."""
        self.crash("killed, its disk is lost")
        self.machine.wipe()

    def damage_disk(self, how: str) -> None:
        self.crash("killed, its disk is damaged")
        self.machine.damage(how)

    @property
    def has_all(self) -> bool:
        """Its disk holds what it once acknowledged, as far as it matters to an election."""
        if self.machine.damaged or self.machine.is_to_be_lost:
            return False
        if not self.machine.wiped:
            return True
        return self.log is not None and MetaStore(self.log.disk).joined()

    def repair(self) -> None:
        """Nothing is wrong with it any more, and it runs."""
        self.resume()
        self.clock.repair()
        self.machine.trouble = None
        self.targets_slower, self.dies_at_target = 1.0, None
        if self.log is not None:
            self.log.repair()
        self.boot()

    # --- its own moves -----------------------------------------------------------------------------------------------

    @property
    def starts(self) -> int:
        """How often it was started."""
        return self._lives

    def hand_over(self) -> None:
        """Give the leadership to another, as a node that leaves does."""
        self._ask("transfer", lambda log: log.transfer_leadership())

    def propose_again(self, command: bytes) -> None:
        """Propose what somebody has proposed before."""
        self._ask("echo", lambda log: log.propose(command, lane=Lane.WORK))

    def _ask(self, what: str, question: Callable[[LogClient], Awaitable[object]]) -> None:
        async def ask(log: LogClient) -> None:
            with contextlib.suppress(LogError):
                await question(log)
                self._world.note(what, self.name)

        if self._client is not None and self.life:
            # In the context of the node process: a coroutine belongs to whom its task does.
            client = self._client
            start = lambda: self._world.loop.create_task(ask(client))  # noqa: E731
            self._world.loop.call_soon(start, context=self.worker.context)

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
