"""Targets that complete attempts themselves, over HTTP: the end, heartbeats, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from httpapi.client import Client, Refused
from node.interface import Lease, Run, RunState
from tests.httpapi.twin import NOW_MS, Twin

SECOND = 1000
LEASE = Lease(until_ms=NOW_MS + 5 * SECOND, ends_ms=NOW_MS + 60 * SECOND, heartbeat_ms=30 * SECOND, backoff_ms=SECOND)


async def made(api: TestClient) -> str:
    answer = await api.post("/v1/jobs", json={"name": "beat", "schedule": "@every 5s", "target": {"type": "noop"}})
    return str((await answer.json())["job_id"])


async def detached(twin: Twin, api: TestClient, **fields: Any) -> Run:
    """A run that its target has taken over."""
    run = twin.fire(await made(api), NOW_MS)
    usual = {"state": RunState.RUNNING, "token": 3, "node": "n1", "lease": LEASE}
    twin.put_run(msgspec.structs.replace(run, **(usual | fields)))
    return run


async def post(api: TestClient, path: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    answer = await api.post(path, json=body, headers=headers)
    return answer.status, await answer.json()


async def test_a_target_completes_its_attempt(twin: Twin, twin_api: TestClient) -> None:
    run = await detached(twin, twin_api)
    body = {"fence_token": 3, "outcome": "succeeded", "detail": "312 rows"}
    status, answer = await post(twin_api, f"/v1/runs/{run.run_id}:complete", body)
    assert (status, answer["state"], answer["run_id"]) == (200, "succeeded", run.run_id)
    assert (answer["attempts"][0]["outcome"], answer["attempts"][0]["detail"]) == ("succeeded", "312 rows")
    again = await post(twin_api, f"/v1/runs/{run.run_id}:complete", body, **{"Idempotency-Key": "k"})
    assert again == (200, answer)


async def test_what_the_target_put_out_is_its_log(twin: Twin, twin_api: TestClient) -> None:
    run = await detached(twin, twin_api)
    body = {"fence_token": 3, "outcome": "failed", "output": "no disk\nä\n"}
    assert (await post(twin_api, f"/v1/runs/{run.run_id}:complete", body))[0] == 200
    log = await twin_api.get(f"/v1/runs/{run.run_id}/log")
    assert await log.text() == "no disk\nä\n"


async def test_another_outcome_or_token_is_refused_once_it_is_over(twin: Twin, twin_api: TestClient) -> None:
    """(N18) A zombie's word does not count."""
    run = await detached(twin, twin_api)
    path = f"/v1/runs/{run.run_id}"
    for token in (2, 4, -1, 2**70):
        status, answer = await post(twin_api, f"{path}:complete", {"fence_token": token, "outcome": "succeeded"})
        assert (status, answer["type"], answer["outcome"]) == (409, "urn:horae:error:fenced", "definite")
    await post(twin_api, f"{path}:complete", {"fence_token": 3, "outcome": "failed"})
    for body in ({"fence_token": 3, "outcome": "succeeded"}, {"fence_token": 2, "outcome": "failed"}):
        assert (await post(twin_api, f"{path}:complete", body))[0] == 409
    assert (await post(twin_api, f"{path}:heartbeat", {"fence_token": 3}))[0] == 409


async def test_a_heartbeat_says_until_when_the_next_is_due(twin: Twin, twin_api: TestClient) -> None:
    run = await detached(twin, twin_api)
    path = f"/v1/runs/{run.run_id}"
    shown = await (await twin_api.get(path)).json()
    assert (shown["lease_until"], shown["progress"]) == ("2026-11-30T01:00:05.000Z", None)
    status, answer = await post(twin_api, f"{path}:heartbeat", {"fence_token": 3, "progress": "half"})
    assert (status, answer) == (200, {"run_id": run.run_id, "lease_until": "2026-11-30T01:00:30.000Z"})
    shown = await (await twin_api.get(path)).json()
    assert (shown["state"], shown["lease_until"], shown["progress"]) == ("running", answer["lease_until"], "half")


async def test_before_the_202_was_reported_there_is_no_lease_yet(twin: Twin, twin_api: TestClient) -> None:
    run = await detached(twin, twin_api, state=RunState.CLAIMED, lease=None)
    answer = await post(twin_api, f"/v1/runs/{run.run_id}:heartbeat", {"fence_token": 3})
    assert answer == (200, {"run_id": run.run_id, "lease_until": None})


@pytest.mark.parametrize("call", ["complete", "heartbeat"])
@pytest.mark.parametrize("run_id", ["0193f2000000-01JD0000000000000000000000", "x" * 300, "%00"])
async def test_an_unknown_run_is_not_found(api: TestClient, call: str, run_id: str) -> None:
    body = {"fence_token": 1} | ({"outcome": "failed"} if call == "complete" else {})
    assert (await post(api, f"/v1/runs/{run_id}:{call}", body))[0] == 404


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
async def test_a_run_that_was_not_started_cannot_be_completed(api: TestClient, outcome: str) -> None:
    made_run = await (await api.post(f"/v1/jobs/{await made(api)}:run")).json()
    path = f"/v1/runs/{made_run['run_id']}"
    status, answer = await post(api, f"{path}:complete", {"fence_token": 0, "outcome": outcome})
    assert (status, answer["type"]) == (409, "urn:horae:error:fenced")
    assert "the run is queued" in answer["detail"]
    assert (await post(api, f"{path}:heartbeat", {"fence_token": 0}))[0] == 409
    assert (await (await api.get(path)).json())["state"] == "queued"


@pytest.mark.parametrize(
    ("call", "body", "path"),
    [
        ("complete", {"outcome": "failed"}, "fence_token"),
        ("complete", {"fence_token": 1}, "outcome"),
        ("complete", {"fence_token": "1", "outcome": "failed"}, "fence_token"),
        ("complete", {"fence_token": 1, "outcome": "lost"}, "outcome"),
        ("complete", {"fence_token": 1, "outcome": "failed", "details": "x"}, "details"),
        ("heartbeat", {}, "fence_token"),
        ("heartbeat", {"fence_token": 1, "progress": 0.5}, "progress"),
        ("heartbeat", {"fence_token": 1, "outcome": "failed"}, "outcome"),
    ],
)
async def test_a_wrong_field_is_named(api: TestClient, call: str, body: dict[str, Any], path: str) -> None:
    status, answer = await post(api, f"/v1/runs/0193f2000000-01JD:{call}", body)
    assert (status, [error["path"] for error in answer["errors"]]) == (422, [path])


async def test_the_client_completes_and_is_told_when_it_is_too_late(twin: Twin, twin_api: TestClient) -> None:
    run = await detached(twin, twin_api)
    async with Client(str(twin_api.make_url("/"))) as client:
        beat = await client.heartbeat_run(run.run_id, fence_token=3, progress="half")
        assert beat["lease_until"] == "2026-11-30T01:00:30.000Z"
        done = await client.complete_run(run.run_id, fence_token=3, outcome="failed", detail="no disk")
        assert (done["state"], done["attempts"][0]["detail"]) == ("dead", "no disk")
        with pytest.raises(Refused) as refused:
            await client.heartbeat_run(run.run_id, fence_token=3)
        assert refused.value.status == 409
