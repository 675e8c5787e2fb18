"""Runs over HTTP: the history of a job, single runs, and where a read stood."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from node.interface import Attempt, AttemptOutcome, RunState
from tests.httpapi.twin import NOW_MS, Twin

SECOND_MS = 1000


async def beat(api: TestClient) -> str:
    answer = await api.post("/v1/jobs", json={"name": "beat", "schedule": "@every 5s", "target": {"type": "noop"}})
    job_id: str = (await answer.json())["job_id"]
    return job_id


async def items(api: TestClient, path: str, **query: str) -> list[dict[str, Any]]:
    answer = await api.get(path, params=query)
    assert answer.status == 200, await answer.text()
    found: list[dict[str, Any]] = (await answer.json())["items"]
    return found


async def test_a_run_has_exactly_the_fields_of_the_example(twin: Twin, twin_api: TestClient) -> None:
    job_id = await beat(twin_api)
    run_id = twin.finish(twin.fire(job_id, NOW_MS).run_id).run_id
    answer = await twin_api.get(f"/v1/runs/{run_id}")
    assert msgspec.json.decode(await answer.read()) == {
        "run_id": run_id,
        "job_id": job_id,
        "team": "default",
        "kind": "scheduled",
        "state": "succeeded",
        "due_at": "2026-11-30T01:00:00.000Z",
        "release_at": "2026-11-30T01:00:00.000Z",
        "started_at": "2026-11-30T01:00:00.004Z",
        "finished_at": "2026-11-30T01:00:01.004Z",
        "attempt": 1,
        "node": "n1",
        "fence_token": 1,
        "reason": None,
        "job_version": 1,
        "attempts": [
            {
                "attempt": 1,
                "node": "n1",
                "outcome": "succeeded",
                "status": 200,
                "started_at": "2026-11-30T01:00:00.004Z",
                "finished_at": "2026-11-30T01:00:01.004Z",
            }
        ],
        "log_url": f"/v1/runs/{run_id}/log",
    }
    assert list(await answer.json()) == [
        *("run_id", "job_id", "team", "kind", "state", "due_at", "release_at", "started_at", "finished_at"),
        *("attempt", "node", "fence_token", "reason", "job_version", "attempts", "log_url"),
    ]


async def test_what_only_some_runs_have_follows_the_example(twin: Twin, twin_api: TestClient) -> None:
    run = twin.fire(await beat(twin_api), NOW_MS)
    lost = Attempt(attempt=1, node="n2", outcome=AttemptOutcome.LOST, detail="session of n2 ended")
    twin.put_run(msgspec.structs.replace(run, state=RunState.RETRYING, retry_at_ms=NOW_MS + 10_500, attempts=(lost,)))
    body = await (await twin_api.get(f"/v1/runs/{run.run_id}")).json()
    assert body["retry_at"] == "2026-11-30T01:00:10.500Z"
    assert body["attempts"][0]["detail"] == "session of n2 ended"
    assert body["attempts"][0]["status"] is body["attempts"][0]["started_at"] is None


async def test_a_range_of_skipped_ticks_is_one_run(twin: Twin, twin_api: TestClient) -> None:
    run = twin.fire(await beat(twin_api), NOW_MS)
    twin.put_run(
        msgspec.structs.replace(
            run, state=RunState.SKIPPED, reason="misfire", until_ms=NOW_MS + 55 * SECOND_MS, count=12
        )
    )
    body = (await items(twin_api, f"/v1/jobs/{run.job_id}/runs"))[0]
    assert (body["state"], body["reason"]) == ("skipped", "misfire")
    assert (body["until_at"], body["count"]) == ("2026-11-30T01:00:55.000Z", 12)


async def test_an_unknown_run_is_not_found(api: TestClient) -> None:
    for run_id in ("0193f2000000-01JD0000000000000000000000", "x" * 300, "a%2Fb", "%00"):
        for path in ("", "/log"):
            answer = await api.get(f"/v1/runs/{run_id}{path}")
            assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_runs_are_listed_newest_first_page_by_page(twin: Twin, twin_api: TestClient) -> None:
    """(dkron#547)"""
    job_id = await beat(twin_api)
    for number in range(5):
        twin.fire(job_id, NOW_MS + number * 5 * SECOND_MS)
    page = await (await twin_api.get(f"/v1/jobs/{job_id}/runs?limit=3")).json()
    twin.fire(job_id, NOW_MS + 60 * SECOND_MS)
    rest = await items(twin_api, f"/v1/jobs/{job_id}/runs", cursor=page["next_cursor"])
    due = [run["due_at"][17:19] for run in page["items"] + rest]
    assert due == ["20", "15", "10", "05", "00"]


async def test_a_page_past_the_end_is_empty(twin: Twin, twin_api: TestClient) -> None:
    """(a page past the end is no 500)"""
    job_id = await beat(twin_api)
    fired = [twin.fire(job_id, NOW_MS + number * 5 * SECOND_MS) for number in range(3)]
    page = await (await twin_api.get(f"/v1/jobs/{job_id}/runs?limit=2")).json()
    del twin.runs_by_id[fired[0].run_id]
    assert await items(twin_api, f"/v1/jobs/{job_id}/runs", cursor=page["next_cursor"]) == []


async def test_runs_are_filtered_by_state(twin: Twin, twin_api: TestClient) -> None:
    job_id = await beat(twin_api)
    runs = [twin.fire(job_id, NOW_MS + number * SECOND_MS) for number in range(3)]
    twin.finish(runs[0].run_id)
    twin.put_run(msgspec.structs.replace(runs[1], state=RunState.DEAD))
    path = f"/v1/jobs/{job_id}/runs"
    assert [run["state"] for run in await items(twin_api, path, state="succeeded")] == ["succeeded"]
    assert [run["state"] for run in await items(twin_api, path, state="dead,succeeded")] == ["dead", "succeeded"]
    answer = await twin_api.get(f"{path}?state=queued&state=dead")
    assert [run["state"] for run in (await answer.json())["items"]] == ["queued", "dead"]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("from=2026-11-30T01:00:05Z", ["10", "05"]),
        ("to=2026-11-30T01:00:05Z", ["00"]),
        ("from=2026-11-30T02:00:05%2B01:00&to=2026-11-30T01:00:10Z", ["05"]),
        ("from=2026-11-30T02:00:05+01:00&to=2026-11-30T01:00:10Z", ["05"]),
        ("from=1960-01-01T00:00:00Z&to=1961-01-01T00:00:00Z", []),
    ],
)
async def test_from_is_inclusive_and_to_is_not(
    twin: Twin, twin_api: TestClient, query: str, seconds: list[str]
) -> None:
    job_id = await beat(twin_api)
    for number in range(3):
        twin.fire(job_id, NOW_MS + number * 5 * SECOND_MS)
    answer = await twin_api.get(f"/v1/jobs/{job_id}/runs?{query}")
    assert [run["due_at"][17:19] for run in (await answer.json())["items"]] == seconds


