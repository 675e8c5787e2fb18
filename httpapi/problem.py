"""Errors on the wire: RFC 9457 problem details, and the refusals that only HTTP knows.

Everything that goes wrong leaves through `problem_response`, so that no client ever has to read prose or a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from node.interface import HoraeError

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
"""What a client is told to wait after 429 and 503: elections and queues move within a second."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing; a failure of any other one says whether it may have happened."""


class Forbidden(HoraeError):
    """This request may not be made from there."""

    status = 403


class NoSuchPath(HoraeError):
    """There is nothing at this path."""

    status = 404


class MethodNotAllowed(HoraeError):
    """This path does not know that method."""

    status = 405


class TooSlow(HoraeError):
    """The request's body did not arrive in time."""

    status = 408


class UnsupportedMediaType(HoraeError):
    """The body has a content type that is not read here."""

    status = 415


class ExpectationFailed(HoraeError):
    """What the Expect header asks for is not known here."""

    status = 417


class Unexpected(HoraeError):
    """Something went wrong inside this node; its log has the details under the id that is given."""

    status = 500
    definite = False


class PeerUnreachable(HoraeError):
    """The node that has what was asked for does not answer."""

    status = 502


def problem_type(error: HoraeError) -> str:
    """A stable name for programs: the error's class, as a URN."""
    return "urn:horae:error:" + re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()


def problem(error: HoraeError, *, write: bool, instance: str | None = None) -> dict[str, Any]:
    """The members of the problem document, always in this order."""
    members: dict[str, Any] = {
        "type": problem_type(error),
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": str(error),
    }
    if error.errors:
        members["errors"] = [{"path": field.path, "message": field.message} for field in error.errors]
    if write:
        members["outcome"] = "definite" if error.definite else "indefinite"
    if instance is not None:
        members["instance"] = instance
    return members


def problem_response(
    error: HoraeError, *, method: str, headers: Mapping[str, str] | None = None, instance: str | None = None
) -> web.Response:
    """The response to a failed request. `instance` names this one occurrence in the node's log."""
    body = problem(error, write=method not in SAFE_METHODS, instance=instance)
    response = web.Response(
        body=msgspec.json.encode(body), status=error.status, content_type=CONTENT_TYPE, headers=headers
    )
    if error.status in (429, 503):
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
