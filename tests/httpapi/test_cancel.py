"""Cancelling a run over HTTP (M4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from node.interface import RunState
from tests.httpapi.twin import Twin

JOB = {"name": "beat", "schedule": "@every 5s", "target": {"type": "noop"}}


async def a_run(api: TestClient) -> str:
    job_id = (await (await api.post("/v1/jobs", json=JOB)).json())["job_id"]
    run_id: str = (await (await api.post(f"/v1/jobs/{job_id}:run")).json())["run_id"]
    return run_id


async def test_a_run_is_cancelled_and_a_repeat_answers_the_same(api: TestClient) -> None:
    run_id = await a_run(api)
    answer = await api.post(f"/v1/runs/{run_id}:cancel", json={"reason": "typo"}, headers={"Idempotency-Key": "k"})
    body = await answer.json()
    assert (answer.status, body["state"], body["effective"]) == (200, "cancelled", True)
    assert body["reason"] == "cancelled: typo"
    again = await api.post(f"/v1/runs/{run_id}:cancel")
    assert await again.json() == body
    assert (await (await api.get(f"/v1/runs/{run_id}")).json())["state"] == "cancelled"


async def test_an_attempt_that_is_not_known_to_be_gone_is_said_to_be_so(twin: Twin, twin_api: TestClient) -> None:
    run_id = await a_run(twin_api)
    twin.put_run(msgspec.structs.replace(twin.runs_by_id[run_id], state=RunState.RUNNING, node="n1"))
    body = await (await twin_api.post(f"/v1/runs/{run_id}:cancel")).json()
    assert (body["state"], body["effective"], body["stop"]) == ("running", False, "cancelled")


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.DEAD])
async def test_what_has_ended_otherwise_is_a_conflict(twin: Twin, twin_api: TestClient, state: RunState) -> None:
    run_id = await a_run(twin_api)
    twin.put_run(msgspec.structs.replace(twin.runs_by_id[run_id], state=state))
    assert (await twin_api.post(f"/v1/runs/{run_id}:cancel")).status == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [({"reason": 1}, 422), ({"why": "x"}, 422), ([], 422), ({"reason": "x" * 501}, 422)],
)
async def test_what_cannot_be_understood_is_refused(api: TestClient, body: Any, status: int) -> None:
    run_id = await a_run(api)
    assert (await api.post(f"/v1/runs/{run_id}:cancel", json=body)).status == status
    assert (await (await api.get(f"/v1/runs/{run_id}")).json())["state"] == "queued"


async def test_an_unknown_run_is_not_found(api: TestClient) -> None:
    for run_id in ("0193f2000000-01JD0000000000000000000000", "x" * 90, "a%2Fb"):
        assert (await api.post(f"/v1/runs/{run_id}:cancel")).status == 404
