"""What keeps a web page in somebody's browser away from an API that asks no password.

A node on loopback is reachable from every page that its owner opens. Two rules close that: the Host header must be a
loopback name (a page that re-binds its own name to 127.0.0.1 still sends its own name), and a write that a browser
attributes to another origin is refused. Programs send no Origin and are not touched.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from aiohttp import web

from httpapi.problem import SAFE_METHODS, Forbidden


class Guard:
    """Judges requests to a node that listens on `address` ('host:port')."""

    def __init__(self, address: str) -> None:
        self._own_host = _host_of(address)
        self._loopback_only = _is_loopback(self._own_host)

    def check(self, request: web.Request) -> None:
        """Raises Forbidden for what only a foreign web page would send."""
        host = request.headers.get("Host")
        if self._loopback_only and host is not None and not self._is_own(_host_of(host)):
            raise Forbidden(
                "The Host header names neither this node's address nor a loopback one. "
                "Through a proxy, have it send the node's own address as Host."
            )
        origin = request.headers.get("Origin")
        if origin is not None and request.method not in SAFE_METHODS and not _same_origin(origin, host):
            raise Forbidden("Writes from web pages of another origin are refused.")

    def _is_own(self, host: str) -> bool:
        return host == self._own_host or _is_loopback(host)


def _same_origin(origin: str, host: str | None) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == (host or "").lower() != ""
    except ValueError:
        return False


def _host_of(address: str) -> str:
    """The host of 'host', 'host:port', '[v6]' or '[v6]:port'; '' when it is none of these."""
    try:
        return urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
