"""One node in the test's process: real state machine, reader, runtime and service, on a log without a network."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from executor.registry import build_executors
from node.clock import SystemClock
from node.composition import Node, Surroundings, compose
from node.config import NodeConfig
from node.interface import Run, RunState
from node.runlogs import RunLogs
from node.service import Identity
from statemachine.reader import StateReader
from statemachine.tables import open_environment
from tests.node.direct_log import DirectLog

T = TypeVar("T")
WAIT_S = 10.0


@dataclass
class LiveNode:
    """A node whose runtime runs."""

    node: Node
    log: DirectLog
    reader: StateReader
    task: asyncio.Task[None]

    async def wait_for_runs(self, job_id: str, states: tuple[RunState, ...], count: int) -> list[Run]:
        """The job's runs in these states, newest first, once there are `count` of them."""

        async def enough() -> list[Run] | None:
            with self.reader.snapshot() as snapshot:
                items = snapshot.runs_of_job(job_id, states, limit=500).items
            return items if len(items) >= count else None

        return await wait_until(enough)

    async def wait_for_session(self) -> int:
        async def session() -> int | None:
            return self.node.runtime.worker.session

        return await wait_until(session)


async def wait_until(ask: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await ask()
            if answer is not None:
                return answer
            await asyncio.sleep(0.005)


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """One node, one real clock; noop and http targets."""
    config = NodeConfig(node="n1", http="127.0.0.1:8101", raft="127.0.0.1:7101")
    config.validate()
    environment = open_environment(str(tmp_path / "db"))
    log = DirectLog(environment, node="n1")
    reader = StateReader(environment)
    executors = build_executors()
    around = Surroundings(
        log=log,
        reader=reader,
        executors=executors,
        logs=RunLogs(tmp_path / "logs", node="n1"),
        clock=SystemClock(),
        random=random.Random(1),
    )
    identity = Identity(node="n1", cluster_id="c", raft_addresses={"n1": "127.0.0.1:7101"}, tzdata="t")
    node = compose(config, around, identity, version="0")
    task = asyncio.create_task(node.runtime.run())
    yield LiveNode(node=node, log=log, reader=reader, task=task)
    node.runtime.stop()
    await task
    for executor in executors.values():
        await executor.close()
    environment.close()
