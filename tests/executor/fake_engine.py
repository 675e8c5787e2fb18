"""An engine that does what a test tells it: for what a real one does rarely."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeEngine:
    """Answers like an engine in which every container ends at once, with what it `wrote` and code 0; `answers`, by
    the end of the path, are asked before."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.api_version = "1.41"
        self.wrote = b"\1\0\0\0\0\0\0\3hi\n"
        self.answers: dict[str, Answer] = {}
        self.calls: list[str] = []
        self.called = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, self.path).start()

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path}")
        self.called.set()
        for end, answer in self.answers.items():
            if request.path.endswith(end):
                return await answer(request)
        return await self._usual(request)

    async def _usual(self, request: web.Request) -> web.StreamResponse:
        match request.path.rpartition("/")[2]:
            case "_ping":
                return web.Response(headers={"Api-Version": self.api_version})
            case "attach":
                return web.Response(body=self.wrote)
            case "wait":
                return web.json_response({"StatusCode": 0})
            case "json" if request.path.endswith("/containers/json"):
                return web.json_response([])
            case "json":
                return web.json_response({"State": {"OOMKilled": False}})
            case _:
                return web.Response(status=204)


@asynccontextmanager
async def fake_engine(path: Path) -> AsyncIterator[FakeEngine]:
    engine = FakeEngine(path)
    await engine.open()
    yield engine
    await engine.close()


def answering(text: str, status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    return answer


async def hanging(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("nobody ends it")


async def breaking_off(request: web.Request) -> web.StreamResponse:
    """The engine dies with the call under way."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
