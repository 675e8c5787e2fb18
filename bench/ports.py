"""Ports on loopback that stay ours while a node is down.

A killed node frees its ports, and whoever looks for free ones at that moment finds them: an outgoing connection, or
another bench on this machine. So they come from below the ephemeral range, in blocks that are reserved among the
benches.
"""

from __future__ import annotations

import secrets
import socket

PORT_FIRST, PORT_LAST = 20_000, 32_000
BLOCK = 16


class PortBlock:
    """Free ports, reserved until `release()` or the end of the process."""

    def __init__(self, count: int) -> None:
        """Raises OSError when no block has `count` (at most BLOCK) free ports."""
        if count > BLOCK:
            raise ValueError(f"{count} ports; a block has {BLOCK}")
        blocks = range(PORT_FIRST, PORT_LAST, BLOCK)
        start = secrets.randbelow(len(blocks))
        for first in (*blocks[start:], *blocks[:start]):
            reservation = _reserve(first)
            if reservation is None:
                continue
            self.ports = [port for port in range(first, first + BLOCK) if _is_free(port)][:count]
            self._reservation = reservation
            if len(self.ports) == count:
                return
            self.release()
        raise OSError(f"no block with {count} free ports between {PORT_FIRST} and {PORT_LAST}")

    def release(self) -> None:
        self._reservation.close()


def _reserve(first: int) -> socket.socket | None:
    """A name in the abstract namespace is a lock that needs no file and ends with its process."""
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0horae-bench-ports-{first}")
    except OSError:
        reservation.close()
        return None
    return reservation


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
