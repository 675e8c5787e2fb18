"""A target that costs as little as it can: a process that answers every request with 200 and remembers when they came.

Bare protocol on uvloop, no framework: on two cores the sink must not be what is measured.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import cast

import uvloop

from node.clock import Clock, SystemClock

ENTRY = "from bench.sink import main; main()"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Arrivals:
    """How many requests came since the last reset, and when (unix seconds) the first and the last of them did."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        self.count, self.first_s, self.last_s = 0, 0.0, 0.0

    def note(self) -> None:
        self.last_s = self._clock.wall_ms() / 1000
        self.first_s = self.first_s or self.last_s
        self.count += 1

    def as_json(self) -> bytes:
        return json.dumps({"count": self.count, "first_s": self.first_s, "last_s": self.last_s}).encode()


class SinkConnection(asyncio.Protocol):
    """Requests of one connection, one after another. GET tells of the arrivals, DELETE forgets them."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._received = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are so by shape only

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n") + 4) > 3:
            length = _LENGTH.search(self._received, 0, end)
            end += int(length[1]) if length else 0
            if len(self._received) < end:
                return
            head, self._received = self._received, self._received[end:]
            self._transport.write(self._answer(head))

    def _answer(self, request: bytes) -> bytes:
        if request.startswith(b"GET "):
            body = self._arrivals.as_json()
            return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        if request.startswith(b"DELETE "):
            self._arrivals.reset()
        else:
            self._arrivals.note()
        return ANSWER


async def serve(port: int) -> None:
    """Until cancelled."""
    arrivals = Arrivals(SystemClock())
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SinkConnection(arrivals), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """`python -c ENTRY PORT`."""
    uvloop.run(serve(int(sys.argv[1])))
