"""What surrounds every request: the guard, the limit on requests at once, the access log, and the one place where
exceptions become problem documents."""

from __future__ import annotations

import asyncio
import logging
import secrets

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_exceptions import HTTPException

from httpapi.guard import Guard
from httpapi.problem import SAFE_METHODS, MethodNotAllowed, NoSuchPath, Unexpected, problem_response
from node.interface import HoraeError, Malformed, Overloaded

REQUESTS_MAX = 2_048
"""Requests that are worked on at once; the next one is told to come back (429). Probes and metrics are not counted."""
WRITES_MAX = 256
"""Of these, requests that change something: what one group commit takes from a node in a fifth of a second. More at
once would only wait, and the node's own loops with them."""
REFUSAL_WAIT_S = 0.2
"""How long a refusal takes: who asks again at once, whatever Retry-After says, would cost this node more than the work
that it refuses."""
UNCOUNTED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

logger = logging.getLogger("horae.http")
access_logger = logging.getLogger("horae.http.access")


def problems() -> Middleware:
    """Every exception leaves as problem+json; what nobody expected is logged under an id that the answer repeats."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except HoraeError as error:
            return problem_response(error, method=request.method)
        except HTTPException as refusal:
            return _from_aiohttp(request, refusal)
        except (HttpProcessingError, web.RequestPayloadError) as fault:
            # A body that does not unpack, or whose sender has gone; the latter nobody will read.
            return problem_response(Malformed(f"The body cannot be read: {fault}"), method=request.method)
        except Exception as fault:
            return _unexpected(request, fault)

    return middleware


def _from_aiohttp(request: web.Request, refusal: HTTPException) -> web.StreamResponse:
    if isinstance(refusal, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(refusal.allowed_methods))
        error: HoraeError = MethodNotAllowed(f"{request.path} knows {allowed}, not {refusal.method}.")
        return problem_response(error, method=request.method, headers={"Allow": allowed})
    if isinstance(refusal, web.HTTPNotFound):
        return problem_response(NoSuchPath(f"There is nothing at {request.path}."), method=request.method)
    return _unexpected(request, refusal)


def _unexpected(request: web.Request, fault: BaseException) -> web.Response:
    occurrence = secrets.token_hex(8)
    logger.error("request failed: %s %s id=%s", request.method, request.path, occurrence, exc_info=fault)
    error = Unexpected(f"{Unexpected.__doc__} Id: {occurrence}")
    return problem_response(error, method=request.method, instance=f"urn:horae:occurrence:{occurrence}")


def guarded(guard: Guard) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        guard.check(request)
        return await handler(request)

    return middleware


def bounded(requests_max: int = REQUESTS_MAX, writes_max: int = WRITES_MAX) -> Middleware:
    """At most `requests_max` requests at once, `writes_max` of them writes; a clear 429 beyond, before anything of the
    body is read, rather than ever longer waits for everybody."""
    running = writing = 0

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal running, writing
        if request.path in UNCOUNTED_PATHS:
            return await handler(request)
        writes = request.method not in SAFE_METHODS
        if running >= requests_max or (writes and writing >= writes_max):
            await asyncio.sleep(REFUSAL_WAIT_S)
            raise Overloaded
        running += 1
        writing += writes
        try:
            return await handler(request)
        finally:
            running -= 1
            writing -= writes

    return middleware


def logged() -> Middleware:
    """One record a request, with its values as fields (`extra`), for the log's formatter to lay out."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        response = await handler(request)
        fields = {
            "method": request.method,
            "path": request.path,
            "status": response.status,
            "duration_ms": round((loop.time() - began_s) * 1000, 1),
            "remote": request.remote,
        }
        access_logger.info(" ".join(f"{name}={value}" for name, value in fields.items()), extra=fields)
        return response

    return middleware


async def harden(request: web.Request, response: web.StreamResponse) -> None:
    """The signal of an answer that is about to leave."""
    harden_headers(response)


def harden_headers(response: web.StreamResponse) -> None:
    """Headers of every answer: nothing is cached, nothing is sniffed into a page, no versions are given away."""
    response.headers["Server"] = "horae"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers.setdefault("Cache-Control", "no-store")
