"""The http target against real servers: timeouts, long answers, and what breaks."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import executor.http
from executor.http import HttpExecutor
from executor.interface import Outcome, OutcomeKind
from tests.executor.servers import Collected, FakeResolver, answer_ok, assignment, run, serving, serving_raw

PIECE_BYTES = 64 * 1024

# --- limits -----------------------------------------------------------------------------------------------------------


async def test_an_answer_is_handed_on_as_it_arrives(http: HttpExecutor) -> None:
    output = Collected()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first, ")
        await asyncio.wait_for(output.came.wait(), 5)
        assert output.data == b"first, "
        await response.write(b"then the rest")
        return response

    async with serving(handler) as url:
        outcome = await run(http, assignment(url), output)
    assert outcome == Outcome(kind=OutcomeKind.SUCCEEDED, status=200)
    assert output.data == b"first, then the rest"


async def test_an_endless_answer_is_cut_off(http: HttpExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor.http, "ANSWER_BYTES_MAX", 4 * PIECE_BYTES)
    broken = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * PIECE_BYTES)
                await writer.drain()
        except ConnectionError:
            broken.set()

    async with serving_raw(talk) as url:
        outcome = await run(http, assignment(url))
        await asyncio.wait_for(broken.wait(), 5)
    assert outcome.kind == OutcomeKind.SUCCEEDED


async def test_no_answer_in_time_is_timed_out_and_the_connection_goes(http: HttpExecutor) -> None:
    gone = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()

    async with serving_raw(talk) as url:
        outcome = await run(http, assignment(url, timeout_s=0.05))
        await asyncio.wait_for(gone.wait(), 5)
    assert outcome == Outcome(kind=OutcomeKind.TIMED_OUT, detail="no answer within 0.05 s")


async def test_a_slow_body_is_timed_out_with_what_came_kept(http: HttpExecutor) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.read()

    async with serving_raw(talk) as url:
        output = Collected()
        outcome = await run(http, assignment(url, timeout_s=0.1), output)
    detail = "the answer was not complete within 0.1 s"
    assert outcome == Outcome(kind=OutcomeKind.TIMED_OUT, status=200, detail=detail)
    assert output.data == b"half"


async def test_waiting_for_a_place_is_not_counted_against_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor.http, "CONNECTIONS_MAX", 1)
    http = HttpExecutor()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/stuck":
            await asyncio.Event().wait()
        return web.Response()

    async with serving(handler) as url:
        stuck, quick = await asyncio.gather(
            run(http, assignment(f"{url}/stuck", timeout_s=0.1)), run(http, assignment(f"{url}/quick", timeout_s=0.08))
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
        attempt = asyncio.create_task(run(http, assignment(url)))
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
        outcome = await run(http, assignment(url, method=method))
    assert outcome == Outcome(kind=OutcomeKind.FAILED, detail="the connection was closed without an answer")
    assert connections == 1


async def test_a_refused_connection_is_a_failure_in_one_line(http: HttpExecutor) -> None:
    async with serving(answer_ok) as url:
        port = url.rpartition(":")[2]
    outcome = await run(http, assignment(f"{url}/?token=s3cret"))
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
        outcome = await run(http, assignment(url))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.FAILED, detail)


async def test_an_unknown_host_is_a_failure_in_one_line() -> None:
    http = HttpExecutor(resolver=FakeResolver(socket.gaierror(-2, "Name or service not known")))
    outcome = await run(http, assignment("http://nowhere.example/?token=s3cret"))
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
        outcome = await run(http, assignment(url))
    port = url.rpartition(":")[2]
    assert outcome == Outcome(
        kind=OutcomeKind.FAILED,
        detail=f"the TLS certificate of 127.0.0.1:{port} is not trusted: self-signed certificate",
    )


async def test_a_job_may_waive_the_certificate(http: HttpExecutor) -> None:
    async with serving(answer_ok, self_signed()) as url:
        outcome = await run(http, assignment(url, verify_tls=False))
    assert outcome.kind == OutcomeKind.SUCCEEDED


async def test_tls_to_a_plain_server_is_a_failure_in_one_line(http: HttpExecutor) -> None:
    async with serving(answer_ok) as url:
        outcome = await run(http, assignment(url.replace("http:", "https:")))
    assert outcome.kind == OutcomeKind.FAILED
    assert (outcome.detail or "").startswith("the TLS handshake with 127.0.0.1:")
    assert "\n" not in (outcome.detail or "")


@pytest.mark.parametrize("target", [{"url": "no url"}, {"url": "http://x", "success_codes": "fine"}, {"url": 3}])
async def test_a_target_that_was_never_valid_fails_and_does_not_raise(http: HttpExecutor, target: Any) -> None:
    outcome = await run(http, assignment(**target))
    assert outcome.kind == OutcomeKind.FAILED
    assert outcome.detail
