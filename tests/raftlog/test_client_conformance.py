"""LogClient before real log processes behaves as every log does: alone, beside the leader, and beside a follower."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from ledger import Ledger
from log_cluster import LogCluster
from raftlog_conformance import LogConformance

from raftlog.client import LogClient

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


class ProcessHarness:
    """One node of a cluster."""

    def __init__(self, cluster: LogCluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._ledger = Ledger(cluster.data_dir(node))

    @property
    def log(self) -> LogClient:
        return self._cluster.clients[self._node]

    def applied(self) -> tuple[int, int]:
        return self._ledger.standing()[:2]

    async def restart(self) -> None:
        await self.log.close()
        await self._cluster.start(self._node)

    def close(self) -> None:
        self._ledger.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["alone", "leader", "follower"])
async def role(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, LogCluster]]:
    cluster = LogCluster(tmp_path_factory.mktemp("cluster"), 1 if request.param == "alone" else 3)
    await cluster.start()
    yield request.param, cluster
    await cluster.close()


@pytest_asyncio.fixture(loop_scope="module")
async def harness(role: tuple[str, LogCluster]) -> AsyncIterator[ProcessHarness]:
    name, cluster = role
    closed = [node for node, client in cluster.clients.items() if client.closed.done()]
    if closed:
        await cluster.start(*closed)
    leader = await cluster.leader()
    made = ProcessHarness(cluster, leader if name != "follower" else min(set(cluster.clients) - {leader}))
    yield made
    made.close()


class TestLogClient(LogConformance):
    """The cases are in raftlog_conformance.py."""
