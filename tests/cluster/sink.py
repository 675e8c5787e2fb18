"""The witness: an HTTP target on loopback that remembers every request, in order of arrival, outside of the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

Answer = Callable[["Seen"], Awaitable[int]]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request: who was called, for which run, and when it arrived (unix seconds)."""

    path: str
    run_id: str
    job_id: str
    attempt: int
    token: int
    due_at: str
    idempotency_key: str
    arrived_s: float


async def answer_at_once(seen: Seen) -> int:
    return 200


class Sink:
    """Answers what `answer` says (a status, after any wait); every request is in `seen` before it is answered."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answer: Answer = answer_at_once
        self.headers: dict[str, str] = {}
        """Of every answer."""
        self.arrived = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def open(self) -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def wait_count(self, count: int, timeout_s: float) -> None:
        """Wait until `count` requests have arrived."""
        async with asyncio.timeout(timeout_s):
            while len(self.seen) < count:
                self.arrived.clear()
                await self.arrived.wait()

    async def _handle(self, request: web.Request) -> web.Response:
        headers = request.headers
        seen = Seen(
            path=request.match_info["path"],
            run_id=headers["Horae-Run-Id"],
            job_id=headers["Horae-Job-Id"],
            attempt=int(headers["Horae-Attempt"]),
            token=int(headers["Horae-Fence-Token"]),
            due_at=headers["Horae-Due-At"],
            idempotency_key=headers["Idempotency-Key"],
            arrived_s=time.time(),
        )
        self.seen.append(seen)
        self.arrived.set()
        status = await self.answer(seen)
        return web.Response(status=status, headers=self.headers, text=f"seen as number {len(self.seen)}")
