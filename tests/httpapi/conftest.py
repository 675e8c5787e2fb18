"""Nodes that answer HTTP in the test's own loop: over the in-memory scheduler, and over the real service."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from executor import WebhookSender
from httpapi.app import build_app
from node.composition import Surroundings, compose
from node.config import NodeConfig
from node.interface import Attempt, AttemptOutcome, HttpTarget, JobDraft, Run, Scheduler
from node.log_folder import LogFolder
from node.runlogs import RunLogs
from node.service import Identity
from statemachine.reader import StateReader
from statemachine.tables import open_environment
from tests.httpapi.twin import NOW_MS, Twin
from tests.node.direct_log import DirectLog


class StandingClock:
    """Wall time stands at NOW_MS, so that the examples of the API have one right answer; durations pass."""

    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return asyncio.get_running_loop().time()


@pytest.fixture
def twin() -> Twin:
    return Twin()


@pytest.fixture
async def twin_api(twin: Twin) -> AsyncIterator[TestClient]:
    """A client of a node whose scheduler is the `twin` fixture."""
    async with TestClient(TestServer(build_app(twin, node=twin.node))) as client:
        yield client


@pytest.fixture
async def api_of(tmp_path: Path) -> AsyncIterator[Callable[[str], Awaitable[TestClient]]]:
    """Makes a client of the named scheduler, 'twin' or 'service'; its wall time stands at NOW_MS."""
    async with AsyncExitStack() as stack:

        async def make(name: str) -> TestClient:
            scheduler: Scheduler = Twin() if name == "twin" else _service(tmp_path, stack)
            return await stack.enter_async_context(TestClient(TestServer(build_app(scheduler, node="n1"))))

        yield make


@pytest.fixture(params=["twin", "service"])
async def api(request: pytest.FixtureRequest, api_of: Callable[[str], Awaitable[TestClient]]) -> TestClient:
    """A client of any scheduler that keeps the contract."""
    return await api_of(request.param)


def _service(directory: Path, stack: AsyncExitStack) -> Scheduler:
    """The real service over the real state machine; nothing runs, for its runtime is not started."""
    environment = open_environment(str(directory / "db"))
    stack.callback(environment.close)
    around = Surroundings(
        log=DirectLog(environment, node="n1"),
        reader=StateReader(environment),
        executors={},
        logs=RunLogs(LogFolder(directory / "logs", bytes_max=10**9), node="n1"),
        sender=WebhookSender(),
        clock=StandingClock(),
        random=random.Random(1),
    )
    identity = Identity(node="n1", cluster_id="c1d2", raft_addresses={"n1": "127.0.0.1:7101"}, tzdata="2026f")
    config = NodeConfig(node="n1", http="127.0.0.1:8101", raft="127.0.0.1:7101")
    return compose(config, around, identity, version="0.1.0").service


@dataclass
class Pair:
    """Two nodes that know the same runs; each keeps only its own logs."""

    twins: dict[str, Twin]
    clients: dict[str, TestClient]

    async def run_on(self, node: str) -> Run:
        draft = JobDraft(name="a", schedule="@every 5s", target=HttpTarget(url="https://a.example"))
        for twin in self.twins.values():
            job_id = (await twin.create_job(draft)).job_id
            run = twin.fire(job_id, NOW_MS)
        attempt = Attempt(attempt=1, node=node, outcome=AttemptOutcome.SUCCEEDED, status=200)
        run = msgspec.structs.replace(run, node=node, attempts=(attempt,))
        for twin in self.twins.values():
            twin.put_run(run)
        return run


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    twins = {node: Twin(node=node) for node in ("n1", "n2")}
    servers = {node: TestServer(build_app(twin, node=node)) for node, twin in twins.items()}
    for server in servers.values():
        await server.start_server()
    for twin in twins.values():
        twin.addresses = {node: f"127.0.0.1:{server.port}" for node, server in servers.items()}
    clients = {node: TestClient(server) for node, server in servers.items()}
    yield Pair(twins=twins, clients=clients)
    for client in clients.values():
        await client.close()
