"""Addresses that a job must not reach: link-local ones and the metadata services of clouds.

Whoever may create a job chooses a URL that THIS machine calls, so a metadata service would hand the machine's own
credentials to them. Private and loopback addresses stay allowed: most targets live there.
The check that counts happens when a socket is made (`guarded_socket`), on the address that is really used: whatever
a name resolved to before, and however the address was spelled (decimal, hex, octal, mapped into IPv6).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

LINK_LOCAL = (ipaddress.IPv4Network("169.254.0.0/16"), ipaddress.IPv6Network("fe80::/10"))
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure's wire server
        "192.0.0.192",  # Oracle, classic
        "fd00:ec2::254",  # AWS
        "fd20:ce::254",  # Google
    )
)
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(OSError):
    """The target's address is one that this node does not call."""


def refusal(address: str) -> str | None:
    """Why this node does not call `address` (an IP address in text, a zone index allowed); None when it may."""
    plain = ipaddress.ip_address(address.partition("%")[0])
    for candidate in (plain, *_embedded(plain)):
        if any(candidate in network for network in LINK_LOCAL):
            return f"{address} is link-local; this node does not call link-local addresses"
        if candidate in METADATA:
            return f"{address} is a cloud's metadata service; this node does not call those"
    return None


def _embedded(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that a router or the kernel may make of an IPv6 one."""
    if not isinstance(address, ipaddress.IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield address.teredo[1]
    if address in _IPV4_COMPATIBLE or any(address in network for network in _NAT64):
        yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)


def literal_address(host: str) -> str | None:
    """The address that `host` spells without any look-up, in whatever form the resolver would take; None for a name."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


def guarded_socket(address_info: tuple[Any, ...]) -> socket.socket:
    """A socket for one address of a name, as aiohttp's connector asks for it. Raises AddressRefused before anything
    is sent."""
    family, kind, protocol, _, address = address_info
    reason = refusal(address[0])
    if reason is not None:
        raise AddressRefused(reason)
    return socket.socket(family, kind, protocol)
