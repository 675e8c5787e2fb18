"""Worker-only nodes (M25): they join, execute and leave, and the quorum does not notice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.api import Api, Json
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import create, final_runs_of, http_target, until
from tests.cluster.sink import Seen, Sink

SLOTS = 2
RUNS = 12


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(tmp_path, workers=1, flags=("--slots", str(SLOTS))) as started:
        yield started


async def test_workers_run_what_the_members_fire(cluster: LocalCluster, api: Api, sink: Sink) -> None:
    """More runs at once than the members have slots: some must be the worker's. It is killed, and they run elsewhere,
    without an election; it comes back, drains, and is gone."""
    [worker] = [name for name in cluster.places if name.startswith("w")]
    before = await until("the buckets are assigned", lambda: assigned(api), 20)
    nodes = {node["node"]: node for node in before["nodes"]}
    assert (nodes[worker]["role"], nodes[worker]["live"], nodes[worker]["buckets"]) == ("worker", True, 0)

    killed = False

    async def hang_until_killed(seen: Seen) -> int:
        await until("the worker is killed", worker_is_killed, 60)
        return 200

    async def worker_is_killed() -> bool:
        return killed

    sink.answer = hang_until_killed
    job = await create(api, "parallel", schedule="@every 1d", timeout_s=120, target=http_target(f"{sink.url}/hang"))
    for number in range(RUNS):
        await api.call("POST", f"/v1/jobs/{job['job_id']}:run", node=worker, json={"args": number})
    await until("all slots are taken", lambda: all_taken(api, job, len(cluster.places) * SLOTS), 30)

    await cluster.kill(worker)
    killed = True
    runs = await until("all have ended", lambda: all_ended(api, job), 60)
    assert {run["state"] for run in runs} == {"succeeded"}
    assert worker not in {run["node"] for run in runs if run["attempt"] > 1}
    assert any(run["attempts"][0]["node"] == worker for run in runs), "the worker ran nothing"

    cluster.start(worker)
    await cluster.wait_ready(worker)
    assert await cluster.stop(worker) < 10.0
    after = await api.call("GET", "/v1/cluster", node="n1")
    assert (after["term"], after["leader"]) == (before["term"], before["leader"])
    assert {node["node"]: node["live"] for node in after["nodes"]} == {
        "n1": True,
        "n2": True,
        "n3": True,
        worker: False,
    }


async def assigned(api: Api) -> Json | None:
    view = await api.call("GET", "/v1/cluster")
    nodes = view["nodes"]
    return view if len(nodes) == 4 and sum(node["buckets"] for node in nodes) == 1024 else None


async def all_taken(api: Api, job: Json, slots: int) -> bool:
    page = await api.call("GET", f"/v1/jobs/{job['job_id']}/runs?limit=500")
    return sum(run["state"] == "running" for run in page["items"]) == slots


async def all_ended(api: Api, job: Json) -> list[Json] | None:
    runs = await final_runs_of(api, job["job_id"])
    return runs if len(runs) == RUNS else None
