"""Where a redirect leads, decided without a socket: the next request, or why there is none.

The rules are those of browsers and curl (RFC 9110, 15.4; Fetch, 4.4), but stricter where a secret could leave: what the
job says for its own host stays there, and no step leads from https to http. The address of each host is judged when its
socket is made (egress.py), as that of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from multidict import CIMultiDict
from yarl import URL

from executor.http_call import DEFAULT_HEADERS, HttpCall
from executor.http_url import plain_url, url_fault

REDIRECTS_MAX = 5
"""Of one attempt; more are a loop, or a target that should be told its address."""
STATUSES = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language"})


class RedirectRefused(Exception):
    """A redirect that is not followed; the message says why, without a secret."""


def redirected(call: HttpCall, status: int, headers: Mapping[str, str], *, allow_link_local: bool) -> HttpCall:
    """The request that the redirect asks for. Raises RedirectRefused."""
    url = _next_url(call.url, headers.get("Location", ""), allow_link_local)
    if url.origin() != call.url.origin():
        call = _for_another_host(call)
    if _becomes_get(status, call.method):
        call = _without_body(call)
    return replace(call, url=url)


def _next_url(base: URL, location: str, allow_link_local: bool) -> URL:
    try:
        url = base.join(URL(location)).with_user(None).with_fragment(None)
        fault = url_fault(str(url), allow_link_local)
    except ValueError:
        raise RedirectRefused("redirected to an invalid address") from None
    if fault is not None:
        raise RedirectRefused(f"redirected to an address that cannot be called: it {fault}")
    if base.scheme == "https" and url.scheme == "http":
        raise RedirectRefused(f"redirected to {plain_url(url)}, from https to http: that is not followed")
    return url


def _for_another_host(call: HttpCall) -> HttpCall:
    """Nothing that could be a credential goes to a host that the job does not name, not even on a way back from it."""
    headers = CIMultiDict(DEFAULT_HEADERS)
    headers.update((name, value) for name, value in call.headers.items() if name.lower() not in call.private)
    return replace(call, headers=headers, signing_key=None)


def _becomes_get(status: int, method: str) -> bool:
    """303 says that the result is to be fetched from there; of 301 and 302 after a POST everybody makes a GET."""
    if status in _KEEPS_METHOD:
        return False
    return method == "POST" if status != 303 else method not in ("GET", "HEAD")


def _without_body(call: HttpCall) -> HttpCall:
    headers = CIMultiDict((name, value) for name, value in call.headers.items() if name.lower() not in _BODY_HEADERS)
    return replace(call, method="GET", headers=headers, body=None)
