"""One node asks another in the name of a client: for what only that node has, or only it may do.

The request that is sent on carries FORWARDED_HEADER, and a node that receives that header never sends it further, so no
loop can form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import aiohttp
import msgspec
from aiohttp import web

from httpapi.problem import PeerUnreachable
from node.interface import NotFound

FORWARDED_HEADER = "Horae-Forwarded-By"
PEER_TIMEOUT_S = 10.0
PEER_SILENCE_S = 45.0
"""A stream in which nothing came for so long, not even a heartbeat, is broken: three of those have been missed."""
PROBLEM_BYTES_MAX = 16 * 1024
"""Of a problem document that is read."""
PEER_BYTES_MAX = 16 * 1024 * 1024
"""The most that is taken from another node; far above what the log of an attempt may keep."""


async def ask_peer(
    method: str,
    url: str,
    *,
    asking: str,
    unreachable: str,
    params: Mapping[str, str] | None = None,
    body: bytes | None = None,
    kept_headers: tuple[str, ...] = (),
) -> web.Response:
    """The answer of another node as ours: its body, its status, its content type, and those headers. `asking` is this
    node; `body` is JSON. Raises PeerUnreachable with the text `unreachable`."""
    timeout = aiohttp.ClientTimeout(total=PEER_TIMEOUT_S)
    headers = {FORWARDED_HEADER: asking} | ({} if body is None else {"Content-Type": "application/json"})
    try:
        # A session for each: people ask, and seldom; a kept connection would need an owner that closes it.
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
            session.request(method, url, params=params, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            return await _passed_on(answer, kept_headers)
    except (TimeoutError, aiohttp.ClientError, ValueError) as fault:
        raise PeerUnreachable(unreachable) from fault


async def stream_of_peer(
    url: str, *, asking: str, unreachable: str, params: Mapping[str, str], headers: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """What another node sends for as long as it does. Raises PeerUnreachable with the text `unreachable` when it does
    not answer, or stops before the end, and NotFound with that node's words."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=PEER_TIMEOUT_S, sock_read=PEER_SILENCE_S)
    sent = {FORWARDED_HEADER: asking} | dict(headers)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
            session.get(url, params=params, headers=sent, allow_redirects=False) as answer,
        ):
            if answer.status == 404:
                raise NotFound(await _detail(answer))
            if answer.status != 200:
                raise PeerUnreachable(unreachable)
            async for chunk in answer.content.iter_any():
                yield chunk
    except (TimeoutError, aiohttp.ClientError) as fault:
        raise PeerUnreachable(unreachable) from fault


async def _detail(answer: aiohttp.ClientResponse) -> str | None:
    """What a problem document says."""
    try:
        return str(msgspec.json.decode(await answer.content.read(PROBLEM_BYTES_MAX))["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return None


async def _passed_on(answer: aiohttp.ClientResponse, kept_headers: tuple[str, ...]) -> web.Response:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > PEER_BYTES_MAX:
            raise ValueError("more than an answer can hold")
    kept = {name: answer.headers[name] for name in kept_headers if name in answer.headers}
    kept["Content-Type"] = answer.headers.get("Content-Type", "application/octet-stream")
    return web.Response(body=bytes(body), status=answer.status, headers=kept)
