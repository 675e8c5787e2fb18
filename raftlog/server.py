"""The log process' side of the local socket: one client, the node process. When it goes, the log process ends."""

from __future__ import annotations

import logging
import os
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from raftlog import local_protocol as local
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.framed_socket import FramedSocket
from raftlog.interface import LogStatus, Proposal
from raftlog.ready import Ready
from raftlog.unix_socket import short_address
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, WireError, pack

logger = logging.getLogger(__name__)

CLIENT_WAIT_S: Final = 30.0
"""A log process that nobody connects to ends after this time: its node process died in between."""
STATUS_PERIOD_S: Final = 1.0
"""How old an index in the client's status may be; changes of role, leader, term and quorum are told at once."""
OUTGOING_BYTES_MAX: Final = 128 * 1024 * 1024
"""What may wait for a node process that is stopped or busy; beyond it the node ends, since it cannot keep up."""

SHAPES: Final[dict[str, tuple[type, ...]]] = {
    local.HELLO: (int,),
    local.PROPOSE: (int, int, list),
    local.CANCEL: (int,),
    local.BARRIER: (int,),
    local.TRANSFER: (str,),
    local.SUBSCRIBE: (str,),
}


class LogNode(Protocol):
    """What the local client asks of the Raft node."""

    @property
    def incarnation(self) -> int: ...

    @property
    def status(self) -> LogStatus: ...

    def propose(self, proposal: Proposal) -> None: ...

    def cancel(self, *, incarnation: int, seq: int) -> None: ...

    def barrier(self, barrier_id: int) -> None: ...

    def transfer(self, peer: str | None = None) -> None: ...


class LogServer:
    """Takes the node process' requests in (the selector's callbacks) and hands out what a step gave (`deliver`).

    Raises OSError if the socket cannot be made."""

    def __init__(
        self, path: Path, *, node: LogNode, selector: selectors.BaseSelector, clock: Callable[[], float]
    ) -> None:
        self.finished: str | None = None
        """Why the log process is to end; None while it is to run."""
        self._path = path
        self._node = node
        self._selector = selector
        self._clock = clock
        self._give_up_s = clock() + CLIENT_WAIT_S
        self._client: FramedSocket | None = None
        self._greeted = False
        self._topics: set[str] = set()
        self._status = node.status
        self._status_sent_s = float("-inf")
        self._listener = _listener(path)
        selector.register(self._listener, selectors.EVENT_READ, self._on_accept)

    # --- the driver's side -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        if self._client is None and self.finished is None and self._clock() >= self._give_up_s:
            self.finished = f"no node process connected within {CLIENT_WAIT_S:g} s"

    def next_turn_s(self) -> float:
        return self._give_up_s if self._client is None else float("inf")

    def deliver(self, ready: Ready) -> None:
        """Hand out what is committed: the results, barriers, events and status of a step."""
        if self._client is None or not self._greeted:
            return
        for applied_index, topic, bodies in ready.events:
            if topic in self._topics:
                self._send(local.EVENTS, applied_index, topic, list(bodies))
        for incarnation, seq, replies in ready.results:
            if incarnation == self._node.incarnation:
                self._send(local.REPLY, seq, list(replies))
        for barrier_id, read_index in ready.barriers:
            self._send(local.BARRIER, barrier_id, read_index)
        self._tell_status(ready.status, at_once=ready.status_changed)
        self._client.flush()

    def close(self) -> None:
        """Give up the socket; its file goes too."""
        if self._client is not None:
            self._client.close("the log process ends")
        self._selector.unregister(self._listener)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _tell_status(self, status: LogStatus, *, at_once: bool) -> None:
        sampled = self._clock() - self._status_sent_s >= STATUS_PERIOD_S and status != self._status
        if at_once or sampled:
            self._status, self._status_sent_s = status, self._clock()
            self._send(local.STATUS, local.packable(status))

    def _send(self, *message: Any) -> None:
        if self._client is not None:
            self._client.write(pack(message))

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

    def bytes_received(self) -> None:
        """Silence of the node process means nothing: its socket closes with it."""

    def frame_received(self, content: bytes) -> None:
        kind, fields = local.parse(content, SHAPES)
        if (kind == local.HELLO) == self._greeted:
            raise WireError("a local client says hello once, and first")
        _HANDLERS[kind](self, *fields)

    def socket_closed(self, reason: str, *, refused: bool) -> None:
        self.finished = self.finished or f"the node process has gone: {reason}"

    def _hello(self, version: int) -> None:
        if version != local.VERSION:
            raise WireError(f"local protocol {version}; the log process speaks {local.VERSION}")
        self._greeted = True
        self._status, self._status_sent_s = self._node.status, self._clock()
        self._send(local.HELLO, local.VERSION, self._node.incarnation, local.packable(self._status))
        if self._client is not None:
            self._client.flush()

    def _propose(self, seq: int, acknowledged: int, commands: list[bytes]) -> None:
        if not all(type(command) is bytes for command in commands):
            raise WireError("a local propose message with commands that are not bytes")
        proposal = Proposal(
            node=self._status.node,
            incarnation=self._node.incarnation,
            seq=seq,
            acknowledged=acknowledged,
            commands=commands,
        )
        try:
            self._node.propose(proposal)
        except (CommandTooLarge, LogOverloaded) as error:
            self._send(local.REFUSED, seq, type(error).__name__, str(error))

    def _cancel(self, seq: int) -> None:
        self._node.cancel(incarnation=self._node.incarnation, seq=seq)

    def _barrier(self, barrier_id: int) -> None:
        try:
            self._node.barrier(barrier_id)
        except LogOverloaded:
            self._send(local.NO_BARRIER, barrier_id)

    def _transfer(self, to: str) -> None:
        self._node.transfer(to or None)

    def _subscribe(self, topic: str) -> None:
        self._topics.add(topic)


_HANDLERS: Final[dict[str, Callable[..., None]]] = {
    local.HELLO: LogServer._hello,
    local.PROPOSE: LogServer._propose,
    local.CANCEL: LogServer._cancel,
    local.BARRIER: LogServer._barrier,
    local.TRANSFER: LogServer._transfer,
    local.SUBSCRIBE: LogServer._subscribe,
}


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
