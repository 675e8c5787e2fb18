"""Whether a target can be run at all, said when a job is created rather than at two in the morning.

The same rules hold again when an attempt is made; here they become messages for the fields of a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from yarl import URL

from executor.admission_processes import check_command, check_container
from executor.egress import literal_address, refusal
from executor.http_call import METHODS, header_fault
from executor.success_codes import parse_success_codes

KINDS = ("http", "container", "command", "noop")
URL_CHARS_MAX = 2048
HEADERS_MAX = 64
HEADER_VALUE_CHARS_MAX = 4096
BODY_BYTES_MAX = 64 * 1024

_HOST = re.compile(r"(?=.{1,254}\Z)([^.:%\[\]]{1,63}\.)*[^.:%\[\]]{1,63}\.?")
"""What a resolver can be asked for, in ASCII; which names there are is its business."""

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
    body = target.get("body")
    if body is not None and len(body.encode()) > BODY_BYTES_MAX:
        yield "target.body", f"is longer than {BODY_BYTES_MAX} bytes"
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
    fault = _url_fault(text, allow_link_local)
    if fault is not None:
        yield "target.url", fault
    elif URL(text).raw_user is not None and any(name.lower() == "authorization" for name in headers):
        yield "target.url", "has credentials and there is an Authorization header too; keep one of them"


def _url_fault(text: str, allow_link_local: bool) -> str | None:
    if any(character <= " " or character == "\x7f" for character in text):
        return "has a space or control character; percent-encode it"
    try:
        url = URL(text)
        host = url.raw_host
    except ValueError:
        return "is not a valid URL"
    if url.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not host or not url.port:
        return "names no host; write an absolute URL such as https://example.com/hook"
    address = literal_address(host.removesuffix("."))  # with the dot that ends a full name it would not be called
    if address is not None:
        return _address_fault(host, address, allow_link_local)
    return None if _HOST.fullmatch(host) else "names a host that cannot exist; its labels have 1 to 63 characters"


def _address_fault(host: str, address: str, allow_link_local: bool) -> str | None:
    refused = None if allow_link_local else refusal(address)
    if refused is None and ":" not in host and host != address:
        return f"spells an address in an unusual way; write {address}"
    return refused


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
