"""What `horae demo` runs: a handful of jobs of several kinds, and the little server that their callbacks reach."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

FLAKY_FAILS = 0.4
"""How often the flaky callback fails: about every third run needs a retry, and hardly one in forty dies."""
SLOW_S = 4.5
"""Longer than the period of the job that calls it, so that ticks are skipped for overlap."""


class Sink:
    """Answers callbacks: at once, now and then with an error, or slowly. `random_source` decides which fail."""

    def __init__(self, random_source: random.Random | None = None) -> None:
        self._random = random_source or random.Random()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/hello", self.hello)
        app.router.add_post("/flaky", self.flaky)
        app.router.add_post("/slow", self.slow)
        return app

    async def hello(self, request: web.Request) -> web.Response:
        run_id, attempt = request.headers.get("Horae-Run-Id", "?"), request.headers.get("Horae-Attempt", "?")
        return web.Response(text=f"hello, run {run_id}, attempt {attempt}\n")

    async def flaky(self, request: web.Request) -> web.Response:
        if self._random.random() < FLAKY_FAILS:
            return web.Response(status=500, text="not today\n")
        return web.Response(text="all is well\n")

    async def slow(self, request: web.Request) -> web.Response:
        await asyncio.sleep(SLOW_S)
        return web.Response(text="at last\n")


@asynccontextmanager
async def serve_sink(sink: Sink) -> AsyncIterator[str]:
    """The sink on a free loopback port; its base URL."""
    runner = web.AppRunner(sink.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def sample_jobs(sink: str) -> list[dict[str, Any]]:
    """Bodies of POST /v1/jobs; `sink` is the base URL for callbacks."""

    def callback(path: str) -> dict[str, str]:
        return {"type": "http", "url": f"{sink}/{path}"}

    return [
        {"name": "hello", "schedule": "@every 2s", "target": callback("hello"), "args": {"greeting": "hello"}},
        {"name": "beat", "schedule": "@every 2s", "target": {"type": "noop"}, "priority": "high"},
        {"name": "flaky", "schedule": "@every 5s", "target": callback("flaky"), "max_retries": 4, "backoff_base_s": 1},
        {"name": "slow", "schedule": "@every 3s", "target": callback("slow"), "overlap_policy": "skip"},
        {"name": "every-minute", "schedule": "* * * * *", "tz": "Europe/Berlin", "target": {"type": "noop"}},
        {
            "name": "nightly",
            "schedule": "0 2 * * *",
            "tz": "Europe/Berlin",
            "target": callback("hello"),
            "team": "billing",
        },
    ]
