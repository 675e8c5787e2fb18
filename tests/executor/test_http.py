"""The http target against real servers: what is sent, and how the answer is judged."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from executor.http import HttpExecutor
from executor.interface import Outcome, OutcomeKind
from tests.executor.servers import Collected, Recorder, assignment, outcome_of, run, serving, serving_raw

# --- what is sent -----------------------------------------------------------------------------------------------------


async def sent(http: HttpExecutor, **fields: Any) -> tuple[web.Request, bytes]:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        outcome = await run(http, assignment(f"{url}/hook?x=1", **fields))
    assert outcome.kind == OutcomeKind.SUCCEEDED, outcome
    [request] = recorder.requests
    return request


async def test_every_attempt_carries_what_a_target_needs_to_deduplicate(http: HttpExecutor) -> None:
    """(M7) Run, job, attempt, due time, token, and an idempotency key in each execution."""
    request, _ = await sent(http)
    assert {name: value for name, value in request.headers.items() if name.startswith(("Horae", "Idem"))} == {
        "Horae-Run-Id": "0193f2aa-01JD",
        "Horae-Job-Id": "01JD",
        "Horae-Attempt": "2",
        "Horae-Due-At": "2026-11-30T01:00:00.000Z",
        "Horae-Fence-Token": "7",
        "Idempotency-Key": "0193f2aa-01JD",
    }
    assert request.headers["User-Agent"] == "Horae"
    assert request.path_qs == "/hook?x=1"


async def test_a_target_is_told_where_to_complete_the_attempt(http: HttpExecutor) -> None:
    recorder = Recorder()
    callback_url = "https://horae.example/v1/runs/0193f2aa-01JD"
    async with serving(recorder.record) as url:
        await run(http, replace(assignment(url), callback_url=callback_url))
    [(request, _)] = recorder.requests
    assert request.headers["Horae-Callback-Url"] == callback_url


async def test_args_are_the_default_body_as_json(http: HttpExecutor) -> None:
    request, body = await sent(http, args=b'{"kind":"daily"}')
    assert (request.method, request.content_type, json.loads(body)) == ("POST", "application/json", {"kind": "daily"})


async def test_an_own_body_and_content_type_are_sent_as_they_are(http: HttpExecutor) -> None:
    request, body = await sent(http, body="<a/>", headers={"content-type": "text/xml", "X-Env": "a: b"}, method="put")
    assert (request.method, request.headers.getall("Content-Type"), body) == ("PUT", ["text/xml"], b"<a/>")
    assert request.headers["X-Env"] == "a: b"


async def test_a_get_without_args_has_no_body(http: HttpExecutor) -> None:
    request, body = await sent(http, method="GET")
    assert (request.can_read_body, body, request.headers.get("Content-Type")) == (False, b"", None)


async def test_a_get_with_args_tells_them(http: HttpExecutor) -> None:
    _, body = await sent(http, method="GET", args=b"[1]")
    assert body == b"[1]"


@pytest.mark.parametrize("name", ["Horae-Run-Id", "horae-fence-token", "IDEMPOTENCY-KEY"])
async def test_a_jobs_headers_cannot_override_ours(http: HttpExecutor, name: str) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        outcome = await run(http, assignment(url, headers={name: "forged"}))
    assert outcome.kind == OutcomeKind.FAILED
    assert "cannot be overridden" in (outcome.detail or "")
    assert recorder.requests == []


async def test_a_header_with_a_colon_arrives_whole(http: HttpExecutor) -> None:
    """(a header value with a colon is not cut short)"""
    request, _ = await sent(http, headers={"X-When": "12:30:00", "X-Where": "http://a:1/b"})
    assert (request.headers["X-When"], request.headers["X-Where"]) == ("12:30:00", "http://a:1/b")


async def test_a_header_cannot_inject_another(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        outcome = await run(http, assignment(url, headers={"X": "a\r\nHorae-Fence-Token: 99"}))
    assert outcome.kind == OutcomeKind.FAILED
    assert recorder.requests == []


async def test_no_cookie_is_kept_between_attempts(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        await run(http, assignment(url))
        await run(http, assignment(url))
    assert [request.headers.get("Cookie") for request, _ in recorder.requests] == [None, None]


async def test_the_environments_proxy_is_not_used(http: HttpExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)  # it would excuse the address of this test
    monkeypatch.delenv("no_proxy", raising=False)
    await sent(http)


# --- how the answer is judged -----------------------------------------------------------------------------------------


async def test_a_success_keeps_the_answer_as_output(http: HttpExecutor) -> None:
    output = Collected()
    outcome = await outcome_of(http, web.Response(status=201, text="made 3 rows"), output)
    assert outcome == Outcome(kind=OutcomeKind.SUCCEEDED, status=201)
    assert output.data == b"made 3 rows"


async def test_a_server_error_is_a_failure_with_its_answer_kept(http: HttpExecutor) -> None:
    output = Collected()
    outcome = await outcome_of(http, web.Response(status=500, text="boom"), output)
    assert outcome == Outcome(kind=OutcomeKind.FAILED, status=500, detail="HTTP 500 Internal Server Error")
    assert output.data == b"boom"


async def test_a_target_may_say_that_it_completes_the_attempt_itself(http: HttpExecutor) -> None:
    later = {"Horae-Completion": "Async "}
    assert (await outcome_of(http, web.Response(status=202, headers=later))).kind == OutcomeKind.ACCEPTED
    assert (await outcome_of(http, web.Response(status=202))).kind == OutcomeKind.SUCCEEDED
    assert (await outcome_of(http, web.Response(status=200, headers=later))).kind == OutcomeKind.SUCCEEDED
    refused = await outcome_of(http, web.Response(status=202, headers=later), success_codes="200")
    assert (refused.kind, refused.status) == (OutcomeKind.FAILED, 202)


async def test_a_target_that_took_the_attempt_over_is_not_called_again_because_its_answer_broke(
    http: HttpExecutor,
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 202 Accepted\r\nHorae-Completion: async\r\nContent-Length: 9\r\n\r\nhalf")
        await writer.drain()

    async with serving_raw(talk) as url:
        outcome = await run(http, assignment(url))
    assert (outcome.kind, outcome.status) == (OutcomeKind.ACCEPTED, 202)


async def test_success_codes_decide(http: HttpExecutor) -> None:
    assert (await outcome_of(http, web.Response(status=404), success_codes="200,404")).kind == OutcomeKind.SUCCEEDED
    assert (await outcome_of(http, web.Response(status=202), success_codes="200")).kind == OutcomeKind.FAILED


async def test_retry_after_is_handed_on(http: HttpExecutor) -> None:
    outcome = await outcome_of(http, web.Response(status=429, headers={"Retry-After": "17"}))
    assert (outcome.kind, outcome.retry_after_s) == (OutcomeKind.FAILED, 17.0)


async def test_a_redirect_is_a_failure_that_says_where_to_but_no_secret(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as elsewhere:
        location = f"{elsewhere}/new?token=s3cret".replace("http://", "http://user:s3cret@")
        outcome = await outcome_of(http, web.Response(status=302, headers={"Location": location}))
    assert (outcome.kind, outcome.status) == (OutcomeKind.FAILED, 302)
    assert outcome.detail == (
        f"HTTP 302 Found to {elsewhere}/new: not followed; let the job's url name the final address"
    )
    assert recorder.requests == []


async def test_a_redirect_may_be_declared_a_success(http: HttpExecutor) -> None:
    outcome = await outcome_of(http, web.Response(status=303, headers={"Location": "/x"}), success_codes="2xx,303")
    assert outcome.kind == OutcomeKind.SUCCEEDED


async def test_a_packed_answer_is_not_asked_for(http: HttpExecutor) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.Response(text="x" * 5000)
        response.enable_compression()
        return response

    async with serving(handler) as url:
        output = Collected()
        await run(http, assignment(url), output)
    assert output.data == b"x" * 5000
