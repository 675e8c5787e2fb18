"""The http target: one request an attempt, its answer bounded and handed on as it arrives, its end certain.

One attempt sends at most one request to its target: a repeat is the scheduler's decision, with a new attempt number.
Redirects are followed only if the job says so; nothing keeps a cookie or reads a proxy from the environment: what is
called is what the job says.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver

from executor.egress import guarded_socket
from executor.http_call import HttpCall, build_call, is_accepted
from executor.http_detail import describe_error, describe_status, retry_after_s
from executor.http_redirect import REDIRECTS_MAX, STATUSES, RedirectRefused, redirected
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
    is_accepted: bool = False
    """The target said that it works on, and completes the attempt itself. From then on only the timeout is against it:
    it must not be called again because the rest of its answer got lost."""

    def verdict(self) -> OutcomeKind:
        """Of an answer that is complete."""
        if self.failure is not None:
            return OutcomeKind.FAILED
        return OutcomeKind.ACCEPTED if self.is_accepted else OutcomeKind.SUCCEEDED

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
        ahead_s = assignment.started_ms / 1000 - asyncio.get_running_loop().time()
        async with self._places:
            return await self._attempt(call, assignment.timeout_s, ahead_s, output)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _attempt(self, call: HttpCall, timeout_s: float, ahead_s: float, output: OutputSink) -> Outcome:
        answer = _Answer()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self._exchange(call, ahead_s, answer, output)
        # The contract is to never raise on what a target does; a library's surprise is a failed attempt, not a dead
        # node.
        except Exception as error:
            if limit.expired():
                part = "no answer" if answer.status is None else "the answer was not complete"
                return answer.outcome(OutcomeKind.TIMED_OUT, f"{part} within {timeout_s:g} s")
            if answer.is_accepted:
                return answer.outcome(OutcomeKind.ACCEPTED, None)
            return answer.outcome(OutcomeKind.FAILED, describe_error(error))
        return answer.outcome(answer.verdict(), answer.failure)

    async def _exchange(self, call: HttpCall, ahead_s: float, answer: _Answer, output: OutputSink) -> None:
        """Requests until one is answered by something else than a redirect. `ahead_s`: how far the node's wall clock is
        ahead of the loop's."""
        for _ in range(1 + REDIRECTS_MAX):
            async with self._request(call, ahead_s) as response:
                answer.status = response.status
                if not _is_to_be_followed(call, response):
                    await self._judge(call, response, answer, output)
                    return
                call = redirected(call, response.status, response.headers, allow_link_local=self._allow_link_local)
        raise RedirectRefused(f"redirected more than {REDIRECTS_MAX} times")

    def _request(self, call: HttpCall, ahead_s: float) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._open_session().request(
            call.method,
            call.url,
            data=call.body,
            headers=call.headers_at(asyncio.get_running_loop().time() + ahead_s),
            ssl=call.verify_tls,
            allow_redirects=False,
            middlewares=(_send_once,),
        )

    async def _judge(
        self, call: HttpCall, response: aiohttp.ClientResponse, answer: _Answer, output: OutputSink
    ) -> None:
        answer.failure = None if response.status in call.success else describe_status(response)
        answer.is_accepted = answer.failure is None and is_accepted(response.status, response.headers)
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


def _is_to_be_followed(call: HttpCall, response: aiohttp.ClientResponse) -> bool:
    if not call.follow_redirects or response.status in call.success:
        return False
    return response.status in STATUSES and "Location" in response.headers


async def _hand_on(response: aiohttp.ClientResponse, output: OutputSink) -> None:
    """Read the answer to its end, or to ANSWER_BYTES_MAX."""
    received = 0
    async for chunk in response.content.iter_any():
        received += len(chunk)
        output.write(chunk)
        if received > ANSWER_BYTES_MAX:
            response.close()
            return
