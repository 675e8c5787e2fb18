"""B2: N http runs due in the same second, against a fast sink on loopback; and a bare client against the same sink."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

import aiohttp

from bench import bare_client, sink
from bench.api import Api, Json
from bench.burst import Burst
from bench.errors import BenchFailed
from bench.figures import Round
from bench.local_cluster import death_signal
from bench.ports import PortBlock
from node.clock import Clock

START_TIMEOUT_S = 20.0
POLL_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Callbacks:
    """What B2 does in one round: the bare client, then the burst, within a minute of each other."""

    jobs: int = 5_000
    bars: ClassVar[Mapping[str, float]] = {"bare client's rate / ours": 1 / 0.7}

    async def measure(self, api: Api, clock: Clock, label: str) -> Round:
        async with _sink() as url:
            bare_s = await _bare_client(url, self.jobs)
            await _ask(url, "DELETE")
            burst = Burst(jobs=self.jobs, target={"type": "http", "url": url})
            due_s, figures = await burst.burst(api, clock, label)
            arrivals = await _ask(url, "GET")
        return callback_figures(figures, arrivals, due_s=due_s, jobs=self.jobs, bare_s=bare_s)


def callback_figures(burst: Round, arrivals: Json, *, due_s: float, jobs: int, bare_s: float) -> Round:
    """Our rate counts from the due second to the last request's arrival."""
    ours = arrivals["count"] / (arrivals["last_s"] - due_s)
    bare = jobs / bare_s
    return {
        "callbacks per s": ours,
        "bare client's per s": bare,
        "bare client's rate / ours": bare / ours,
        "requests beyond one a run": arrivals["count"] - jobs,
        **{name: value for name, value in burst.items() if name != "jobs created per s"},
    }


@asynccontextmanager
async def _sink() -> AsyncIterator[str]:
    ports = PortBlock(1)
    url = f"http://127.0.0.1:{ports.ports[0]}/"
    command = (sys.executable, "-c", sink.ENTRY, str(ports.ports[0]))
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL, preexec_fn=death_signal())
    try:
        await _wait_answering(url)
        yield url
    finally:
        process.kill()
        await process.wait()
        ports.release()


async def _wait_answering(url: str) -> None:
    for _ in range(round(START_TIMEOUT_S / POLL_EVERY_S)):
        if await _answers(url):
            return
        await asyncio.sleep(POLL_EVERY_S)
    raise BenchFailed(f"the sink did not start within {START_TIMEOUT_S:g} s")


async def _bare_client(url: str, count: int) -> float:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", bare_client.ENTRY, url, str(count)), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    return float(output)


async def _answers(url: str) -> bool:
    try:
        await _ask(url, "GET")
    except (aiohttp.ClientError, OSError):
        return False
    return True


async def _ask(url: str, method: str) -> Json:
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        found: Json = await response.json() if method == "GET" else {}
        return found
