"""Jobs over HTTP: every field in, every field out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from tests.httpapi.twin import NOW_MS, Twin

EXAMPLE: dict[str, Any] = {
    "name": "nightly-report",
    "team": "billing",
    "schedule": "0 2 * * *",
    "tz": "Europe/Berlin",
    "target": {"type": "http", "url": "https://billing.example/report", "headers": {"X-Env": "prod"}},
    "args": {"kind": "daily"},
    "timeout_s": 600,
    "max_retries": 3,
    "priority": 5,
    "overlap_policy": "skip",
    "misfire_policy": "run_once",
    "idempotency_key": "c0ffee",
}
NOOP: dict[str, Any] = {"name": "beat", "schedule": "@every 5s", "target": {"type": "noop"}}


ApiOf = Callable[[str], Awaitable[TestClient]]


async def create(api: TestClient, **changes: Any) -> dict[str, Any]:
    answer = await api.post("/v1/jobs", json=NOOP | changes)
    assert answer.status == 201, await answer.text()
    created: dict[str, Any] = await answer.json()
    return created


async def test_the_example_is_created(api: TestClient) -> None:
    answer = await api.post("/v1/jobs", json=EXAMPLE)
    assert answer.status == 201
    body = await answer.json()
    assert list(body) == ["job_id", "next_run_at", "version"]
    assert body["next_run_at"] == "2026-12-01T01:00:00.000Z"
    assert body["version"] == 1
    assert answer.headers["Location"] == f"/v1/jobs/{body['job_id']}"
    assert answer.content_type == "application/json"


async def test_the_same_key_and_body_answer_the_first_job(api: TestClient) -> None:
    first = await api.post("/v1/jobs", json=EXAMPLE)
    again = await api.post("/v1/jobs", json=EXAMPLE)
    assert (first.status, again.status) == (201, 200)
    assert await first.json() == await again.json()
    assert again.headers["Location"] == first.headers["Location"]


async def test_the_same_key_and_another_body_are_a_conflict(api: TestClient) -> None:
    await api.post("/v1/jobs", json=EXAMPLE)
    answer = await api.post("/v1/jobs", json=EXAMPLE | {"timeout_s": 601})
    assert answer.status == 409
    problem = await answer.json()
    assert problem["outcome"] == "definite"
    assert "idempotency key" in problem["detail"].lower()


async def test_the_key_is_scoped_to_the_team(api: TestClient) -> None:
    first = await create(api, idempotency_key="k")
    other = await create(api, idempotency_key="k", team="other")
    assert first["job_id"] != other["job_id"]


async def test_the_header_is_the_same_key_as_the_field(api: TestClient) -> None:
    first = await api.post("/v1/jobs", json=NOOP, headers={"Idempotency-Key": "abc"})
    again = await api.post("/v1/jobs", json=NOOP | {"idempotency_key": "abc"})
    quoted = await api.post("/v1/jobs", json=NOOP, headers={"Idempotency-Key": '"abc"'})
    assert [first.status, again.status, quoted.status] == [201, 200, 200]
    assert (await first.json())["job_id"] == (await again.json())["job_id"] == (await quoted.json())["job_id"]


async def test_header_and_field_must_agree(api: TestClient) -> None:
    answer = await api.post("/v1/jobs", json=NOOP | {"idempotency_key": "a"}, headers={"Idempotency-Key": "b"})
    assert answer.status == 422
    assert (await answer.json())["errors"][0]["path"] == "idempotency_key"


@pytest.mark.parametrize("key", ["", " a", "a ", "ä", "a\nb", "x" * 256])
async def test_an_unusable_key_is_refused(api: TestClient, key: str) -> None:
    answer = await api.post("/v1/jobs", json=NOOP | {"idempotency_key": key})
    assert answer.status == 422
    assert (await answer.json())["errors"][0]["path"] == "idempotency_key"


async def test_a_name_is_taken_within_its_team_only(api: TestClient) -> None:
    await create(api)
    answer = await api.post("/v1/jobs", json=NOOP)
    assert answer.status == 409
    assert [error["path"] for error in (await answer.json())["errors"]] == ["name"]
    await create(api, team="other")


async def test_a_job_is_shown_with_all_its_fields(api: TestClient) -> None:
    created = await (await api.post("/v1/jobs", json=EXAMPLE)).json()
    answer = await api.get(f"/v1/jobs/{created['job_id']}")
    assert answer.status == 200
    assert answer.headers["ETag"] == '"1"'
    body = await answer.json()
    sent = {name: value for name, value in EXAMPLE.items() if name not in ("idempotency_key", "target")}
    assert sent.items() <= body.items()
    assert EXAMPLE["target"].items() <= body["target"].items()
    assert body["target"]["method"] == "POST"
    assert body["run_at"] is body["starts_at"] is body["ends_at"] is None
    assert body["labels"] == {}
    assert list(body)[-5:] == ["version", "next_run_at", "created_at", "updated_at", "stats"]
    assert (body["version"], body["next_run_at"]) == (1, "2026-12-01T01:00:00.000Z")
    assert body["created_at"] == body["updated_at"] == "2026-11-30T01:00:00.000Z"


async def test_a_job_shows_its_history_added_up(twin: Twin, twin_api: TestClient) -> None:
    created = await create(twin_api)
    job_id, nothing = created["job_id"], {"succeeded": 0, "dead": 0, "cancelled": 0, "skipped": 0}
    stats = (await (await twin_api.get(f"/v1/jobs/{job_id}")).json())["stats"]
    assert stats["runs"] == nothing
    assert stats["last_outcome"] is stats["last_run"] is stats["last_success"] is stats["last_failure"] is None
    run = twin.fire(job_id, NOW_MS)
    twin.finish(run.run_id)
    [shown] = (await (await twin_api.get("/v1/jobs")).json())["items"]
    stats = shown["stats"]
    assert stats["runs"] == nothing | {"succeeded": 1}
    assert stats["last_outcome"] == "succeeded"
    assert stats["last_run"] == stats["last_success"]
    assert stats["last_success"] == {"run_id": run.run_id, "at": "2026-11-30T01:00:01.004Z"}
    assert (stats["consecutive_failures"], stats["attempts_retried"], stats["ticks_skipped"]) == (0, 0, 0)


async def test_limits_on_ticks_are_shown_as_they_were_set(api: TestClient) -> None:
    limits = {"max_runs": 3, "misfire_window_s": 3600.0}
    body = await (await api.get(f"/v1/jobs/{(await create(api, **limits))['job_id']}")).json()
    assert {name: body[name] for name in limits} == limits
    plain = await (await api.get(f"/v1/jobs/{(await create(api, name='b'))['job_id']}")).json()
    assert plain["max_runs"] is plain["misfire_window_s"] is None


async def test_what_follows_a_jobs_runs_is_shown(api: TestClient) -> None:
    created = await create(api, keep_runs=10, keep_days=0.5, after_completion="delete", pause_on_failure=3)
    body = await (await api.get(f"/v1/jobs/{created['job_id']}")).json()
    assert (body["keep_runs"], body["keep_days"]) == (10, 0.5)
    assert (body["after_completion"], body["pause_on_failure"]) == ("delete", 3)


async def test_whom_a_job_tells_is_shown_with_its_defaults(api: TestClient) -> None:
    created = await create(api, notify={"url": "https://alerts.example/x", "threshold": 2})
    body = await (await api.get(f"/v1/jobs/{created['job_id']}")).json()
    assert body["notify"] == {
        "on": ["dead", "recovered"],
        "url": "https://alerts.example/x",
        "threshold": 2,
        "silence_s": 0.0,
        "late_s": 60.0,
    }
    other = await create(api, name="other", notify=None)
    assert (await (await api.get(f"/v1/jobs/{other['job_id']}")).json())["notify"] is None


async def test_a_list_of_schedules_stays_a_list(api: TestClient) -> None:
    created = await create(api, schedule=["0 2 * * *", "30 14 * * *"], tz="UTC")
    assert created["next_run_at"] == "2026-11-30T02:00:00.000Z"
    body = await (await api.get(f"/v1/jobs/{created['job_id']}")).json()
    assert body["schedule"] == ["0 2 * * *", "30 14 * * *"]


async def test_a_one_off_is_read_in_its_zone_and_shown_in_utc(api: TestClient) -> None:
    created = await create(api, schedule=None, run_at="2026-12-24T18:00:00", tz="Europe/Berlin")
    assert created["next_run_at"] == "2026-12-24T17:00:00.000Z"
    body = await (await api.get(f"/v1/jobs/{created['job_id']}")).json()
    assert (body["run_at"], body["schedule"]) == ("2026-12-24T17:00:00.000Z", None)
    assert body["misfire_policy"] == "run_once"


async def test_a_named_priority_is_shown_as_its_number(api: TestClient) -> None:
    created = await create(api, priority="high")
    assert (await (await api.get(f"/v1/jobs/{created['job_id']}")).json())["priority"] == 8


@pytest.mark.parametrize("job_id", ["01JD0000000000000000000000", "x" * 300, "a%20b", "%F0%9F%92%A5", "a.b"])
async def test_an_unknown_job_is_not_found(api: TestClient, job_id: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/runs"), ("POST", ":run")):
        answer = await api.request(method, f"/v1/jobs/{job_id}{path}")
        assert answer.status == 404, (method, path)
        assert answer.content_type == "application/problem+json"


async def test_delete_is_a_compare_and_set_with_if_match(api: TestClient) -> None:
    path = f"/v1/jobs/{(await create(api))['job_id']}"
    assert (await api.delete(path, headers={"If-Match": '"7"'})).status == 412
    assert (await api.delete(path, headers={"If-Match": 'W/"1"'})).status == 412
    assert (await api.delete(path, headers={"If-Match": "one"})).status == 400
    assert (await api.get(path)).status == 200
    answer = await api.delete(path, headers={"If-Match": '"1"'})
    job_id = path.rpartition("/")[2]
    assert (answer.status, await answer.json()) == (200, {"job_id": job_id, "effective": True})
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize("headers", [{}, {"If-Match": "*"}, {"If-Match": "1"}])
async def test_delete_without_a_version_deletes_any(api: TestClient, headers: dict[str, str]) -> None:
    path = f"/v1/jobs/{(await create(api))['job_id']}"
    assert (await api.delete(path, headers=headers)).status == 200
    assert (await api.delete(path)).status == 404


async def test_a_deleted_jobs_name_is_free_again(api: TestClient) -> None:
    first = await create(api)
    await api.delete(f"/v1/jobs/{first['job_id']}")
    assert (await create(api))["job_id"] != first["job_id"]


async def test_jobs_are_listed_page_by_page(api: TestClient) -> None:
    for name in ("e", "b", "d", "a", "c"):
        await create(api, name=name)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await (await api.get("/v1/jobs", params={"limit": "2", **cursor})).json()
        assert list(page) == ["items", "next_cursor"]
        seen += [job["name"] for job in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert sorted(seen) == ["a", "b", "c", "d", "e"]


async def test_a_cursor_stays_valid_while_rows_change(api: TestClient) -> None:
    ids = {name: (await create(api, name=name))["job_id"] for name in ("a", "b", "c", "d")}
    page = await (await api.get("/v1/jobs?limit=2")).json()
    for job in page["items"]:
        await api.delete(f"/v1/jobs/{job['job_id']}")
    rest = await (await api.get("/v1/jobs", params={"cursor": page["next_cursor"]})).json()
    shown = {job["job_id"] for job in page["items"]}
    assert {job["job_id"] for job in rest["items"]} == set(ids.values()) - shown


async def test_jobs_are_filtered_by_team_and_name(api: TestClient) -> None:
    await create(api, name="alpha")
    await create(api, name="beta", team="billing")
    await create(api, name="alpha", team="billing")
    billing = await (await api.get("/v1/jobs?team=billing")).json()
    assert sorted(job["name"] for job in billing["items"]) == ["alpha", "beta"]
    one = await (await api.get("/v1/jobs?team=billing&q=alpha")).json()
    assert [(job["team"], job["name"]) for job in one["items"]] == [("billing", "alpha")]
    assert (await (await api.get("/v1/jobs?team=nobody")).json()) == {"items": [], "next_cursor": None}


async def test_run_now_makes_a_manual_run(api: TestClient) -> None:
    job_id = (await create(api))["job_id"]
    answer = await api.post(f"/v1/jobs/{job_id}:run")
    assert answer.status == 201
    run = await answer.json()
    assert answer.headers["Location"] == f"/v1/runs/{run['run_id']}"
    assert (run["job_id"], run["kind"], run["attempt"]) == (job_id, "manual", 1)
    assert run["due_at"] == "2026-11-30T01:00:00.000Z"
    assert (await (await api.get(answer.headers["Location"])).json())["run_id"] == run["run_id"]


@pytest.mark.parametrize("scheduler", ["twin", "service"])
async def test_run_now_repeats_to_the_same_run_under_one_key(api_of: ApiOf, scheduler: str) -> None:
    api = await api_of(scheduler)
    path = f"/v1/jobs/{(await create(api))['job_id']}:run"
    runs = [
        (await (await api.post(path, json={"args": 1}, headers={"Idempotency-Key": key})).json())["run_id"]
        for key in ("k1", "k1", "k2")
    ]
    assert runs[0] == runs[1] != runs[2]
    other = await api.post(path, json={"args": 2}, headers={"Idempotency-Key": "k1"})
    assert (other.status, (await other.json())["outcome"]) == (409, "definite")


async def test_run_now_takes_args_and_a_policy_of_its_own_and_nothing_else(api: TestClient) -> None:
    path = f"/v1/jobs/{(await create(api))['job_id']}:run"
    assert (await api.post(path, json={"args": {"day": 3}})).status == 201
    wrong = await api.post(path, json={"arg": 1})
    assert (wrong.status, (await wrong.json())["errors"]) == (
        422,
        [{"path": "arg", "message": 'unknown field; did you mean "args"?'}],
    )
    own = await api.post(path, json={"overlap_policy": "queue_one"}, headers={"Idempotency-Key": "k"})
    assert (own.status, (await own.json())["overlap_policy"]) == (201, "queue_one")
    other = await api.post(path, json={"overlap_policy": "replace"}, headers={"Idempotency-Key": "k"})
    assert other.status == 409
    later = await api.post(path, json={"overlap_policy": "later"})
    assert (later.status, (await later.json())["errors"][0]["path"]) == (422, "overlap_policy")
    assert (await api.post(path, data=b"{}", headers={"Content-Type": "text/plain"})).status == 415
