"""Serving an application on a socket. Even what is no HTTP at all is answered with a problem document, since whoever
sent it may be a program of ours behind a broken proxy; and it costs the log one short line, never a traceback."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from httpapi.fields import shorten
from httpapi.middleware import harden_headers
from httpapi.problem import ExpectationFailed, Unexpected, problem_response
from node.interface import Malformed

BACKLOG = 1024

logger = logging.getLogger("horae.http")


class ProblemHandler(web.RequestHandler):
    """One connection. Everything that aiohttp would answer by itself leaves as problem+json."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what could not be parsed (400), and to what went wrong outside of every middleware."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun; another one cannot follow")
        response = _not_http(request, exc, message) if status == 400 else _broken(request, exc)
        response.force_close()
        harden_headers(response)
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(resp, web.HTTPExpectationFailed):  # raised before any middleware is called
            refusal = ExpectationFailed(f"{ExpectationFailed.__doc__} Leave the Expect header out.")
            resp = problem_response(refusal, method=request.method)
            resp.force_close()  # whether a body follows is for the client to decide
            harden_headers(resp)
        return await super().finish_response(request, resp, start_time)


def _not_http(request: web.BaseRequest, fault: BaseException | None, message: str | None) -> web.Response:
    said = " ".join(str(message or fault).split()).encode("ascii", "backslashreplace").decode()
    what = f"{type(fault).__name__}: {shorten(said)}"
    logger.info("refused what %s sent: it is not HTTP: %s", request.remote, what)
    return problem_response(Malformed(f"This is not an HTTP request that can be read. {what}"), method=request.method)


def _broken(request: web.BaseRequest, fault: BaseException | None) -> web.Response:
    occurrence = secrets.token_hex(8)
    logger.error("request failed before it was routed: id=%s", occurrence, exc_info=fault)
    error = Unexpected(f"{Unexpected.__doc__} Id: {occurrence}")
    return problem_response(error, method=request.method, instance=f"urn:horae:occurrence:{occurrence}")


@asynccontextmanager
async def serving(app: web.Application, listening: socket.socket, *, close_s: float) -> AsyncIterator[None]:
    """Answer requests on that socket, which it takes over. At the end requests under way get `close_s` seconds."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=close_s)
    await runner.setup()
    loop = asyncio.get_running_loop()
    manager: Any = runner.server
    no_log: Any = None  # the middleware logs requests; aiohttp's types know no connection without a log
    try:
        server = await loop.create_server(
            lambda: ProblemHandler(manager, loop=loop, access_log=no_log), sock=listening, backlog=BACKLOG
        )
        try:
            yield
        finally:
            server.close()  # no new connections; those that are open are the runner's to end
    finally:
        await runner.cleanup()
