"""A target on loopback that answers every call after a while: callbacks that hold a slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"
HEAD_BYTES_MAX = 64 * 1024


@asynccontextmanager
async def slow_sink() -> AsyncIterator[str]:
    """The base URL of a sink; a call of `/SECONDS` is answered after so long. Ends with the block."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX, backlog=4096)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(_content_length(head))
            await asyncio.sleep(float(head.split(b" ", 2)[1].lstrip(b"/") or 0))
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the caller has gone
    finally:
        writer.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
