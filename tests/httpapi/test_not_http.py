"""What is no HTTP, over a real socket: answered as a problem document all the same, one bounded line in the log, and no
traceback anywhere."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from httpapi.app import build_app
from httpapi.server import serving
from tests.httpapi.twin import Twin

LINE_LENGTH_MAX = 300
ANSWER_S = 5.0
HOST = b"Host: 127.0.0.1\r\n"
NOT_HTTP = {
    "no request line": b"nonsense\r\n\r\n",
    "bytes of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n",
    "a bad version": b"GET / HTTP/x.y\r\n" + HOST + b"\r\n",
    "a bad method": b"GE(T / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a bad header": b"GET / HTTP/1.1\r\n" + HOST + b"no colon here\r\n\r\n",
    "a header with a line feed and a terminal's escape": b"GET / HTTP/1.1\r\n" + HOST + b"a\x1b[2Jb: 1\r\n\r\n",
    "a long request line": b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a long header": b"GET / HTTP/1.1\r\n" + HOST + b"X-Long: " + b"x" * 10_000 + b"\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: 1\r\n" % i for i in range(500)) + b"\r\n",
    "two lengths": b"POST /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length that is no number": b"POST /v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Length: -5\r\n\r\n",
    "a bad chunk": b"POST /v1/jobs HTTP/1.1\r\n"
    + HOST
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "an unknown expectation": b"GET /v1/jobs HTTP/1.1\r\n" + HOST + b"Expect: the-unexpected\r\n\r\n",
}
ANSWERED_INSIDE = {"an unknown expectation"}
"""HTTP that can be read, and is refused: not worth a line."""


@pytest.fixture
async def port(twin: Twin) -> AsyncIterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    found: int = listening.getsockname()[1]
    async with serving(build_app(twin, node=twin.node), listening, close_s=1.0):
        yield found


async def exchange(port: int, sent: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower case) and body of the first answer, which a node must end by closing the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        async with asyncio.timeout(ANSWER_S):
            answer = await reader.read()
        head, _, body = answer.partition(b"\r\n\r\n")
    finally:
        writer.close()
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, body


@pytest.mark.parametrize("what", NOT_HTTP)
async def test_it_is_answered_as_a_problem(port: int, what: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        status, headers, body = await exchange(port, NOT_HTTP[what])
    assert status in (400, 417)
    assert headers["content-type"] == "application/problem+json"
    assert (headers["server"], headers["x-content-type-options"]) == ("horae", "nosniff")
    problem: dict[str, Any] = json.loads(body)
    assert list(problem)[:4] == ["type", "title", "status", "detail"]
    assert problem["status"] == status
    assert len(problem["detail"]) < LINE_LENGTH_MAX
    assert len(caplog.records) == (what not in ANSWERED_INSIDE)
    for record in caplog.records:
        line = logging.Formatter("%(message)s").format(record)
        assert record.levelno == logging.INFO
        assert record.exc_info is None
        assert len(line) < LINE_LENGTH_MAX
        assert line.isprintable()


async def test_good_requests_are_served_and_the_connection_is_kept(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"GET /v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = int(next(line.split(b":")[1] for line in head.split(b"\r\n") if b"content-length" in line.lower()))
        await reader.readexactly(length)
    writer.close()


async def test_garbage_after_a_good_request_is_answered_too(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v1/nowhere HTTP/1.1\r\n" + HOST + b"\r\n")
    assert b" 404 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"nonsense\r\n\r\n")
    rest = await reader.read()
    writer.close()
    assert b" 400 Bad Request\r\nContent-Type: application/problem+json" in rest


async def test_serving_ends_with_its_connections(twin: Twin) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    async with serving(build_app(twin), listening, close_s=1.0):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
    while await reader.read(1024):
        pass
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
