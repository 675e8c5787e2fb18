"""The witness of a live run: an HTTP target in a process of its own, which writes each call down, and has it on the
disk, before it answers. Its paths are the scripts of the workload.

Run as `python -c "from chaos.live_sink import main; main()" HOST PORT FILE SEED`.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from aiohttp import web

from node.clock import SystemClock

ENTRY = "from chaos.live_sink import main; main()"
HANGS_S = 60.0
"""Longer than any attempt of the workload may take."""
SUCCEEDED, FAILED = 200, 500
BACKLOG = 1024


class Call(msgspec.Struct, frozen=True, kw_only=True, tag_field="what", tag="call"):
    """A target was called; times are seconds of the machine's monotonic clock."""

    at: float
    peer: str
    run: str
    job: str
    attempt: int
    token: int


class CallEnd(msgspec.Struct, frozen=True, kw_only=True, tag_field="what", tag="end"):
    at: float
    peer: str
    run: str
    token: int
    how: Literal["succeeded", "failed", "killed"]


Line = Call | CallEnd


class Record:
    """The file that outlives everything: a line an event, on the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, line: Line) -> None:
        os.write(self._descriptor, msgspec.json.encode(line) + b"\n")
        os.fdatasync(self._descriptor)


def read_record(path: Path) -> Iterator[Line]:
    """Every whole line; the last may have been cut off."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield msgspec.json.decode(line, type=Line)


def takes_s(script: str, dice: random.Random) -> float:
    if script == "slow":
        return dice.uniform(0.8, 3.0)
    if script == "hang" and dice.random() < 0.3:
        return HANGS_S
    return dice.uniform(0.001, 0.05)


class Sink:
    """Each call's dice come from the seed and from what is called, so it does not matter in which order they come."""

    def __init__(self, record: Record, seed: str) -> None:
        self._record = record
        self._seed = seed
        self._clock = SystemClock()

    async def handle(self, request: web.Request) -> web.Response:
        headers = request.headers
        run, token = headers["Horae-Run-Id"], int(headers["Horae-Fence-Token"])
        peer = request.remote or ""
        self._record.write(
            Call(
                at=self._clock.monotonic(),
                peer=peer,
                run=run,
                job=headers["Horae-Job-Id"],
                attempt=int(headers["Horae-Attempt"]),
                token=token,
            )
        )
        how: Literal["succeeded", "failed", "killed"] = "killed"
        try:
            how = await self._act(request, random.Random(f"{self._seed} {run} {token}"))
        finally:
            self._record.write(CallEnd(at=self._clock.monotonic(), peer=peer, run=run, token=token, how=how))
        return web.Response(status=SUCCEEDED if how == "succeeded" else FAILED)

    async def _act(self, request: web.Request, dice: random.Random) -> Literal["succeeded", "failed"]:
        script = request.match_info["script"]
        await asyncio.sleep(takes_s(script, dice))
        if script == "deadly" and dice.random() < 0.1 and request.transport is not None:
            request.transport.abort()  # the effect stands, the report of it is lost
        return "failed" if script == "failing" and dice.random() < 0.7 else "succeeded"


async def serve(host: str, port: int, record: Record, seed: str) -> None:
    """Until it is killed."""
    app = web.Application()
    app.router.add_post("/{script}", Sink(record, seed).handle)
    # A handler ends when its caller hangs up: that is how it shows that an attempt was killed.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    await asyncio.Event().wait()


def main() -> None:
    host, port, path, seed = sys.argv[1:]
    asyncio.run(serve(host, int(port), Record(Path(path)), seed))
