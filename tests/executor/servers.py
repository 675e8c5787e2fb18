"""Real servers on loopback, and the assignment that the tests run against them."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from executor.http import HttpExecutor
from executor.interface import Assignment, Outcome, OutputSink

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STARTED_MS = 1_796_000_400_000
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


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
        started_ms=STARTED_MS,
    )


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
async def serving_raw(talk: Talk) -> AsyncIterator[str]:
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


class Recorder:
    def __init__(self) -> None:
        self.requests: list[tuple[web.Request, bytes]] = []

    async def record(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        return web.Response(text="done", headers={"Set-Cookie": "a=b"})


class Collected:
    """An OutputSink that keeps all, and tells when something has come."""

    def __init__(self) -> None:
        self.data = b""
        self.came = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.data += data
        self.came.set()


async def run(http: HttpExecutor, assignment: Assignment, output: OutputSink | None = None) -> Outcome:
    return await http.run(assignment, output or Collected())


async def outcome_of(
    http: HttpExecutor, response: web.Response, output: OutputSink | None = None, **fields: Any
) -> Outcome:
    async def handler(request: web.Request) -> web.StreamResponse:
        return response

    async with serving(handler) as url:
        return await run(http, assignment(url, **fields), output)


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
