"""The port on which the peers are accepted."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable

from raftlog.addresses import Address, numeric_target, prepare, stream_socket
from raftlog.refusals import RefusalLog

LISTEN_BACKLOG = 64
ACCEPT_PAUSE_S = 0.5
"""After accept failed (as a rule: no file descriptors left), so that the loop does not spin."""


class Listener:
    """Hands each accepted socket, and the host that it comes from, to `accepted`.

    Raises OSError if the address is taken."""

    def __init__(
        self,
        listen: Address,
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
        refusals: RefusalLog,
        accepted: Callable[[socket.socket, str], None],
    ) -> None:
        self._selector = selector
        self._clock = clock
        self._refusals = refusals
        self._accepted = accepted
        self._resume_s: float | None = None
        """When to accept again; None while accepting."""
        self._sock = _bound(listen)
        self._watch()

    @property
    def port(self) -> int:
        """The port that is listened on (the one asked for, unless that was 0)."""
        port: int = self._sock.getsockname()[1]
        return port

    def turn(self, now_s: float) -> None:
        if self._resume_s is not None and now_s >= self._resume_s:
            self._resume_s = None
            self._watch()

    def next_turn_s(self) -> float:
        return float("inf") if self._resume_s is None else self._resume_s

    def close(self) -> None:
        if self._resume_s is None:
            self._selector.unregister(self._sock)
        self._sock.close()

    def _watch(self) -> None:
        self._selector.register(self._sock, selectors.EVENT_READ, self._on_ready)

    def _on_ready(self, mask: int) -> None:
        try:
            sock, remote = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._pause(error)
            return
        prepare(sock)
        self._accepted(sock, remote[0])

    def _pause(self, error: OSError) -> None:
        self._refusals.warning(f"cannot accept connections: {error.strerror}; again in {ACCEPT_PAUSE_S:g} s")
        self._selector.unregister(self._sock)
        self._resume_s = self._clock() + ACCEPT_PAUSE_S


def _bound(listen: Address) -> socket.socket:
    target = numeric_target(listen)
    sock = stream_socket(target.family if target else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(tuple(listen))
        sock.listen(LISTEN_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
