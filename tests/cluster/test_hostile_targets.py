"""Whatever a target does, its run fails and the node goes on: an error that nobody catches would end the node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from bench.api import Api, spread
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import api_time, create, final_runs_of, http_target

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
FLOOD_PARTS = 2_000
SELF_SIGNED = Path(__file__).parent.parent / "executor" / "self_signed.pem"


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff garbage \r\n\r\n" * 100)
    await writer.drain()


async def flood(writer: asyncio.StreamWriter, part: bytes) -> None:
    for _ in range(FLOOD_PARTS):
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0)


async def endless_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await flood(writer, b"X-More: " + b"a" * 1000 + b"\r\n")


async def bad_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nwhat?\r\n")
    await writer.drain()


async def interim_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await flood(writer, b"HTTP/1.1 102 Processing\r\n\r\n")


async def broken_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
    await writer.drain()
    await reset(reader, writer)


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def plain_inside_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Past the handshake, bytes that are no TLS record."""
    descriptor = os.dup(writer.get_extra_info("socket").fileno())
    with socket.socket(fileno=descriptor) as connection, contextlib.suppress(OSError):
        connection.send(b"not a record at all" * 10)
    await reader.read()


PLAIN = (reset, garbage, endless_head, bad_chunks, interim_answers, broken_off, silence)
TLS = (reset, garbage, broken_off, silence, plain_inside_tls)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(tmp_path, size=1) as started:
        yield started


async def serve(talk: Talk, *, tls: bool) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            await talk(reader, writer)
        writer.close()

    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(SELF_SIGNED)
    return await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)


async def test_a_node_outlives_its_targets(cluster: LocalCluster, api: Api) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the servers' own noise
    targets: dict[str, str] = {}
    servers = [
        (talk, tls, await serve(talk, tls=tls)) for talks, tls in ((PLAIN, False), (TLS, True)) for talk in talks
    ]
    for talk, tls, server in servers:
        port = server.sockets[0].getsockname()[1]
        for scheme in ("http", "https"):
            targets[f"{scheme} to {'TLS' if tls else 'plain'} {talk.__name__}"] = f"{scheme}://127.0.0.1:{port}/"
    jobs = await spread(
        list(targets.items()),
        lambda target: create(
            api,
            target[0],
            run_at=api_time(time.time() + 1),
            timeout_s=1,
            max_retries=0,
            target=http_target(target[1], verify_tls=False),
        ),
    )
    runs = [(await final_runs_of(api, job["job_id"]))[0] for job in jobs]
    for _, _, server in servers:
        server.close()
    cluster.check_alive()
    assert await api.call("GET", "/readyz") == {"status": "ready"}
    assert {run["state"] for run in runs} == {"dead"}
    details = {name: run["attempts"][0]["detail"] for name, run in zip(targets, runs, strict=True)}
    assert all(detail and "\n" not in detail and "Error" not in detail for detail in details.values()), details
    assert len(set(details.values())) > 4, details
    assert "unhandled" not in cluster.log_tail("n1", lines=10_000)
