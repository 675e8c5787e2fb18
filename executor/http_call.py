"""One HTTP attempt as plain values: what is sent, decided without a socket.

The headers with which a target deduplicates are Horae's alone: a job's own headers can neither replace nor add to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDict

from executor.interface import Assignment
from executor.success_codes import parse_success_codes

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""A body means little to these, so the default one is left out unless there are args to tell."""
RESERVED_PREFIX = "horae-"
IDEMPOTENCY_KEY = "idempotency-key"
FRAMING_HEADERS = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""They belong to the connection; a wrong one would let one request smuggle another."""
USER_AGENT = "Horae"
NO_ARGS = b"null"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpCall:
    """A request ready to be sent, and how its answer is judged."""

    method: str
    url: str
    headers: CIMultiDict[str]
    body: bytes | None
    success: frozenset[int]
    verify_tls: bool


def build_call(assignment: Assignment) -> HttpCall:
    """The request of this attempt. Raises ValueError (in words for a person) or KeyError if the target is not a
    valid http target."""
    target = assignment.target
    method = str(target.get("method", "POST")).upper()
    body, content_type = _body(method, target.get("body"), assignment.args)
    return HttpCall(
        method=method,
        url=target["url"],
        headers=_headers(assignment, target.get("headers") or {}, content_type),
        body=body,
        success=parse_success_codes(target.get("success_codes", "2xx")),
        verify_tls=bool(target.get("verify_tls", True)),
    )


def header_fault(name: str, value: str) -> str | None:
    """Why a job may not send this header; None when it may."""
    if not _TOKEN.fullmatch(name):
        return "is not a valid header name"
    if name.lower().startswith(RESERVED_PREFIX) or name.lower() == IDEMPOTENCY_KEY:
        return "is set by Horae on every attempt and cannot be overridden"
    if name.lower() in FRAMING_HEADERS:
        return "belongs to the connection and cannot be set by a job"
    if _CONTROL.search(value):
        return "has a line break or control character in its value"
    return None


def _body(method: str, body: str | None, args: bytes) -> tuple[bytes | None, str | None]:
    if body is not None:
        return body.encode(), "text/plain; charset=utf-8"
    if method in METHODS_WITHOUT_BODY and args == NO_ARGS:
        return None, None
    return args, "application/json"


def _headers(assignment: Assignment, own: Mapping[str, Any], content_type: str | None) -> CIMultiDict[str]:
    # Accept-Encoding: what is kept as the run's log must be readable, and a small answer must not unpack into a huge
    # one.
    headers = CIMultiDict({"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity"})
    if content_type is not None:
        headers["Content-Type"] = content_type
    for name, value in own.items():
        fault = header_fault(name, value)
        if fault is not None:
            raise ValueError(f"header {name!r} {fault}")
        headers[name] = value
    headers["Horae-Run-Id"] = assignment.run_id
    headers["Horae-Job-Id"] = assignment.job_id
    headers["Horae-Attempt"] = str(assignment.attempt)
    headers["Horae-Due-At"] = assignment.due_at
    headers["Horae-Fence-Token"] = str(assignment.fence_token)
    headers["Idempotency-Key"] = assignment.run_id
    return headers
