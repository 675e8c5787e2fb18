"""What three log processes on this machine reach; printed (run with -s), and judged only far from the edge: other work
on the machine, and the speed of its disk, show in every figure but the processor time."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from log_cluster import LogCluster

from raftlog.client import LogClient

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SAMPLES = 200
OPERATIONS = 60_000
CALLERS = 6_000
"""Enough to fill the proposals under way."""
OPERATION_BYTES = 300
IDLE_S = 4.0
IDLE_PERCENT_MAX = 4.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    cluster = LogCluster(tmp_path, 3)
    await cluster.start()
    await cluster.leader()
    yield cluster
    await cluster.close()


def processor_s(client: LogClient) -> float:
    """Processor time that a log process has used."""
    fields = Path(f"/proc/{client.process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def disk_ms(path: Path) -> float:
    """The median of an append of a page with fdatasync, in milliseconds: what a commit waits for at least twice."""
    descriptor = os.open(path / "probe", os.O_CREAT | os.O_WRONLY)
    try:
        samples = []
        for number in range(100):
            began = time.perf_counter()
            os.pwrite(descriptor, bytes(4096), number * 4096)
            os.fdatasync(descriptor)
            samples.append(time.perf_counter() - began)
        return 1000 * statistics.median(samples)
    finally:
        os.close(descriptor)


async def median_ms(call: Callable[[int], Awaitable[Any]]) -> float:
    samples = []
    for number in range(SAMPLES):
        began = time.perf_counter()
        await call(number)
        samples.append(time.perf_counter() - began)
    return 1000 * statistics.median(samples)


async def commit(client: LogClient, number: int) -> None:
    await client.propose(b"%s %d" % (client.status.node.encode(), number))


async def barrier(client: LogClient, number: int) -> None:
    await client.read_barrier()


async def operations_per_s(client: LogClient) -> float:
    async def caller(number: int) -> None:
        for turn in range(OPERATIONS // CALLERS):
            await client.propose((b"%06d %06d " % (turn, number)).ljust(OPERATION_BYTES, b"x"), timeout_s=60)

    began = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    return OPERATIONS / (time.perf_counter() - began)


async def test_latency_and_throughput(cluster: LogCluster, tmp_path: Path) -> None:
    leader = await cluster.leader()
    follower = min(set(cluster.clients) - {leader})
    print(f"\nfdatasync p50 {disk_ms(tmp_path):.2f} ms")
    for role, node in (("leader", leader), ("follower", follower)):
        client = cluster.clients[node]
        commit_ms = await median_ms(partial(commit, client))
        barrier_ms = await median_ms(partial(barrier, client))
        print(f"{role}: commit p50 {commit_ms:.2f} ms, barrier p50 {barrier_ms:.2f} ms")
        assert commit_ms < 250
        assert barrier_ms < 100
    for role, node in (("leader", leader), ("follower", follower)):
        before = sum(map(processor_s, cluster.clients.values()))
        rate = await operations_per_s(cluster.clients[node])
        used = sum(map(processor_s, cluster.clients.values())) - before
        print(
            f"{role}: {rate:,.0f} operations/s, {1e6 * used / OPERATIONS / 3:.0f} us of processor a node and operation"
        )
        assert rate > 500
    await cluster.equal_standing()


async def test_an_idle_node_hardly_uses_the_processor(cluster: LogCluster) -> None:
    leader = await cluster.leader()
    await asyncio.sleep(0.5)  # what an election leaves to do
    before = {node: processor_s(client) for node, client in cluster.clients.items()}
    await asyncio.sleep(IDLE_S)
    percents = {node: 100 * (processor_s(cluster.clients[node]) - before[node]) / IDLE_S for node in before}
    print(f"\nidle: leader {leader}, percent of a core {percents}")
    assert max(percents.values()) <= IDLE_PERCENT_MAX
    assert await cluster.leader() == leader
