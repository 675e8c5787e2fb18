"""The http target against real servers on loopback."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

import executor.http
from executor.http import OUTPUT_BYTES_MAX, HttpExecutor
from executor.interface import Assignment, Outcome, OutcomeKind

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RAW_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def assignment(url: str, *, args: bytes = b"null", timeout_s: float = 5.0, **target: Any) -> Assignment:
    return Assignment(
        run_id="0193f2aa-01JD",
        job_id="01JD",
        attempt=2,
        fence_token=7,
        due_at="2026-11-30T01:00:00.000Z",
        target={"type": "http", "url": url} | target,
        args=args,
        timeout_s=timeout_s,
    )


@pytest.fixture
async def http() -> AsyncIterator[HttpExecutor]:
    made = HttpExecutor()
    yield made
    await made.close()


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@contextlib.asynccontextmanager
async def serving_raw(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server below HTTP: `talk` gets each connection once the head of a request has arrived."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def answer_ok(request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


# --- what is sent -----------------------------------------------------------------------------------------------------


class Recorder:
    def __init__(self) -> None:
        self.requests: list[tuple[web.Request, bytes]] = []

    async def record(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        return web.Response(text="done", headers={"Set-Cookie": "a=b"})


async def sent(http: HttpExecutor, **fields: Any) -> tuple[web.Request, bytes]:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        outcome = await http.run(assignment(f"{url}/hook?x=1", **fields))
    assert outcome.kind == OutcomeKind.SUCCEEDED, outcome
    [request] = recorder.requests
    return request


async def test_every_attempt_carries_what_a_target_needs_to_deduplicate(http: HttpExecutor) -> None:
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
        outcome = await http.run(assignment(url, headers={name: "forged"}))
    assert outcome.kind == OutcomeKind.FAILED
    assert "cannot be overridden" in (outcome.detail or "")
    assert recorder.requests == []


async def test_a_header_cannot_inject_another(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        outcome = await http.run(assignment(url, headers={"X": "a\r\nHorae-Fence-Token: 99"}))
    assert outcome.kind == OutcomeKind.FAILED
    assert recorder.requests == []


async def test_no_cookie_is_kept_between_attempts(http: HttpExecutor) -> None:
    recorder = Recorder()
    async with serving(recorder.record) as url:
        await http.run(assignment(url))
        await http.run(assignment(url))
    assert [request.headers.get("Cookie") for request, _ in recorder.requests] == [None, None]


async def test_the_environments_proxy_is_not_used(http: HttpExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    await sent(http)


# --- how the answer is judged -----------------------------------------------------------------------------------------


async def outcome_of(http: HttpExecutor, response: web.Response, **fields: Any) -> Outcome:
    async def handler(request: web.Request) -> web.StreamResponse:
        return response

    async with serving(handler) as url:
        return await http.run(assignment(url, **fields))


async def test_a_success_keeps_the_answer_as_output(http: HttpExecutor) -> None:
    outcome = await outcome_of(http, web.Response(status=201, text="made 3 rows"))
    assert outcome == Outcome(kind=OutcomeKind.SUCCEEDED, status=201, output=b"made 3 rows")


async def test_a_server_error_is_a_failure_with_its_answer_kept(http: HttpExecutor) -> None:
    outcome = await outcome_of(http, web.Response(status=500, text="boom"))
    assert outcome == Outcome(
        kind=OutcomeKind.FAILED, status=500, detail="HTTP 500 Internal Server Error", output=b"boom"
    )


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
        f"HTTP 302 Found to {elsewhere}/new: redirects are not followed; let the job's url name the final address"
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
        assert (await http.run(assignment(url))).output == b"x" * 5000


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_a_long_answer_is_kept_in_part_and_read_to_its_end(http: HttpExecutor) -> None:
    ended = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(40):
            await response.write(b"x" * OUTPUT_BYTES_MAX)
        ended.set()
        return response

    async with serving(handler) as url:
        outcome = await http.run(assignment(url))
    assert outcome == Outcome(
        kind=OutcomeKind.SUCCEEDED, status=200, output=b"x" * OUTPUT_BYTES_MAX, output_truncated=True
    )
    assert ended.is_set()


async def test_an_answer_of_exactly_the_limit_is_whole(http: HttpExecutor) -> None:
    outcome = await outcome_of(http, web.Response(body=b"x" * OUTPUT_BYTES_MAX))
    assert (len(outcome.output), outcome.output_truncated) == (OUTPUT_BYTES_MAX, False)


async def test_an_endless_answer_is_cut_off(http: HttpExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor.http, "DRAIN_BYTES_MAX", 4 * OUTPUT_BYTES_MAX)
    broken = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * OUTPUT_BYTES_MAX)
                await writer.drain()
        except ConnectionError:
            broken.set()

    async with serving_raw(talk) as url:
        outcome = await http.run(assignment(url))
        await asyncio.wait_for(broken.wait(), 5)
    assert (outcome.kind, outcome.output_truncated) == (OutcomeKind.SUCCEEDED, True)


async def test_no_answer_in_time_is_timed_out_and_the_connection_goes(http: HttpExecutor) -> None:
    gone = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()

    async with serving_raw(talk) as url:
        outcome = await http.run(assignment(url, timeout_s=0.05))
        await asyncio.wait_for(gone.wait(), 5)
    assert outcome == Outcome(kind=OutcomeKind.TIMED_OUT, detail="no answer within 0.05 s")


async def test_a_slow_body_is_timed_out_with_what_came_kept(http: HttpExecutor) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.read()

    async with serving_raw(talk) as url:
        outcome = await http.run(assignment(url, timeout_s=0.1))
    assert outcome == Outcome(
        kind=OutcomeKind.TIMED_OUT, status=200, detail="the answer was not complete within 0.1 s", output=b"half"
    )


async def test_waiting_for_a_place_is_not_counted_against_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor.http, "CONNECTIONS_MAX", 1)
    http = HttpExecutor()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/stuck":
            await asyncio.Event().wait()
        return web.Response()

    async with serving(handler) as url:
        stuck, quick = await asyncio.gather(
            http.run(assignment(f"{url}/stuck", timeout_s=0.1)), http.run(assignment(f"{url}/quick", timeout_s=0.08))
        )
        await http.close()
    assert (stuck.kind, quick.kind) == (OutcomeKind.TIMED_OUT, OutcomeKind.SUCCEEDED)


async def test_a_cancelled_attempt_is_killed_at_once(http: HttpExecutor) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        gone.set()

    async with serving_raw(talk) as url:
        attempt = asyncio.create_task(http.run(assignment(url)))
        await asyncio.wait_for(arrived.wait(), 5)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await asyncio.wait_for(gone.wait(), 5)


# --- what breaks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
async def test_an_attempt_reaches_its_target_once_even_if_the_connection_breaks(
    http: HttpExecutor, method: str
) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1

    async with serving_raw(talk) as url:
        outcome = await http.run(assignment(url, method=method))
    assert outcome == Outcome(kind=OutcomeKind.FAILED, detail="the connection was closed without an answer")
    assert connections == 1


async def test_a_refused_connection_is_a_failure_in_one_line(http: HttpExecutor) -> None:
    async with serving(answer_ok) as url:
        port = url.rpartition(":")[2]
    outcome = await http.run(assignment(f"{url}/?token=s3cret"))
    assert outcome == Outcome(kind=OutcomeKind.FAILED, detail=f"cannot connect to 127.0.0.1:{port}: Connection refused")


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the answer ended before it was complete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the answer is not valid HTTP"),
    ],
)
async def test_a_broken_answer_is_a_failure(http: HttpExecutor, answer: bytes, detail: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with serving_raw(talk) as url:
        outcome = await http.run(assignment(url))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.FAILED, detail)


async def test_an_unknown_host_is_a_failure_in_one_line() -> None:
    http = HttpExecutor(resolver=FakeResolver(socket.gaierror(-2, "Name or service not known")))
    outcome = await http.run(assignment("http://nowhere.example/?token=s3cret"))
    await http.close()
    assert outcome == Outcome(
        kind=OutcomeKind.FAILED, detail="cannot resolve nowhere.example: Name or service not known"
    )


def self_signed() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    return context


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own transport of the handshake that we refuse
async def test_an_untrusted_certificate_is_a_failure_in_one_line(http: HttpExecutor) -> None:
    async with serving(answer_ok, self_signed()) as url:
        outcome = await http.run(assignment(url))
    port = url.rpartition(":")[2]
    assert outcome == Outcome(
        kind=OutcomeKind.FAILED,
        detail=f"the TLS certificate of 127.0.0.1:{port} is not trusted: self-signed certificate",
    )


async def test_a_job_may_waive_the_certificate(http: HttpExecutor) -> None:
    async with serving(answer_ok, self_signed()) as url:
        outcome = await http.run(assignment(url, verify_tls=False))
    assert outcome.kind == OutcomeKind.SUCCEEDED


async def test_tls_to_a_plain_server_is_a_failure_in_one_line(http: HttpExecutor) -> None:
    async with serving(answer_ok) as url:
        outcome = await http.run(assignment(url.replace("http:", "https:")))
    assert outcome.kind == OutcomeKind.FAILED
    assert (outcome.detail or "").startswith("the TLS handshake with 127.0.0.1:")
    assert "\n" not in (outcome.detail or "")


@pytest.mark.parametrize("target", [{"url": "no url"}, {"url": "http://x", "success_codes": "fine"}, {"url": 3}])
async def test_a_target_that_was_never_valid_fails_and_does_not_raise(http: HttpExecutor, target: Any) -> None:
    outcome = await http.run(assignment(**target))
    assert outcome.kind == OutcomeKind.FAILED
    assert outcome.detail


# --- addresses that are refused ---------------------------------------------------------------------------------------


class FakeResolver(AbstractResolver):
    """Every name stands at `address`, or cannot be found for that reason."""

    def __init__(self, address: str | OSError) -> None:
        self.address = address

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        if isinstance(self.address, OSError):
            raise self.address
        ip6 = ":" in self.address
        family = 10 if ip6 else 2
        return [ResolveResult(hostname=host, host=self.address, port=port, family=family, proto=0, flags=4)]

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254"])
async def test_a_name_that_stands_at_a_refused_address_is_refused_when_connecting(address: str) -> None:
    http = HttpExecutor(resolver=FakeResolver(address))
    outcome = await http.run(assignment("http://innocent.example/"))
    await http.close()
    assert outcome.kind == OutcomeKind.FAILED
    assert f"cannot connect to innocent.example:80: {address} is" in (outcome.detail or "")


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:a9fe:a9fe]", "0xA9FEA9FE", "0xA9.0xFE.0xA9.0xFE"])
async def test_a_refused_address_is_refused_in_every_spelling(http: HttpExecutor, host: str) -> None:
    outcome = await http.run(assignment(f"http://{host}/latest/meta-data"))
    assert outcome.kind == OutcomeKind.FAILED
    assert "is link-local; this node does not call" in (outcome.detail or "")


@pytest.mark.parametrize("host", ["2852039166", "0251.0376.43518"])
async def test_a_spelling_that_the_client_does_not_take_goes_nowhere(http: HttpExecutor, host: str) -> None:
    outcome = await http.run(assignment(f"http://{host}/latest/meta-data"))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.FAILED, "the target's url is not valid")


async def test_a_name_is_judged_by_the_address_it_has_now() -> None:
    resolver = FakeResolver("127.0.0.1")
    recorder = Recorder()
    async with serving(recorder.record) as url:
        port = url.rpartition(":")[2]
        for address, kind in (("127.0.0.1", OutcomeKind.SUCCEEDED), ("169.254.169.254", OutcomeKind.FAILED)):
            resolver.address = address
            http = HttpExecutor(resolver=resolver)
            assert (await http.run(assignment(f"http://rebound.example:{port}/"))).kind == kind
            await http.close()
    assert len(recorder.requests) == 1


async def test_a_node_may_allow_link_local() -> None:
    # Without a zone the kernel refuses this address itself: no packet leaves, and the refusal is not ours.
    http = HttpExecutor(resolver=FakeResolver("fe80::1"), allow_link_local=True)
    outcome = await http.run(assignment("http://neighbour.example/"))
    await http.close()
    assert outcome.kind == OutcomeKind.FAILED
    assert "link-local" not in (outcome.detail or "")
