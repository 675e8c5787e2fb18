"""One TCP connection to a peer: the handshake first, then sealed messages, until the first thing that is wrong.

Nothing is repaired here: a connection that misbehaves, overflows or falls silent is closed, and Raft sends again on the
next one.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from typing import Any, Protocol

from raftlog.auth import MAC_BYTES, AcceptorHandshake, DialerHandshake, Session
from raftlog.framed_socket import FramedSocket
from raftlog.wire import FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX, FrameTooLarge, pack, unpack

OUTGOING_BYTES_MAX = 16 * 1024 * 1024
"""What may wait for a slow peer; beyond it the connection is dropped: Raft repairs a gap, but not a full memory."""

Message = dict[str, Any]


class ConnectionOwner(Protocol):
    """Who is told what happens on a connection."""

    def established(self, connection: Connection) -> None:
        """The peer is proven."""

    def received(self, connection: Connection, message: Any) -> None:
        """An authentic message; raises WireError or MessageRefused to have the connection closed for it."""

    def closed(self, connection: Connection, reason: str, *, refused: bool) -> None:
        """Told exactly once. `refused`: something came that no honest peer sends."""


class Connection:
    """A connection being made, or established once `session` is set."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        handshake: DialerHandshake | AcceptorHandshake,
        owner: ConnectionOwner,
        clock: Callable[[], float],
        *,
        remote: str,
    ) -> None:
        self.session: Session | None = None
        self.opened_s = self.sent_s = self._heard_s = clock()
        self._handshake = handshake
        self._owner = owner
        self._clock = clock
        self._remote = remote
        self._socket = FramedSocket(
            sock,
            selector,
            self,
            frame_bytes_max=HANDSHAKE_FRAME_BYTES_MAX,
            outgoing_bytes_max=OUTGOING_BYTES_MAX,
            on_connected=self._say_hello if isinstance(handshake, DialerHandshake) else None,
        )

    @property
    def peer(self) -> str | None:
        """The proven peer; None before."""
        return self.session.peer if self.session else None

    @property
    def is_closed(self) -> bool:
        return self._socket.is_closed

    def dies_at_s(self, timeout_s: float) -> float:
        """When to give it up: the handshake as a whole must not take longer, later no silence."""
        return (self._heard_s if self.session else self.opened_s) + timeout_s

    @property
    def outgoing_bytes(self) -> int:
        return self._socket.outgoing_bytes

    def __str__(self) -> str:
        if isinstance(self._handshake, DialerHandshake):
            return f"to {self._handshake.peer} at {self._remote}"
        return f"from {self.peer or 'a stranger'} at {self._remote}"

    def send(self, message: Message) -> None:
        """Queue a message; `flush` puts it on its way. Closes the connection if too much waits already.
        Raises FrameTooLarge if the message can never be sent."""
        self._send_body(pack(message))

    def ping(self) -> None:
        """An empty authentic frame: shows the peer that we are alive."""
        self._send_body(b"")

    def flush(self) -> None:
        self._socket.flush()

    def close(self, reason: str, *, refused: bool = False) -> None:
        self._socket.close(reason, refused=refused)

    def bytes_received(self) -> None:
        self._heard_s = self._clock()

    def frame_received(self, content: bytes) -> None:
        if self.session is None:
            self._shake_hands(content)
        elif body := self.session.opener.open(content):
            self._owner.received(self, unpack(body))

    def socket_closed(self, reason: str, *, refused: bool) -> None:
        self._owner.closed(self, reason, refused=refused)

    def _say_hello(self) -> None:
        assert isinstance(self._handshake, DialerHandshake)
        self._socket.write(self._handshake.start())

    def _shake_hands(self, content: bytes) -> None:
        answer = self._handshake.receive(unpack(content))
        if answer is not None:
            self._socket.write(answer)
            self._socket.flush()
        if self._handshake.session is not None and not self.is_closed:
            self.session = self._handshake.session
            self._socket.raise_frame_limit(FRAME_BYTES_MAX)
            self._owner.established(self)

    def _send_body(self, body: bytes) -> None:
        assert self.session is not None, "only a proven peer is sent anything"
        if len(body) > FRAME_BYTES_MAX - MAC_BYTES:  # before sealing: the seal uses up a frame's number
            raise FrameTooLarge(f"a message of {len(body)} bytes; the limit is {FRAME_BYTES_MAX - MAC_BYTES}")
        self.sent_s = self._clock()
        self._socket.write(self.session.sealer.seal(body))
