"""Server-sent events on the wire: heartbeats while nothing happens, and no endless patience with those who do not read.

A stream holds no more than one event and what the socket takes; a reader that stops reading is cut off, and comes back
with the id of the last event that it has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from httpapi.log_events import HEARTBEAT, Event, encoded
from node.interface import Overloaded

STREAMS_MAX = 256
"""Streams of a node at once; the next is told to come back. Each looks at the state twice a second."""
HEARTBEAT_S = 15.0
"""Below the minute after which proxies give up on a connection in which nothing comes."""
FIRST_EVENT_S = 1.0
"""So long the answer waits for its first event: what is refused until then is a proper error."""
WRITE_S = 30.0
"""A reader that takes nothing for so long is cut off."""
HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStreams:
    """All streams of a node."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[object]] = set()

    async def serve(self, request: web.Request, events: AsyncIterator[Event]) -> web.StreamResponse:
        """Answer with these events, until they end or nobody reads them. What `events` raises at first is raised."""
        if len(self._open) >= STREAMS_MAX:
            raise Overloaded(f"{STREAMS_MAX} streams are open on this node; try again in a moment, or another node.")
        task = asyncio.current_task()
        assert task is not None, "a handler is a task"
        self._open.add(task)
        try:
            return await _serve(request, events)
        finally:
            self._open.discard(task)

    async def close(self, _: web.Application) -> None:
        """The node leaves: streams must not hold it up."""
        for task in self._open:
            task.cancel()


async def _serve(request: web.Request, events: AsyncIterator[Event]) -> web.StreamResponse:
    response = web.StreamResponse(headers=HEADERS)
    upcoming = _Upcoming(events)
    try:
        first = await upcoming.wait(FIRST_EVENT_S)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await _write(request, response, first)
            while not upcoming.ended:
                await _write(request, response, await upcoming.wait(HEARTBEAT_S))
    finally:
        await upcoming.close()
    return response


async def _write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Waits while the socket is full. Raises ConnectionError when the reader has gone, or is cut off."""
    try:
        async with asyncio.timeout(WRITE_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the reader takes nothing") from None


class _Upcoming:
    """The next event, waited for in pieces of time."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events
        self._next: asyncio.Task[Event | None] | None = None
        self.ended = False

    async def wait(self, seconds: float) -> bytes:
        """The next event as it is sent; a heartbeat when none came in time; nothing at the end."""
        if self._next is None:
            self._next = asyncio.create_task(self._take())
        done, _ = await asyncio.wait([self._next], timeout=seconds)
        if not done:
            return HEARTBEAT
        event = self._next.result()
        self._next = None
        self.ended = event is None
        return b"" if event is None else encoded(event)

    async def _take(self) -> Event | None:
        return await anext(self._events, None)

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._next
        aclose = getattr(self._events, "aclose", None)
        if aclose is not None:
            await aclose()
