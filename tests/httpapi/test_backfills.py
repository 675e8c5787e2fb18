"""Backfills over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from httpapi.client import Client, Refused
from tests.httpapi.test_jobs import create

RANGE = {"from": "2026-11-29T00:00:00Z", "to": "2026-11-29T01:00:00+00:00"}


async def start(api: TestClient, job_id: str, *, key: str | None = None, **changes: Any) -> dict[str, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await api.post(f"/v1/jobs/{job_id}:backfill", json=RANGE | changes, headers=headers)
    assert answer.status == 201, await answer.text()
    body: dict[str, Any] = await answer.json()
    return body


async def test_a_dry_run_says_what_would_run_and_changes_nothing(api: TestClient) -> None:
    job_id = (await create(api, schedule="@every 600s"))["job_id"]
    answer = await api.post(f"/v1/jobs/{job_id}:backfill", json=RANGE | {"dry_run": True})
    assert answer.status == 200
    assert await answer.json() == {
        "count": 6,
        "first_at": "2026-11-29T00:00:00.000Z",
        "last_at": "2026-11-29T00:50:00.000Z",
    }
    nothing = {"from": "2026-11-29T00:00:01Z", "to": "2026-11-29T00:10:00Z", "dry_run": True}
    answer = await api.post(f"/v1/jobs/{job_id}:backfill", json=nothing)
    assert await answer.json() == {"count": 0, "first_at": None, "last_at": None}
    assert (await (await api.get(f"/v1/jobs/{job_id}/backfills")).json())["items"] == []


async def test_a_backfill_is_started_listed_and_cancelled(api: TestClient) -> None:
    job_id = (await create(api))["job_id"]
    first = await start(api, job_id, key="k", args={"a": 1})
    assert first["state"] == "running" and first["from"] == first["next_at"] == "2026-11-29T00:00:00.000Z"
    assert (first["to"], first["made"], first["outstanding"], first["finished_at"]) == (
        "2026-11-29T01:00:00.000Z",
        0,
        0,
        None,
    )
    assert await start(api, job_id, key="k", args={"a": 1}) == first
    other = await api.post(f"/v1/jobs/{job_id}:backfill", json=RANGE, headers={"Idempotency-Key": "k"})
    assert other.status == 409
    second = await start(api, job_id, overlap_policy="replace")
    assert (first["overlap_policy"], second["overlap_policy"]) == (None, "replace")
    page = await (await api.get(f"/v1/jobs/{job_id}/backfills?limit=1")).json()
    rest = await (await api.get(f"/v1/jobs/{job_id}/backfills", params={"cursor": page["next_cursor"]})).json()
    assert {one["backfill_id"] for one in (*page["items"], *rest["items"])} == {
        first["backfill_id"],
        second["backfill_id"],
    }
    path = f"/v1/backfills/{first['backfill_id']}:cancel"
    answer = await api.post(path, json={"reason": "enough"})
    body = await answer.json()
    assert (answer.status, body["state"], body["reason"]) == (200, "cancelled", "enough")
    assert body["finished_at"] == "2026-11-30T01:00:00.000Z"
    assert await (await api.post(path)).json() == body
    assert (await api.post("/v1/backfills/nothing:cancel")).status == 404
    assert (await api.post(path, json={"reason": "x" * 501})).status == 422


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-11-29T01:00:00"}, "to"),
        ({"to": "2026-11-29T00:00:00Z"}, "to"),
        ({"to": "2026-11-30T01:00:00.001Z"}, "to"),
        ({"overlap_policy": "any"}, "overlap_policy"),
        ({"until": "x"}, "until"),
    ],
)
async def test_what_is_no_backfill_is_refused(api: TestClient, changes: dict[str, Any], path: str) -> None:
    job_id = (await create(api))["job_id"]
    for dry_run in (True, False):
        answer = await api.post(f"/v1/jobs/{job_id}:backfill", json=RANGE | changes | {"dry_run": dry_run})
        assert (answer.status, [error["path"] for error in (await answer.json())["errors"]]) == (422, [path])
    assert (await api.post("/v1/jobs/nothing:backfill", json=RANGE)).status == 404
    assert (await api.get("/v1/jobs/nothing/backfills")).status == 404


async def test_the_client_knows_backfills(api: TestClient) -> None:
    job_id = (await create(api))["job_id"]
    async with Client(str(api.make_url("/"))) as client:
        times = {"from_": RANGE["from"], "to": RANGE["to"]}
        assert (await client.plan_backfill(job_id, **times))["count"] == 720
        made = await client.backfill_job(job_id, **times, args=[1])
        assert (await client.backfills(job_id, limit=5))["items"] == [made]
        assert (await client.cancel_backfill(made["backfill_id"]))["state"] == "cancelled"
        with pytest.raises(Refused):
            await client.cancel_backfill("nothing")
