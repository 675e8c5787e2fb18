"""`host:port` of a peer, and turning a host's name into an address without stopping the loop."""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from typing import NamedTuple


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Target(NamedTuple):
    """Where a socket connects to."""

    family: int
    address: tuple[str, int]


class Resolved(NamedTuple):
    """What became of a peer's name: its targets in order of preference, or why there are none."""

    peer: str
    targets: tuple[Target, ...]
    failure: str = ""


def stream_socket(family: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    prepare(sock)
    return sock


def prepare(sock: socket.socket) -> None:
    """Never wait in a call, and never let a small message wait for a larger one."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def parse_address(text: str) -> Address:
    """'10.0.0.1:7101', 'node-1.example:7101' or '[::1]:7101'. Raises ValueError with the reason."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not int(port) < 65536:
        raise ValueError(f"{text!r} is no address; write host:port")
    return Address(host, int(port))


def numeric_target(address: Address) -> Target | None:
    """The target if the host is an address already, None if it is a name."""
    try:
        version = ipaddress.ip_address(address.host).version
    except ValueError:
        return None
    return Target(socket.AF_INET if version == 4 else socket.AF_INET6, (address.host, address.port))


class Resolver:
    """Looks names up in threads of its own (a name server that is silent must not stop heartbeats); `wakeup` becomes
    readable when results wait. The caller has at most one request a peer under way, so threads are bounded too."""

    def __init__(self) -> None:
        self._results: queue.SimpleQueue[Resolved] = queue.SimpleQueue()
        self.wakeup, self._signal = socket.socketpair()
        self.wakeup.setblocking(False)
        self._signal.setblocking(False)

    def request(self, peer: str, address: Address) -> None:
        threading.Thread(target=self._look_up, args=(peer, address), daemon=True, name=f"resolve-{peer}").start()

    def take(self) -> list[Resolved]:
        """The results that have come in; clears `wakeup`."""
        try:
            self.wakeup.recv(4096)
        except OSError:  # nothing to clear, or closed meanwhile
            return []
        return [self._results.get_nowait() for _ in range(self._results.qsize())]

    def close(self) -> None:
        self.wakeup.close()
        self._signal.close()

    def _look_up(self, peer: str, address: Address) -> None:
        self._results.put(_look_up(peer, address))
        try:
            self._signal.send(b"\0")
        except OSError:  # closed meanwhile, or a wake-up is pending already
            return


def _look_up(peer: str, address: Address) -> Resolved:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Resolved(peer, (), f"no address for {address.host!r}: {error}")
    return Resolved(peer, tuple(Target(family, (str(to[0]), int(to[1]))) for family, _, _, _, to in found))
