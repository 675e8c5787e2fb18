"""The API for load and for tests: spread over all nodes, or to one of them, with the bare status when that matters.

Not httpapi.client, on purpose: that one stays with the node that answers and turns every failure into an exception.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp

REQUEST_TIMEOUT_S = 10.0
RETRY_FOR_S = 60.0
RETRY_EVERY_S = 0.2
CONNECTIONS_MAX = 128
"""Group commit takes what waits: with 32 a cluster creates half as many jobs a second, and B1 is mostly that."""
_TRY_AGAIN = frozenset({429, 502, 503, 504})

Json = dict[str, Any]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Refused(Exception):
    """An answer that trying again would not change."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"HTTP {status}: {body}")
        self.status = status
        self.body = body


class Api:
    """Calls any of `urls` in turn. Every write that it repeats must be safe to repeat (an idempotency key)."""

    def __init__(self, urls: Mapping[str, str], *, connections: int = CONNECTIONS_MAX) -> None:
        self._urls = dict(urls)
        self._turn = itertools.cycle(self._urls)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        )

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def once(self, method: str, path: str, *, node: str | None = None, json: Any = None) -> tuple[int, Json]:
        """One request to one node: status and body. Raises aiohttp.ClientError or TimeoutError when there is no
        answer."""
        url = self._urls[node or next(self._turn)] + path
        async with self._session.request(method, url, json=json) as response:
            body = await response.json(content_type=None) if response.content_type.endswith("json") else {}
            return response.status, body or {}

    async def text(self, path: str, *, node: str) -> tuple[int, str]:
        """One GET of something that is not JSON."""
        async with self._session.get(self._urls[node] + path) as response:
            return response.status, await response.text()

    async def call(
        self, method: str, path: str, *, node: str | None = None, json: Any = None, retry_for_s: float = RETRY_FOR_S
    ) -> Json:
        """Ask until there is a definite answer. Raises Refused for a 4xx, TimeoutError after `retry_for_s`."""
        async with asyncio.timeout(retry_for_s):
            while True:
                try:
                    status, body = await self.once(method, path, node=node, json=json)
                except (aiohttp.ClientError, OSError, TimeoutError):
                    status, body = 503, {}
                if status < 400:
                    return body
                if status not in _TRY_AGAIN:
                    raise Refused(status, body)
                await asyncio.sleep(RETRY_EVERY_S)

    async def pages(self, path: str, *, node: str | None = None) -> list[Json]:
        """All items of a list, page after page. `path` may have a query."""
        items: list[Json] = []
        cursor: str | None = ""
        while cursor is not None:
            separator = "&" if "?" in path else "?"
            more = f"{separator}cursor={cursor}" if cursor else ""
            page = await self.call("GET", path + more, node=node)
            items += page["items"]
            cursor = page["next_cursor"]
        return items


async def spread(
    items: Sequence[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int = CONNECTIONS_MAX
) -> list[Result]:
    """`work` on every item, `at_once` at a time; the results in the order of the items. The first failure ends it."""
    results: dict[int, Result] = {}
    waiting = iter(enumerate(items))

    async def worker() -> None:
        for index, item in waiting:
            results[index] = await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(items))):
            group.create_task(worker())
    return [results[index] for index in range(len(items))]
