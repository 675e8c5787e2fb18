"""Dead runs over HTTP: listed over all jobs, and tried anew one by one or in bulk (M18)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from node.interface import RunState
from tests.httpapi.twin import NOW_MS, Twin

JOB = {"schedule": "@every 5s", "target": {"type": "noop"}}


async def dead_run(twin: Twin, api: TestClient, name: str, team: str = "default", number: int = 0) -> str:
    if not any(job.name == name for job in twin.jobs_by_id.values()):
        await api.post("/v1/jobs", json=JOB | {"name": name, "team": team})
    job_id = next(job.job_id for job in twin.jobs_by_id.values() if job.name == name)
    run = twin.fire(job_id, NOW_MS + 1000 * number)
    twin.put_run(msgspec.structs.replace(run, state=RunState.DEAD, reason="failed", attempt=4))
    return run.run_id


async def listed(api: TestClient, **query: str) -> list[str]:
    answer = await api.get("/v1/runs", params={"state": "dead"} | query)
    assert answer.status == 200, await answer.text()
    return [run["run_id"] for run in (await answer.json())["items"]]


async def test_dead_runs_are_listed_newest_first_by_team_or_job(twin: Twin, twin_api: TestClient) -> None:
    first, second = await dead_run(twin, twin_api, "a"), await dead_run(twin, twin_api, "b", "billing", 1)
    third = await dead_run(twin, twin_api, "a", number=2)
    assert await listed(twin_api) == [third, second, first]
    assert await listed(twin_api, team="billing") == [second]
    assert await listed(twin_api, job_id=twin.runs_by_id[first].job_id) == [third, first]
    page = await (await twin_api.get("/v1/runs?state=dead&limit=2")).json()
    assert await listed(twin_api, cursor=page["next_cursor"]) == [first]


@pytest.mark.parametrize(
    ("query", "field"),
    [("", "state"), ("state=queued", "state"), ("state=dead,queued", "state"), ("state=dead&team=a&job_id=b", "team")],
)
async def test_other_lists_are_refused(api: TestClient, query: str, field: str) -> None:
    answer = await api.get(f"/v1/runs?{query}")
    assert (answer.status, (await answer.json())["errors"][0]["path"]) == (400, field)


async def test_a_dead_run_is_redriven_and_no_other(twin: Twin, twin_api: TestClient) -> None:
    run_id = await dead_run(twin, twin_api, "a")
    answer = await twin_api.post(f"/v1/runs/{run_id}:redrive", headers={"Idempotency-Key": "k"})
    body = await answer.json()
    assert (answer.status, body["state"], body["attempt"], body["reason"]) == (200, "queued", 5, None)
    assert (await twin_api.post(f"/v1/runs/{run_id}:redrive")).status == 409
    assert await listed(twin_api) == []


async def test_all_of_a_team_or_a_job_are_redriven(twin: Twin, twin_api: TestClient) -> None:
    for number in range(3):
        await dead_run(twin, twin_api, "a", number=number)
    other = await dead_run(twin, twin_api, "b", "billing")
    answer = await twin_api.post("/v1/runs:redrive", json={"team": "default"})
    assert await answer.json() == {"redriven": 3, "refused": 0, "remaining": False}
    assert await listed(twin_api) == [other]
    answer = await twin_api.post("/v1/runs:redrive", json={"job_id": twin.runs_by_id[other].job_id})
    assert (await answer.json())["redriven"] == 1


@pytest.mark.parametrize("body", [{}, {"team": "a", "job_id": "b"}, {"all": True}])
async def test_whose_they_are_has_to_be_said(api: TestClient, body: Any) -> None:
    assert (await api.post("/v1/runs:redrive", json=body)).status == 422


async def test_an_unknown_run_is_not_found(api: TestClient) -> None:
    assert (await api.post("/v1/runs/0193f2000000-01JD0000000000000000000000:redrive")).status == 404
