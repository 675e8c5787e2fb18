"""Real log processes that keep little of their log: a node that was away for longer gets a copy of the state, under
load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import lmdb
import msgpack
import pytest
from log_cluster import LogCluster

from raftlog.client import LogClient
from raftlog.process import database_path

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SMALL_LOG = {"log_keep_bytes": 256 * 1024, "snapshot_chunk_bytes": 4 * 1024}
COMMAND_BYTES = 100
COMMANDS = 20_000
"""About a megabyte of state: hundreds of chunks."""
WRITERS = 20
COMMIT_MS_MAX = 1_000.0
"""Of the slowest commits in a hundred, on a machine that is busy with other things. On a quiet one it is 100."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    cluster = LogCluster(tmp_path, 3, raft=SMALL_LOG)
    await cluster.start()
    yield cluster
    await cluster.close()


class Load:
    """Writers at the leader, each of one command at a time, and how long they wait."""

    def __init__(self, client: LogClient) -> None:
        self._client = client
        self._going = True
        self.waited_ms: list[float] = []
        self._writers = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]

    async def _write(self, writer: int) -> None:
        number = 0
        while self._going:
            number += 1
            began = time.perf_counter()
            await self._client.propose(b"load %d %d" % (writer, number))
            self.waited_ms.append(1000 * (time.perf_counter() - began))

    async def end(self) -> float:
        """The time in milliseconds that 99 of 100 commands took at most."""
        self._going = False
        await asyncio.gather(*self._writers)
        return sorted(self.waited_ms)[len(self.waited_ms) * 99 // 100]


async def fill(client: LogClient) -> None:
    await asyncio.gather(
        *(client.propose((b"%d " % number).ljust(COMMAND_BYTES), timeout_s=60) for number in range(COMMANDS))
    )


async def left_behind(cluster: LogCluster) -> tuple[str, str]:
    """(leader, a follower that is down): the log is trimmed beyond what the follower has."""
    leader = await cluster.leader()
    follower = min(set(cluster.clients) - {leader})
    had = cluster.clients[follower].status.last_index
    await cluster.kill(follower)
    await fill(cluster.clients[leader])
    await cluster.until(lambda: cluster.clients[leader].status.first_index > had + 1)
    return leader, follower


async def caught_up(cluster: LogCluster, follower: str) -> None:
    await cluster.clients[follower].read_barrier(timeout_s=60)


async def test_a_node_that_was_away_gets_the_state_under_load_without_an_election(cluster: LogCluster) -> None:
    leader, follower = await left_behind(cluster)
    term = cluster.clients[leader].status.term
    load = Load(cluster.clients[leader])
    began = time.perf_counter()
    await cluster.start(follower)
    await caught_up(cluster, follower)
    took_s = time.perf_counter() - began
    p99_ms = await load.end()
    status = cluster.clients[follower].status
    print(f"\ncaught up in {took_s:.2f} s; the leader's commit p99 {p99_ms:.1f} ms ({len(load.waited_ms)} commands)")
    assert status.snapshots_received == 1
    assert status.log_bytes < 8 * SMALL_LOG["log_keep_bytes"]
    assert (await cluster.leader(), status.term) == (leader, term)
    assert p99_ms < COMMIT_MS_MAX
    await cluster.equal_standing()
    assert cluster.ledger_of(follower) == cluster.ledger_of(leader)


def receiving(cluster: LogCluster, node: str) -> list[int] | None:
    """What this node's disk says about a copy that is on its way: [term, number, index, term of it, chunk, digest]."""
    environment = lmdb.open(str(database_path(cluster.data_dir(node))), readonly=True, max_dbs=64)
    try:
        database = environment.open_db(b"raft/meta", create=False)
        with environment.begin() as transaction:
            stored = transaction.get(b"receiving", db=database)
    finally:
        environment.close()
    fields: list[int] | None = None if stored is None else msgpack.unpackb(stored)
    return fields


async def test_a_node_that_is_killed_while_it_gets_the_state_goes_on_where_it_was(cluster: LogCluster) -> None:
    leader, follower = await left_behind(cluster)
    await cluster.start(follower)
    async with asyncio.timeout(30):
        while (before := receiving(cluster, follower)) is None or before[4] < 10:
            assert cluster.clients[follower].status.snapshots_received == 0, "too fast to be interrupted"
            await cluster.clients[leader].read_barrier()
    await cluster.kill(follower)
    at_the_kill = receiving(cluster, follower)
    assert at_the_kill is not None and at_the_kill[4] >= before[4]
    await cluster.start(follower)
    async with asyncio.timeout(30):
        while (after := receiving(cluster, follower)) == at_the_kill:
            await cluster.clients[leader].read_barrier()
    if after is not None:
        assert after[:4] == at_the_kill[:4], "the same copy"
        assert after[4] > at_the_kill[4]
    await caught_up(cluster, follower)
    await cluster.equal_standing()
    assert cluster.ledger_of(follower) == cluster.ledger_of(leader)


async def test_the_leader_dies_while_a_node_gets_its_state(cluster: LogCluster) -> None:
    leader, follower = await left_behind(cluster)
    await cluster.start(follower)
    await cluster.kill(leader)
    successor = await cluster.leader()
    assert successor != follower, "its log is older"
    await caught_up(cluster, follower)
    assert cluster.clients[follower].status.snapshots_received == 1
    await cluster.start(leader)
    await cluster.equal_standing()
    assert cluster.ledger_of(follower) == cluster.ledger_of(leader)
