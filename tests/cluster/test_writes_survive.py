"""(b) What was acknowledged outlives the death of all nodes; (d) one key makes one job; a restart keeps it all."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiohttp

from bench.api import Api, Json
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import create, runs_of, until

CREATORS = 16
CREATES_MIN = 300


class Creators:
    """Clients that create jobs as fast as they are answered, and remember what they were told."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.acknowledged: dict[str, str] = {}
        self.unanswered: set[str] = set()

    async def run(self, creator: int) -> None:
        number = 0
        while True:
            name = f"job-{creator}-{number}"
            self.unanswered.add(name)
            try:
                status, body = await self._api.once("POST", "/v1/jobs", json=job_body(name))
            except (aiohttp.ClientError, OSError, TimeoutError):
                return
            if status == 201:
                self.unanswered.discard(name)
                self.acknowledged[name] = body["job_id"]
            number += 1


def job_body(name: str) -> Json:
    return {"name": name, "schedule": "@every 1d", "target": {"type": "noop"}, "idempotency_key": f"key-{name}"}


async def test_every_acknowledged_create_outlives_the_death_of_all_nodes(cluster: LocalCluster, api: Api) -> None:
    """(M8, xxl-job#2858)"""
    creators = Creators(api)
    load = [asyncio.create_task(creators.run(number)) for number in range(CREATORS)]
    await until("some creates", lambda: enough(creators), 30)
    await cluster.kill(*cluster.places)
    await asyncio.gather(*load)
    cluster.start(*cluster.places)
    await cluster.wait_ready(*cluster.places)

    jobs = await api.pages("/v1/jobs?limit=500")
    assert set(Counter(job["name"] for job in jobs).values()) == {1}, "a job is there twice"
    ids = {job["name"]: job["job_id"] for job in jobs}
    assert {name: ids.get(name) for name in creators.acknowledged} == creators.acknowledged
    for name in creators.unanswered:  # asking again finds the job, or makes it: exactly one either way
        again = await api.call("POST", "/v1/jobs", json=job_body(name))
        assert ids.setdefault(name, again["job_id"]) == again["job_id"]


async def enough(creators: Creators) -> bool:
    return len(creators.acknowledged) > CREATES_MIN


async def test_one_key_makes_one_job_through_three_nodes_at_once(cluster: LocalCluster, api: Api) -> None:
    nodes = [name for name in cluster.places for _ in range(7)][:20]
    answers = await asyncio.gather(*(api.once("POST", "/v1/jobs", node=node, json=job_body("same")) for node in nodes))
    assert Counter(status for status, _ in answers) == {201: 1, 200: 19}
    assert len({body["job_id"] for _, body in answers}) == 1
    assert [job["name"] for job in await api.pages("/v1/jobs")] == ["same"]
    status, problem = await api.once("POST", "/v1/jobs", json=job_body("same") | {"timeout_s": 5})
    assert (status, problem["status"], problem["outcome"]) == (409, 409, "definite")


async def test_jobs_and_history_outlive_a_restart_of_all_nodes(cluster: LocalCluster, api: Api) -> None:
    ticking = await create(api, "ticking", schedule="@every 1s", target={"type": "noop"})
    nightly = await create(api, "nightly", schedule="0 2 * * *", tz="Europe/Berlin", target={"type": "noop"})
    before = (await until("five runs", lambda: five_succeeded(api, ticking["job_id"]), 20))[:5]
    definition = await api.call("GET", f"/v1/jobs/{nightly['job_id']}")
    await asyncio.gather(*(cluster.stop(name) for name in cluster.places))
    cluster.start(*cluster.places)
    await cluster.wait_ready(*cluster.places)
    assert await api.call("GET", f"/v1/jobs/{nightly['job_id']}") == definition
    assert (await runs_of(api, ticking["job_id"]))[:5] == before
    await until("it ticks on", lambda: later_run(api, ticking["job_id"], before[-1]["due_at"]), 20)


async def five_succeeded(api: Api, job_id: str) -> list[Json] | None:
    runs = [run for run in await runs_of(api, job_id) if run["state"] == "succeeded"]
    return runs if len(runs) >= 5 else None


async def later_run(api: Api, job_id: str, due_at: str) -> bool:
    """A run that was made and ended after the restart."""
    runs = await runs_of(api, job_id)
    return bool([run for run in runs[6:] if run["due_at"] > due_at and run["state"] == "succeeded"])