async def test_manual_runs_are_part_of_the_history(api: TestClient) -> None:
    job_id = await beat(api)
    made = await (await api.post(f"/v1/jobs/{job_id}:run")).json()
    assert [run["run_id"] for run in await items(api, f"/v1/jobs/{job_id}/runs")] == [made["run_id"]]


async def test_the_history_of_a_deleted_job_stays(api: TestClient) -> None:
    job_id = await beat(api)
    made = await (await api.post(f"/v1/jobs/{job_id}:run")).json()
    await api.delete(f"/v1/jobs/{job_id}")
    assert [run["run_id"] for run in await items(api, f"/v1/jobs/{job_id}/runs")] == [made["run_id"]]
    assert (await api.get(f"/v1/runs/{made['run_id']}")).status == 200


async def test_reads_say_where_they_stood(api: TestClient) -> None:
    job_id = await beat(api)
    run_id = (await (await api.post(f"/v1/jobs/{job_id}:run")).json())["run_id"]
    for path in ("/v1/jobs", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/runs", f"/v1/runs/{run_id}"):
        linearizable = await api.get(path)
        local = await api.get(path, params={"consistency": "local"})
        assert float(linearizable.headers["Horae-Stale-Seconds"]) == 0
        assert float(local.headers["Horae-Stale-Seconds"]) >= 0
        assert int(local.headers["Horae-Applied-Index"]) >= 2
        assert await local.json() == await linearizable.json()


async def test_a_local_read_says_how_stale_it_may_be(twin: Twin, twin_api: TestClient) -> None:
    answer = await twin_api.get("/v1/jobs?consistency=local")
    assert answer.headers["Horae-Stale-Seconds"] == "0.250"
    twin.stale_s = float("inf")
    answer = await twin_api.get("/v1/jobs?consistency=local")
    assert answer.headers["Horae-Stale-Seconds"] == "unknown"
