"""The log process' side of the local socket: one client, the node process. When it goes, the log process ends."""

from __future__ import annotations

import logging
import os
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from raftlog.framed_socket import FramedSocket
from raftlog.service import LogNode, LogService
from raftlog.unix_socket import short_address
from raftlog.wire import LOCAL_FRAME_BYTES_MAX

logger = logging.getLogger(__name__)

CLIENT_WAIT_S: Final = 30.0
"""A log process that nobody connects to ends after this time: its node process died in between."""
OUTGOING_BYTES_MAX: Final = 128 * 1024 * 1024
"""What may wait for a node process that is stopped or busy; beyond it the node ends, since it cannot keep up."""


class LogServer(LogService):
    """Takes the node process' requests in (the selector's callbacks) and hands out what a step gave (`deliver`).

    Raises OSError if the socket cannot be made."""

    def __init__(
        self, path: Path, *, node: LogNode, selector: selectors.BaseSelector, clock: Callable[[], float]
    ) -> None:
        self.finished: str | None = None
        """Why the log process is to end; None while it is to run."""
        super().__init__(node=node, clock=clock)
        self._path = path
        self._selector = selector
        self._give_up_s = clock() + CLIENT_WAIT_S
        self._client: FramedSocket | None = None
        self._listener = _listener(path)
        selector.register(self._listener, selectors.EVENT_READ, self._on_accept)

    # --- the driver's side -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        if self._client is None and self.finished is None and self._clock() >= self._give_up_s:
            self.finished = f"no node process connected within {CLIENT_WAIT_S:g} s"

    def next_turn_s(self) -> float:
        return self._give_up_s if self._client is None else float("inf")

    def close(self) -> None:
        """Give up the socket; its file goes too."""
        if self._client is not None:
            self._client.close("the log process ends")
        self._selector.unregister(self._listener)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    # --- the client's side -------------------------------------------------------------------------------------------

    def _on_accept(self, mask: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            logger.warning("cannot accept on %s: %s", self._path, error.strerror)
            return
        if self._client is not None or self.finished:
            logger.warning("a second client of %s was refused: it belongs to one node process", self._path)
            sock.close()
            return
        sock.setblocking(False)
        self._client = FramedSocket(
            sock,
            self._selector,
            self,
            frame_bytes_max=LOCAL_FRAME_BYTES_MAX,
            outgoing_bytes_max=OUTGOING_BYTES_MAX,
        )
        self.attach(self._client)

    def bytes_received(self) -> None:
        """Silence of the node process means nothing: its socket closes with it."""

    def socket_closed(self, reason: str, *, refused: bool) -> None:
        self.finished = self.finished or f"the node process has gone: {reason}"


def _listener(path: Path) -> socket.socket:
    """A socket file left by a killed process is replaced: whoever holds the data directory's lock owns it."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        with short_address(path) as address:
            mask = os.umask(0o177)  # before there is a file that others could open
            try:
                sock.bind(address)
            finally:
                os.umask(mask)
        sock.listen(1)
    except OSError:
        sock.close()
        raise
    return sock
