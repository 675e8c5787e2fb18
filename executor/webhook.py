"""One webhook message to one receiver: a POST, bounded in time, under the same egress rules as http targets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp.abc import AbstractResolver

from executor.egress import guarded_socket
from executor.http_detail import describe_error, describe_status

TIMEOUT_S = 10.0
"""From the look-up to the head of the answer. A receiver that takes longer is asked again."""
CONNECTIONS_MAX = 64


class WebhookSender:
    """Sends messages. Made outside or inside a loop, used in one; its connections are apart from those of the runs."""

    def __init__(
        self,
        *,
        allow_link_local: bool = False,
        timeout_s: float = TIMEOUT_S,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._allow_link_local = allow_link_local
        self._timeout_s = timeout_s
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """None when the receiver answered 2xx; else one line that says why not. Raises nothing that a receiver does.
        Follows no redirect."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._post(url, body, headers)
        # Whatever a library makes of a receiver is a failed try, not a dead node.
        except Exception as error:
            return f"no answer within {self._timeout_s:g} s" if limit.expired() else describe_error(error)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        # The answer's body is of no use: the connection is closed with it, however long it is.
        async with self._open_session().post(url, data=body, headers=dict(headers), allow_redirects=False) as response:
            return None if 200 <= response.status < 300 else describe_status(response)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX,
                force_close=True,
                resolver=self._resolver or aiohttp.ThreadedResolver(),
                socket_factory=None if self._allow_link_local else guarded_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=False,
                auto_decompress=False,
            )
        return self._session
