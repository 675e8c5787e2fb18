"""URLs of targets: what is wrong with one, and how it is shown to a person."""

from __future__ import annotations

import re

from yarl import URL

from executor.egress import literal_address, refusal

_HOST = re.compile(r"(?=.{1,254}\Z)([^.:%\[\]]{1,63}\.)*[^.:%\[\]]{1,63}\.?")
"""What a resolver can be asked for, in ASCII; which names there are is its business."""


def url_fault(text: str, allow_link_local: bool) -> str | None:
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


def plain_url(url: URL) -> str:
    """Without what may be secret: user part, query, fragment."""
    return str(URL.build(scheme=url.scheme, host=url.host or "", port=url.explicit_port, path=url.path))
