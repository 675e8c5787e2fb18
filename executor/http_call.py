"""One HTTP attempt as plain values: what is sent, decided without a socket.

The headers with which a target deduplicates are Horae's alone: a job's own headers can neither replace nor add to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import BasicAuth
from multidict import CIMultiDict
from yarl import URL

from executor.http_signature import signature_headers, signing_key
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
DEFAULT_HEADERS = {"User-Agent": "Horae", "Accept": "*/*", "Accept-Encoding": "identity"}
"""Not packed: what is kept as the run's log must be readable, and a small answer must not unpack into a huge one."""
PRIVATE_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "horae-callback-url"})
"""With a job's own headers, what a redirect does not take to another host. Where the API is, only the job's own need
know."""
ACCEPTED = 202
COMPLETION_HEADER = "Horae-Completion"
COMPLETES_LATER = "async"
NO_ARGS = b"null"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpCall:
    """A request ready to be sent, and how its answer is judged."""

    method: str
    url: URL
    """Without credentials: they are in the headers."""
    headers: CIMultiDict[str]
    private: frozenset[str]
    """Names of headers, in lower case, that no other host may see."""
    body: bytes | None
    success: frozenset[int]
    verify_tls: bool
    follow_redirects: bool
    signing_key: bytes | None
    run_id: str

    def headers_at(self, unix_s: float) -> CIMultiDict[str]:
        """All headers of a request that is sent now."""
        if self.signing_key is None:
            return self.headers
        signature = signature_headers(
            self.signing_key, message_id=self.run_id, timestamp_s=int(unix_s), body=self.body or b""
        )
        headers = self.headers.copy()
        headers.update(signature)
        return headers


def build_call(assignment: Assignment) -> HttpCall:
    """The request of this attempt. Raises ValueError (in words for a person) or KeyError if the target is not a
    valid http target."""
    target = assignment.target
    method = str(target.get("method", "POST")).upper()
    body, content_type = _body(method, target.get("body"), assignment.args)
    own: Mapping[str, str] = target.get("headers") or {}
    url, authorization = _url(target["url"], own)
    secret = target.get("signing_secret")
    headers = _headers(assignment, own, content_type)
    headers.update(authorization)
    return HttpCall(
        method=method,
        url=url,
        headers=headers,
        private=(frozenset(map(str.lower, own)) | PRIVATE_HEADERS) - {"content-type"},
        body=body,
        success=parse_success_codes(target.get("success_codes", "2xx")),
        verify_tls=bool(target.get("verify_tls", True)),
        follow_redirects=bool(target.get("follow_redirects", False)),
        signing_key=None if secret is None else signing_key(secret),
        run_id=assignment.run_id,
    )


def _url(text: str, own: Mapping[str, str]) -> tuple[URL, dict[str, str]]:
    """The URL, and its user part as a header: so that it goes where the URL says, and no further."""
    try:
        url = URL(text)
        login = BasicAuth.from_url(url, encoding="utf-8")
    except (ValueError, TypeError):
        raise ValueError("its url is not one") from None
    if login is None:
        return url, {}
    if any(name.lower() == "authorization" for name in own):
        raise ValueError("its url has credentials and there is an Authorization header too")
    return url.with_user(None), {"Authorization": login.encode()}


def is_accepted(status: int, headers: Mapping[str, str]) -> bool:
    """Whether the answer says that the target completes the attempt itself, later: 202 alone is an ordinary success."""
    return status == ACCEPTED and headers.get(COMPLETION_HEADER, "").strip().lower() == COMPLETES_LATER


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
    headers = CIMultiDict(DEFAULT_HEADERS)
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
    if assignment.callback_url is not None:
        headers["Horae-Callback-Url"] = assignment.callback_url
    return headers
