"""Every refusal: its status, the field that it names, and that it is problem+json."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from httpapi.app import build_app
from httpapi.parsing import BODY_BYTES_MAX, NESTING_MAX
from node.interface import JobCreated, JobDraft, OutcomeUnknown, Overloaded, Unavailable
from tests.httpapi.twin import Twin

GOOD: dict[str, Any] = {"name": "a", "schedule": "@every 5s", "target": {"type": "noop"}}
JSON = {"Content-Type": "application/json"}


async def problem_of(answer: ClientResponse, status: int) -> dict[str, Any]:
    """The problem document, after checking what every one of them has."""
    assert answer.status == status, await answer.text()
    assert answer.content_type == "application/problem+json"
    body: dict[str, Any] = json.loads(await answer.read())
    assert list(body)[:4] == ["type", "title", "status", "detail"]
    assert body["status"] == status
    assert body["type"].startswith("urn:horae:error:")
    assert ("outcome" in body) == (answer.method not in ("GET", "HEAD"))
    return body


BAD_FIELDS = [
    ({"nmae": "b"}, "nmae", 'did you mean "name"?'),
    ({"max_retrys": 1}, "max_retrys", 'did you mean "max_retries"?'),
    ({"timeout": 5}, "timeout", 'did you mean "timeout_s"?'),
    ({"cron": "* * * * *"}, "cron", 'did you mean "schedule"?'),
    ({"url": "https://a.example"}, "url", 'did you mean "target.url"?'),
    ({"zzz": 1}, "zzz", "unknown field"),
    ({"notify": {"url": "http://a", "quiet_s": 1}}, "notify.quiet_s", "unknown field"),
    ({"notify": {"url": "http://a", "trehshold": 1}}, "notify.trehshold", 'did you mean "threshold"?'),
    ({"notify": {"url": "http://a", "on": ["died"]}}, "notify.on[0]", "died"),
    ({"notify": {"url": "http://a", "threshold": "two"}}, "notify.threshold", "must be an integer"),
    ({"notify": "http://a"}, "notify", "must be an object or null"),
    ({"notify": {"on": ["dead"]}}, "notify.url", "is required"),
    ({"after_completion": "remove"}, "after_completion", "must be one of delete, keep"),
    ({"pause_on_failure": 0}, "pause_on_failure", "must be from 1 to"),
    ({"keep_runs": 0}, "keep_runs", "must be from 1 to 10000, or null"),
    ({"keep_days": 0}, "keep_days", "must be above 0"),
    ({"name": 3}, "name", "must be a string, not an integer"),
    ({"name": None}, "name", "must be a string, not null"),
    ({"name": ""}, "name", ""),
    ({"name": "x" * 201}, "name", ""),
    ({"timeout_s": "60"}, "timeout_s", "must be a number, not a string"),
    ({"max_retries": True}, "max_retries", "must be an integer, not true or false"),
    ({"max_retries": 1.5}, "max_retries", "must be an integer, not a number"),
    ({"priority": "urgent"}, "priority", "0 to 9, or one of high, low, normal"),
    ({"priority": 10}, "priority", ""),
    ({"labels": {"a": "b", "c": 3}}, "labels.c", "must be a string, not an integer"),
    ({"labels": []}, "labels", "must be an object, not a list"),
    ({"schedule": ["@daily", 5]}, "schedule[1]", "must be a string, not an integer"),
    ({"schedule": "every day"}, "schedule", ""),
    ({"schedule": None}, "schedule", ""),
    ({"run_at": "2027-01-01T00:00:00Z"}, "schedule", ""),
    ({"tz": "Mars/Olympus"}, "tz", "Mars/Olympus"),
    ({"tz": "../../etc/passwd"}, "tz", ""),
    ({"start_deadline_s": 0}, "start_deadline_s", "must be from 0.001 to 2.592e+06; leave it out for no limit"),
    ({"run_timeout_s": -1}, "run_timeout_s", "must be from 0.001 to 2.592e+06; leave it out for no limit"),
    ({"max_concurrent": 0}, "max_concurrent", "must be from 1 to 1000; leave it out for no limit"),
    ({"overlap_policy": "skp"}, "overlap_policy", 'did you mean "skip"?'),
    ({"misfire_policy": "catchup"}, "misfire_policy", 'did you mean "catch_up"?'),
    ({"dst_gap": "before"}, "dst_gap", "must be one of after, skip"),
    ({"target": None}, "target", "must be an object"),
    ({"target": {}}, "target.type", "is required: one of http, container, command, noop"),
    ({"target": {"type": "ftp"}}, "target.type", "must be one of http, container, command, noop"),
    ({"target": {"type": 1}}, "target.type", "must be one of http, container, command, noop"),
    ({"target": {"type": "container"}}, "target.image", "is required"),
    ({"target": {"type": "container", "image": "Report"}}, "target.image", "in lower case"),
    ({"target": {"type": "container", "image": "x", "pull": "sometimes"}}, "target.pull", ""),
    ({"target": {"type": "container", "image": "x", "privileged": True}}, "target.privileged", "unknown field"),
    ({"target": {"type": "command", "argv": "ls -l"}}, "target.argv", "must be a list, not a string"),
    ({"target": {"type": "command", "argv": []}}, "target.argv", "names no program"),
    ({"target": {"type": "command", "argv": ["ls", 1]}}, "target.argv[1]", "must be a string, not an integer"),
    ({"target": {"type": "command", "argv": ["ls"], "env": {"A": 1}}}, "target.env.A", "must be a string"),
    ({"target": {"type": "command", "argv": ["ls"], "cwd": "tmp"}}, "target.cwd", "an absolute path"),
    ({"target": {"type": "http"}}, "target.url", "is required"),
    ({"target": {"type": "http", "url": "ftp://a.example"}}, "target.url", ""),
    ({"target": {"type": "http", "url": "http://169.254.169.254/x"}}, "target.url", ""),
    ({"target": {"type": "http", "url": "https://a.example", "header": {}}}, "target.header", '"headers"?'),
    ({"target": {"type": "http", "url": "https://a.example", "headers": {"A": 1}}}, "target.headers.A", "a string"),
    ({"target": {"type": "noop", "url": "https://a.example"}}, "target.url", "unknown field"),
    ({"args": "x" * 70_000}, "args", ""),
]


@pytest.mark.parametrize(("change", "path", "message"), BAD_FIELDS)
async def test_a_bad_field_is_named(api: TestClient, change: dict[str, Any], path: str, message: str) -> None:
    body = await problem_of(await api.post("/v1/jobs", json=GOOD | change), 422)
    assert body["outcome"] == "definite"
    found = {error["path"]: error["message"] for error in body["errors"]}
    assert path in found
    assert message in found[path]
    assert (await (await api.get("/v1/jobs")).json())["items"] == []


async def test_all_bad_fields_are_named_at_once(api: TestClient) -> None:
    body = await problem_of(await api.post("/v1/jobs", json={"nmae": "x", "max_retries": "3"}), 422)
    assert [error["path"] for error in body["errors"]] == ["nmae", "name", "target", "max_retries"]


async def test_the_errors_of_one_answer_are_bounded(api: TestClient) -> None:
    body = await problem_of(await api.post("/v1/jobs", json={f"{n}" + "x" * 500: n for n in range(1000)}), 422)
    assert len(body["errors"]) == 32
    assert all(len(error["path"]) <= 64 for error in body["errors"])


async def test_a_past_run_at_is_accepted_within_the_grace_only(api: TestClient) -> None:
    one_off = {"name": "once", "target": {"type": "noop"}, "tz": "UTC"}
    late = one_off | {"run_at": "2026-11-30T00:58:00Z"}
    body = await problem_of(await api.post("/v1/jobs", json=late), 422)
    assert body["errors"][0]["path"] == "run_at"
    assert "misfire_grace_s" in body["errors"][0]["message"]
    assert (await api.post("/v1/jobs", json=late | {"misfire_grace_s": 180})).status == 201
    assert (await api.post("/v1/jobs", json=one_off | {"name": "b", "run_at": "2026-11-30T00:59:30Z"})).status == 201


@pytest.mark.parametrize("text", [b"", b"{", b"nope", b'{"name": "\xff"}', b"[" * 200_000, b'"\\ud800"', b"NaN"])
async def test_a_body_that_is_no_json_is_malformed(api: TestClient, text: bytes) -> None:
    await problem_of(await api.post("/v1/jobs", data=text, headers=JSON), 400)


@pytest.mark.parametrize("text", [b"[]", b"3", b"null", b'"x"'])
async def test_a_body_that_is_no_object_is_refused(api: TestClient, text: bytes) -> None:
    await problem_of(await api.post("/v1/jobs", data=text, headers=JSON), 422)


async def test_a_body_that_one_request_could_read_and_another_not_show_is_refused(api: TestClient) -> None:
    deep: Any = 0
    for _ in range(NESTING_MAX - 1):
        deep = [deep]
    assert (await api.post("/v1/jobs", json=GOOD | {"args": deep})).status == 201
    body = await problem_of(await api.post("/v1/jobs", json=GOOD | {"name": "b", "args": [deep]}), 400)
    assert str(NESTING_MAX) in body["detail"]
    wide = [[] for _ in range(NESTING_MAX * 2)]
    assert (await api.post("/v1/jobs", json=GOOD | {"name": "c", "args": wide})).status == 201


@pytest.mark.parametrize(
    "more", ['"timeout_s": 60, "timeout_s": 600', '"args": [{"a": 1, "a": 2}]', '"labels": {"a": "x", "\\u0061": "y"}']
)
async def test_a_name_that_is_there_twice_is_refused(api: TestClient, more: str) -> None:
    text = json.dumps(GOOD).replace("{", "{" + more + ", ", 1)
    body = await problem_of(await api.post("/v1/jobs", data=text, headers=JSON), 400)
    assert "twice" in body["detail"]


async def test_a_number_that_no_float_holds_is_refused(api: TestClient) -> None:
    text = json.dumps(GOOD).replace("}", ', "x": 1e999}', 1).encode()
    assert (await api.post("/v1/jobs", data=text, headers=JSON)).status in (400, 422)


@pytest.mark.parametrize("field", ["timeout_s", "max_retries", "priority", "jitter_s"])
@pytest.mark.parametrize("digits", [400, 5000])
async def test_an_integer_of_any_size_is_refused(api: TestClient, field: str, digits: int) -> None:
    text = json.dumps(GOOD).replace("{", f'{{"{field}": 1{"0" * digits}, ', 1)
    assert (await api.post("/v1/jobs", data=text, headers=JSON)).status in (400, 422)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "*/*"])
async def test_another_content_type_is_refused(api: TestClient, kind: str) -> None:
    answer = await api.post("/v1/jobs", data=json.dumps(GOOD), headers={"Content-Type": kind})
    assert "application/json" in (await problem_of(answer, 415))["detail"]


async def test_a_missing_content_type_is_refused(api: TestClient) -> None:
    answer = await api.post("/v1/jobs", data=b"{}", skip_auto_headers=["Content-Type"])
    await problem_of(answer, 415)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/merge-patch+json"])
async def test_json_content_types_are_accepted(api: TestClient, kind: str) -> None:
    assert (await api.post("/v1/jobs", data=json.dumps(GOOD), headers={"Content-Type": kind})).status == 201


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 1024):
        yield b" " * 1024


async def test_a_body_over_the_limit_is_refused(api: TestClient) -> None:
    declared = await api.post("/v1/jobs", data=io.BytesIO(b" " * (BODY_BYTES_MAX + 1)), headers=JSON)
    await problem_of(declared, 413)
    undeclared = await api.post("/v1/jobs", data=chunks(BODY_BYTES_MAX + 4096), headers=JSON)
    await problem_of(undeclared, 413)


async def test_a_small_body_that_unpacks_over_the_limit_is_refused(api: TestClient) -> None:
    packed = gzip.compress(b" " * (BODY_BYTES_MAX * 8))
    answer = await api.post("/v1/jobs", data=packed, headers=JSON | {"Content-Encoding": "gzip"})
    await problem_of(answer, 413)


async def test_a_body_that_does_not_unpack_is_malformed(api: TestClient) -> None:
    answer = await api.post("/v1/jobs", data=b"no gzip", headers=JSON | {"Content-Encoding": "gzip"})
    await problem_of(answer, 400)


async def test_a_body_that_does_not_arrive_is_given_up(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("httpapi.parsing.BODY_TIMEOUT_S", 0.02)
    never = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await never.wait()

    await problem_of(await api.post("/v1/jobs", data=slow(), headers=JSON), 408)


async def test_a_client_that_leaves_is_no_error_of_ours(twin_api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    _, writer = await asyncio.open_connection(twin_api.host, twin_api.port)
    writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: 100\r\n\r\n{")
    await writer.drain()
    await twin_api.get("/healthz")
    writer.close()
    await writer.wait_closed()
    await twin_api.get("/healthz")
    assert caplog.records == []


async def test_a_body_at_the_limit_is_read(api: TestClient) -> None:
    text = json.dumps(GOOD).encode()
    padded = io.BytesIO(text + b" " * (BODY_BYTES_MAX - len(text)))
    answer = await api.post("/v1/jobs", data=padded, headers=JSON)
    assert answer.status == 201


BAD_QUERIES = [
    ("/v1/jobs?limit=0", "limit"),
    ("/v1/jobs?limit=501", "limit"),
    ("/v1/jobs?limit=ten", "limit"),
    ("/v1/jobs?limit=٣", "limit"),
    ("/v1/jobs?limit=1&limit=2", "limit"),
    ("/v1/jobs?cursor=%FF%FF", "cursor"),
    ("/v1/jobs?cursor=", "cursor"),
    ("/v1/jobs?cursor=" + "A" * 600, "cursor"),
    ("/v1/jobs?consistency=eventual", "consistency"),
    ("/v1/jobs?temm=a", "temm"),
    ("/v1/jobs/x/runs?state=done", "state"),
    ("/v1/jobs/x/runs?state=dead,done", "state"),
    ("/v1/jobs/x/runs?from=yesterday", "from"),
    ("/v1/jobs/x/runs?to=2026-02-30T00:00:00Z", "to"),
    ("/v1/jobs/x/runs?to=2026-02-03T00:00:00", "to"),
    ("/v1/jobs/x/runs?from=2026-02-03T00:00:00Z&to=2026-02-02T00:00:00Z", "to"),
    ("/v1/jobs/x?consistancy=local", "consistancy"),
    ("/v1/runs/x?follow=1", "follow"),
    ("/v1/runs/x/log?attempt=0", "attempt"),
    ("/v1/cluster?verbose=1", "verbose"),
    ("/v1/schedules:preview", "schedule"),
    ("/v1/schedules:preview?job_id=x&tz=UTC", "tz"),
    ("/v1/schedules:preview?schedule=@daily&n=101", "n"),
    ("/v1/schedules:preview?schedule=@daily&from=noon", "from"),
    ("/v1/schedules:preview?schedule=" + "&schedule=".join(["@daily"] * 17), "schedule"),
]


@pytest.mark.parametrize(("path", "parameter"), BAD_QUERIES)
async def test_a_bad_query_parameter_is_named(api: TestClient, path: str, parameter: str) -> None:
    body = await problem_of(await api.get(path), 400)
    assert [error["path"] for error in body["errors"]] == [parameter]


async def test_a_write_takes_no_query(api: TestClient) -> None:
    await problem_of(await api.post("/v1/jobs?dry_run=1", json=GOOD), 400)


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/jobs/", "/v1/job", "/v1/jobs/a:fly", "/v1/jobs/a/runs/b", "/v2/jobs"]
)
async def test_an_unknown_path_is_not_found(api: TestClient, path: str) -> None:
    await problem_of(await api.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/jobs", "GET, HEAD, POST"),
        ("POST", "/v1/jobs/a", "DELETE, GET, HEAD, PATCH, PUT"),
        ("GET", "/v1/jobs/a:run", "POST"),
        ("DELETE", "/v1/cluster", "GET, HEAD"),
        ("PATCH", "/metrics", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(api: TestClient, method: str, path: str, allow: str) -> None:
    answer = await api.request(method, path)
    await problem_of(answer, 405)
    assert answer.headers["Allow"] == allow


async def test_no_traceback_reaches_a_user(twin: Twin, twin_api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    twin.broken = RuntimeError("a secret of the inside")
    with caplog.at_level(logging.ERROR, logger="horae.http"):
        answer = await twin_api.post("/v1/jobs", json=GOOD)
    body = await problem_of(answer, 500)
    assert "secret" not in json.dumps(body)
    assert "Traceback" not in json.dumps(body)
    assert body["outcome"] == "indefinite"
    occurrence = body["instance"].rpartition(":")[2]
    assert occurrence in body["detail"]
    assert occurrence in caplog.text
    assert "a secret of the inside" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "outcome"),
    [(Unavailable(), 503, "definite"), (OutcomeUnknown(), 503, "indefinite"), (Overloaded(), 429, "definite")],
)
async def test_a_failed_write_says_whether_it_may_have_happened(
    twin: Twin, twin_api: TestClient, error: Exception, status: int, outcome: str
) -> None:
    twin.broken = error
    answer = await twin_api.post("/v1/jobs", json=GOOD)
    assert (await problem_of(answer, status))["outcome"] == outcome
    assert answer.headers["Retry-After"] == "1"


async def test_too_many_requests_at_once_are_told_to_come_back(twin: Twin) -> None:
    async with TestClient(TestServer(build_app(twin, requests_max=0))) as client:
        await problem_of(await client.get("/v1/jobs"), 429)
        assert (await client.get("/healthz")).status == 200


async def test_too_many_writes_at_once_are_told_to_come_back_and_reads_are_not(twin: Twin) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    create_job = twin.create_job

    async def slow_create(draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated:
        begun.set()
        await go_on.wait()
        return await create_job(draft, idempotency_key=idempotency_key)

    twin.create_job = slow_create  # type: ignore[method-assign]
    async with TestClient(TestServer(build_app(twin, writes_max=1))) as client:
        first = asyncio.create_task(client.post("/v1/jobs", json=GOOD))
        await begun.wait()
        refused = await client.post("/v1/jobs", json=GOOD)
        assert (await problem_of(refused, 429))["outcome"] == "definite"
        assert refused.headers["Retry-After"] == "1"
        assert (await client.get("/v1/jobs")).status == 200
        go_on.set()
        assert (await first).status == 201
        assert (await client.post("/v1/jobs", json={**GOOD, "name": "another"})).status == 201


async def test_no_answer_gives_the_server_away_or_is_cached(api: TestClient) -> None:
    for path in ("/v1/jobs", "/nowhere"):
        answer = await api.get(path)
        assert answer.headers["Server"] == "horae"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


async def test_two_idempotency_keys_are_refused(api: TestClient) -> None:
    """Which of them a proxy in between would keep is anybody's guess."""
    keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    body = await problem_of(await api.post("/v1/jobs", json=GOOD, headers=keys), 422)
    assert body["errors"][0]["path"] == "Idempotency-Key"
