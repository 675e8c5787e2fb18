"""The leader's disk runs full under load: it costs that node alone, while it lasts, and nothing acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bench.api import Api, Json
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import create, leader_of, runs_of, until
from tests.cluster.replicas import digests_at_one_index
from tests.raftlog.small_disk import SmallDisk

DISK_BYTES = 64 * 1024 * 1024
OUT_BYTES = 1024 * 1024
"""Less than a node goes on with, and enough for its commits until it has seen that."""
CREATORS = 6
AGAIN_AFTER_S = 0.1
TAKEN_OVER_S = 40.0
"""A session that lapses takes 6 s; then its work is others'."""


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, SmallDisk]]:
    mounted: dict[str, SmallDisk] = {}
    try:
        for name in ("n1", "n2", "n3"):
            mounted[name] = SmallDisk(tmp_path / name, DISK_BYTES)
        yield mounted
    finally:
        for disk in mounted.values():
            disk.close()


@pytest.fixture
async def cluster(tmp_path: Path, disks: dict[str, SmallDisk]) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(tmp_path) as started:
        yield started


class Creators:
    """Clients of each node, which remember what they were told."""

    def __init__(self, api: Api, nodes: list[str]) -> None:
        self._api = api
        self.acknowledged: dict[str, set[str]] = {node: set() for node in nodes}
        self.refused: dict[str, list[Json]] = {node: [] for node in nodes}
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tasks = [asyncio.create_task(self._run(node, number)) for node in nodes for number in range(CREATORS)]

    async def _run(self, node: str, creator: int) -> None:
        number = 0
        while True:
            number += 1
            name = f"{node}-{creator}-{number}"
            body = {"name": name, "schedule": "@every 1d", "target": {"type": "noop"}}
            status, answer = await self._api.once("POST", "/v1/jobs", node=node, json=body)
            if status == 201:
                self.acknowledged[node].add(name)
            else:
                self.refused[node].append(answer)
                await asyncio.wait((self._ended,), timeout=AGAIN_AFTER_S)

    async def more(self, nodes: list[str], count: int = 50) -> None:
        """Until each of these nodes has taken so many more."""
        wanted = {node: len(self.acknowledged[node]) + count for node in nodes}

        async def look() -> bool:
            return all(len(self.acknowledged[node]) >= least for node, least in wanted.items())

        await until(f"{count} more creates on each of {nodes}", look, 30)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_a_full_disk_of_the_leader_under_load(
    cluster: LocalCluster, api: Api, disks: dict[str, SmallDisk]
) -> None:
    ticking = (await create(api, "ticking", schedule="@every 1s", target={"type": "noop"}))["job_id"]
    full = await leader_of(api)
    others = [name for name in cluster.places if name != full]
    creators = Creators(api, list(cluster.places))
    await creators.more(list(cluster.places))
    disks[full].fill(leave_bytes=OUT_BYTES)

    await until("another leader", lambda: leads_elsewhere(api, others), 15)
    await creators.more(others)
    body = {"name": "refused", "schedule": "@every 1d", "target": {"type": "noop"}}
    status, problem = await api.once("POST", "/v1/jobs", node=full, json=body)
    assert (status, problem["type"], problem["outcome"]) == (507, "urn:horae:error:disk-full", "definite")
    assert full in problem["detail"]
    status, text = await api.text("/readyz", node=full)
    assert status == 503
    assert "the disk of this node is nearly full" in text
    before = len(await runs_of(api, ticking, "&state=succeeded"))
    await until("the ticks go on", lambda: more_runs(api, ticking, before + 3), TAKEN_OVER_S)
    assert full in cluster.running, "it did not die of it"

    disks[full].free()
    await cluster.wait_ready(full)
    await creators.more(list(cluster.places))
    await creators.end()
    assert {answer["status"] for node in others for answer in creators.refused[node]} <= {503, 429}
    jobs = {job["name"] for job in await api.pages("/v1/jobs?limit=500")}
    assert set().union(*creators.acknowledged.values()) <= jobs
    assert "refused" not in jobs
    digests = await digests_at_one_index(cluster, api)
    assert len(set(digests.values())) == 1


async def leads_elsewhere(api: Api, others: list[str]) -> bool:
    view = await api.call("GET", "/v1/cluster?consistency=local", node=others[0])
    return view["leader"] in others


async def more_runs(api: Api, job_id: str, count: int) -> bool:
    return len(await runs_of(api, job_id, "&state=succeeded")) >= count
