"""The http target: one request an attempt, its answer bounded and handed on as it arrives, its end certain.

One attempt sends at most one request: a repeat is the scheduler's decision, with a new attempt number. Nothing
follows a redirect, keeps a cookie or reads a proxy from the environment: what is called is what the job says.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver

from executor.egress import guarded_socket
from executor.http_call import HttpCall, build_call
from executor.http_detail import describe_error, describe_status, retry_after_s
from executor.interface import Assignment, Outcome, OutcomeKind, OutputSink
from executor.text import one_line

CONNECTIONS_MAX = 512
"""Attempts on the wire at once on this node, below the usual 1,024 file descriptors. The others wait, and the
waiting is not counted against their timeout."""
CONNECT_TIMEOUT_S = 10.0
"""One address of a host; an attempt's own timeout may end it earlier."""
KEEPALIVE_S = 1.0
"""Idle connections serve a burst, then go: a server that closes an old one just as it is used would cost the run an
attempt."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Read of an answer; beyond it the connection is closed. That is far more than is kept of it: a target that writes its
progress while it works must not be cut off by it."""
RESOLVE_CACHE_S = 10


class _Disconnected(aiohttp.ClientError):
    """The connection broke after the request may have been sent."""


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """aiohttp silently repeats a GET, PUT or DELETE whose connection broke; here no attempt may reach its target
    twice."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        raise _Disconnected from error


@dataclass(kw_only=True, slots=True)
class _Answer:
    """What is known so far: it outlives a timeout."""

    status: int | None = None
    failure: str | None = None
    """Why the status is not a success."""
    retry_after_s: float | None = None

    def outcome(self, kind: OutcomeKind, detail: str | None) -> Outcome:
        return Outcome(kind=kind, status=self.status, detail=detail, retry_after_s=self.retry_after_s)


class HttpExecutor:
    """Runs http targets. Implements executor.interface.Executor; made outside or inside a loop, used in one."""

    def __init__(self, *, allow_link_local: bool = False, resolver: AbstractResolver | None = None) -> None:
        self._allow_link_local = allow_link_local
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        try:
            call = build_call(assignment)
        except (ValueError, KeyError) as error:
            return Outcome(kind=OutcomeKind.FAILED, detail=one_line(f"the target is not valid: {error}"))
        async with self._places:
            return await self._attempt(call, assignment.timeout_s, output)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _attempt(self, call: HttpCall, timeout_s: float, output: OutputSink) -> Outcome:
        answer = _Answer()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self._exchange(call, answer, output)
        # The contract is to never raise on what a target does; a library's surprise is a failed attempt, not a dead
        # node.
        except Exception as error:
            if limit.expired():
                part = "no answer" if answer.status is None else "the answer was not complete"
                return answer.outcome(OutcomeKind.TIMED_OUT, f"{part} within {timeout_s:g} s")
            return answer.outcome(OutcomeKind.FAILED, describe_error(error))
        kind = OutcomeKind.SUCCEEDED if answer.failure is None else OutcomeKind.FAILED
        return answer.outcome(kind, answer.failure)

    async def _exchange(self, call: HttpCall, answer: _Answer, output: OutputSink) -> None:
        async with self._open_session().request(
            call.method,
            call.url,
            data=call.body,
            headers=call.headers,
            ssl=call.verify_tls,
            allow_redirects=False,
            middlewares=(_send_once,),
        ) as response:
            answer.status = response.status
            answer.failure = None if response.status in call.success else describe_status(response)
            answer.retry_after_s = retry_after_s(response.status, response.headers)
            await _hand_on(response, output)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX,
                keepalive_timeout=KEEPALIVE_S,
                ttl_dns_cache=RESOLVE_CACHE_S,
                resolver=self._resolver or aiohttp.ThreadedResolver(),
                socket_factory=None if self._allow_link_local else guarded_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                trust_env=False,
                auto_decompress=False,
            )
        return self._session


async def _hand_on(response: aiohttp.ClientResponse, output: OutputSink) -> None:
    """Read the answer to its end, or to ANSWER_BYTES_MAX."""
    received = 0
    async for chunk in response.content.iter_any():
        received += len(chunk)
        output.write(chunk)
        if received > ANSWER_BYTES_MAX:
            response.close()
            return
