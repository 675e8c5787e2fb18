"""One node in the test's process: real state machine, reader, runtime and service, on a log without a network."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from executor import WebhookSender, build_executors
from executor.interface import Executor
from node.clock import SystemClock
from node.composition import Node, Surroundings, compose
from node.config import NodeConfig
from node.interface import Run, RunState
from node.log_folder import LogFolder
from node.log_store import LogStore
from node.runlogs import RunLogs
from node.service import Identity, Service
from statemachine.reader import StateReader
from statemachine.snapshot import Snapshot
from statemachine.tables import open_environment
from tests.node.direct_log import DirectLog

T = TypeVar("T")
WAIT_S = 10.0
CONFIG = NodeConfig(node="n1", http="127.0.0.1:8101", raft="127.0.0.1:7101", reconcile_every_s=0.5)


class ShiftedClock(SystemClock):
    """The machine's clocks, some way ahead: what a node sees that was paused for so long."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._stopped: tuple[int, float] | None = None

    def stop(self) -> None:
        """From now on only `ahead_s` moves it: however slow the machine is, no time passes by itself."""
        self._stopped = super().wall_ms(), super().boottime()

    def wall_ms(self) -> int:
        base_ms = super().wall_ms() if self._stopped is None else self._stopped[0]
        return base_ms + round(self.ahead_s * 1000)

    def boottime(self) -> float:
        return (super().boottime() if self._stopped is None else self._stopped[1]) + self.ahead_s


@dataclass
class LiveNode:
    """A node, the log that it stands on, and its state."""

    node: Node
    log: DirectLog
    reader: StateReader
    clock: ShiftedClock

    @property
    def service(self) -> Service:
        return self.node.service

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        return self.reader.snapshot()

    async def wait_until(self, ask: Callable[[], T | None]) -> T:
        """The first answer that is not None; asked again whenever the log has moved."""
        async with asyncio.timeout(WAIT_S):
            while (answer := ask()) is None:
                await self.log.wait_applied()
        return answer

    async def wait_for_runs(self, job_id: str, states: tuple[RunState, ...], count: int) -> list[Run]:
        """The job's runs in these states, newest first, once there are `count` of them."""

        def enough() -> list[Run] | None:
            with self.snapshot() as snapshot:
                items = snapshot.runs_of_job(job_id, states, limit=500).items
            return items if len(items) >= count else None

        return await self.wait_until(enough)

    async def wait_for_run(self, run: Run, *states: RunState) -> Run:
        """The run, once it is in one of these states."""

        def there() -> Run | None:
            with self.snapshot() as snapshot:
                found = snapshot.run(run.run_id)
            return found if found is not None and found.state in states else None

        return await self.wait_until(there)

    async def wait_for_session(self) -> int:
        return await self.wait_until(lambda: self.node.runtime.worker.session)


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """A node whose runtime does not run: for its service alone."""
    async with made_node(tmp_path) as node:
        yield node


@pytest.fixture
async def live(idle: LiveNode) -> AsyncIterator[LiveNode]:
    """One node at work, on the real clock; noop and http targets."""
    task = asyncio.create_task(idle.node.runtime.run())
    yield idle
    idle.node.runtime.stop()
    await task


@asynccontextmanager
async def made_node(
    directory: Path,
    config: NodeConfig = CONFIG,
    executors: dict[str, Executor] | None = None,
    *,
    log_store: LogStore | None = None,
) -> AsyncIterator[LiveNode]:
    config.validate()
    environment = open_environment(str(directory / "db"))
    clock = ShiftedClock()
    log = DirectLog(environment, node=config.node)
    reader = StateReader(environment)
    executors = build_executors() if executors is None else executors
    sender = WebhookSender()
    around = Surroundings(
        log=log,
        reader=reader,
        executors=executors,
        logs=RunLogs(LogFolder(directory / "logs", bytes_max=10**9), node=config.node, store=log_store),
        sender=sender,
        clock=clock,
        random=random.Random(1),
    )
    identity = Identity(node=config.node, cluster_id="c", raft_addresses={config.node: config.raft}, tzdata="t")
    yield LiveNode(node=compose(config, around, identity, version="0"), log=log, reader=reader, clock=clock)
    for executor in (*executors.values(), sender):
        await executor.close()
    environment.close()
