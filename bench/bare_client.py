"""What B2 is compared with: an aiohttp client that does nothing but send the same requests, in a process of its own."""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import uvloop

from node.clock import SystemClock

ENTRY = "from bench.bare_client import main; main()"
CONNECTIONS = 256
"""More gave no more on the machine that this was written on."""
HEADERS = {
    "User-Agent": "Horae",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "Horae-Run-Id": "0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6",
    "Horae-Job-Id": "01JDZ5T6W8Q9R0S1T2V3W4X5Y6",
    "Horae-Attempt": "1",
    "Horae-Due-At": "2026-11-30T01:00:00.000Z",
    "Horae-Fence-Token": "1",
    "Idempotency-Key": "0193f2a0c0de-01JDZ5T6W8Q9R0S1T2V3W4X5Y6",
}
"""As long as those of a callback."""


async def send(url: str, count: int) -> float:
    """Seconds that `count` requests took, CONNECTIONS of them at a time."""
    clock, left = SystemClock(), iter(range(count))

    async def sender(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(url, data=b"null", headers=HEADERS) as response:
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:
        begun = clock.monotonic()
        await asyncio.gather(*(sender(session) for _ in range(CONNECTIONS)))
        return clock.monotonic() - begun


def main() -> None:
    """`python -c ENTRY URL COUNT`: writes the seconds."""
    sys.stdout.write(f"{uvloop.run(send(sys.argv[1], int(sys.argv[2])))}\n")
