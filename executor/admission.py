"""Whether a target can be run at all, said when a job is created rather than at two in the morning.

The same rules hold again when an attempt is made; here they become messages for the fields of a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from yarl import URL

from executor.admission_processes import check_command, check_container
from executor.http_call import METHODS, header_fault
from executor.http_signature import HEADER_PREFIX, signing_key
from executor.http_url import url_fault
from executor.success_codes import parse_success_codes

KINDS = ("http", "container", "command", "noop")
URL_CHARS_MAX = 2048
HEADERS_MAX = 64
HEADER_VALUE_CHARS_MAX = 4096
BODY_BYTES_MAX = 64 * 1024
HEARTBEAT_S_MIN, HEARTBEAT_S_MAX = 5.0, 24 * 3600.0
"""Shorter, and an election would look like a target that has died. Left out, only timeout_s bounds the attempt."""

Fault = tuple[str, str]
"""Path as in the request ('target.url'), and what is wrong with it."""


def check_target(target: Mapping[str, Any], *, allow_link_local: bool = False) -> list[Fault]:
    """The faults of a target given as plain values with its `type`; empty when it can be run. Pure; looks no name
    up, and does not ask whether any node runs such a kind."""
    match target.get("type"):
        case "http":
            return list(_check_http(target, allow_link_local))
        case "container":
            return list(check_container(target))
        case "command":
            return list(check_command(target))
        case "noop":
            return []
        case _:
            return [("target.type", f"must be one of {', '.join(KINDS)}")]


def _check_http(target: Mapping[str, Any], allow_link_local: bool) -> Iterator[Fault]:
    headers = target.get("headers") or {}
    yield from _check_url(target.get("url"), headers, allow_link_local)
    if str(target.get("method", "POST")).upper() not in METHODS:
        yield "target.method", f"must be one of {', '.join(METHODS)}"
    yield from _check_headers(headers)
    yield from _check_signing(target.get("signing_secret"), headers)
    body = target.get("body")
    if body is not None and len(body.encode()) > BODY_BYTES_MAX:
        yield "target.body", f"is longer than {BODY_BYTES_MAX} bytes"
    heartbeat_s = target.get("heartbeat_s")
    if heartbeat_s is not None and not HEARTBEAT_S_MIN <= heartbeat_s <= HEARTBEAT_S_MAX:
        yield "target.heartbeat_s", f"must be from {HEARTBEAT_S_MIN:g} to {HEARTBEAT_S_MAX:g}, or left out"
    try:
        parse_success_codes(target.get("success_codes", "2xx"))
    except ValueError as error:
        yield "target.success_codes", str(error)


def _check_url(text: Any, headers: Mapping[str, str], allow_link_local: bool) -> Iterator[Fault]:
    if not isinstance(text, str) or not text:
        yield "target.url", "is missing; write an absolute URL such as https://example.com/hook"
        return
    if len(text) > URL_CHARS_MAX:
        yield "target.url", f"is longer than {URL_CHARS_MAX} characters"
        return
    fault = url_fault(text, allow_link_local)
    if fault is not None:
        yield "target.url", fault
    elif URL(text).raw_user is not None and any(name.lower() == "authorization" for name in headers):
        yield "target.url", "has credentials and there is an Authorization header too; keep one of them"


def _check_headers(headers: Mapping[str, str]) -> Iterator[Fault]:
    if len(headers) > HEADERS_MAX:
        yield "target.headers", f"has more than {HEADERS_MAX} headers"
        return
    seen: set[str] = set()
    for name, value in headers.items():
        path = f"target.headers.{name}"
        fault = header_fault(name, value)
        if fault is not None:
            yield path, fault
        elif len(value) > HEADER_VALUE_CHARS_MAX:
            yield path, f"is longer than {HEADER_VALUE_CHARS_MAX} characters"
        elif name.lower() in seen:
            yield path, "is there twice (header names ignore case)"
        seen.add(name.lower())


def _check_signing(secret: str | None, headers: Mapping[str, str]) -> Iterator[Fault]:
    if secret is None:
        return
    try:
        signing_key(secret)
    except ValueError as error:
        yield "target.signing_secret", str(error)
    for name in headers:
        if name.lower().startswith(HEADER_PREFIX):
            yield f"target.headers.{name}", "is set by Horae on targets with a signing_secret"
