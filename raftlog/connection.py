"""One TCP connection to a peer: the handshake first, then sealed messages, until the first thing that is wrong.

Nothing is repaired here: a connection that misbehaves, overflows or falls silent is closed, and Raft sends again on the
next one. Once closed, it delivers nothing more, whatever its socket still holds.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from raftlog.auth import MAC_BYTES, AcceptorHandshake, DialerHandshake, Session
from raftlog.errors import MessageRefused
from raftlog.wire import (
    FRAME_BYTES_MAX,
    HANDSHAKE_FRAME_BYTES_MAX,
    FrameParser,
    FrameTooLarge,
    WireError,
    frame,
    pack,
    unpack,
)

OUTGOING_BYTES_MAX = 16 * 1024 * 1024
"""What may wait for a slow peer; beyond it the connection is dropped: Raft repairs a gap, but not a full memory."""
RECEIVE_BYTES = 256 * 1024
RECEIVES_MAX = 8
"""Reads a turn, so that one busy peer cannot keep the others waiting."""
BUFFERS_PER_WRITE = 64

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
    """Non-blocking; `on_ready` is the selector's data."""

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
        self.is_closed = False
        self.opened_s = self.heard_s = self.sent_s = clock()
        self._remote = remote
        self._sock = sock
        self._selector = selector
        self._handshake = handshake
        self._owner = owner
        self._clock = clock
        self._connecting = isinstance(handshake, DialerHandshake)
        self._parser = FrameParser(HANDSHAKE_FRAME_BYTES_MAX)
        self._outgoing: deque[bytes | memoryview] = deque()
        self._outgoing_bytes = 0
        self._interest = selectors.EVENT_WRITE if self._connecting else selectors.EVENT_READ
        selector.register(sock, self._interest, self.on_ready)

    @property
    def peer(self) -> str | None:
        """The proven peer; None before."""
        return self.session.peer if self.session else None

    def __str__(self) -> str:
        if isinstance(self._handshake, DialerHandshake):
            return f"to {self._handshake.peer} at {self._remote}"
        return f"from {self.peer or 'a stranger'} at {self._remote}"

    def on_ready(self, mask: int) -> None:
        if self._connecting and not self.is_closed:
            self._connected()
        elif mask & selectors.EVENT_READ and not self.is_closed:
            self._read()
        if mask & selectors.EVENT_WRITE and not self.is_closed:
            self.flush()

    def send(self, message: Message) -> None:
        """Queue a message; `flush` puts it on its way. Closes the connection if too much waits already.
        Raises FrameTooLarge if the message can never be sent."""
        self._send_body(pack(message))

    def ping(self) -> None:
        """An empty authentic frame: shows the peer that we are alive."""
        self._send_body(b"")

    def flush(self) -> None:
        """Write what the socket takes now; the rest follows when it is writable."""
        try:
            while self._outgoing:
                self._consume(self._sock.sendmsg(_first(self._outgoing)))
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.close(f"cannot send: {error.strerror}")
            return
        self._watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0))

    def close(self, reason: str, *, refused: bool = False) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._selector.unregister(self._sock)
        self._sock.close()
        self._outgoing.clear()
        self._owner.closed(self, reason, refused=refused)

    def _connected(self) -> None:
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self.close(f"cannot connect: {os.strerror(error)}")
            return
        assert isinstance(self._handshake, DialerHandshake)
        self._connecting = False
        self._queue(frame(self._handshake.start(), HANDSHAKE_FRAME_BYTES_MAX))
        self.flush()

    def _read(self) -> None:
        for _ in range(RECEIVES_MAX):
            try:
                data = self._sock.recv(RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(f"cannot receive: {error.strerror}")
                return
            if not data:
                self.close("closed by the peer")
                return
            self._fed(data)
            if self.is_closed or len(data) < RECEIVE_BYTES:
                return

    def _fed(self, data: bytes) -> None:
        self.heard_s = self._clock()
        self._parser.feed(data)
        try:
            while not self.is_closed and (content := self._parser.next_frame()) is not None:
                self._take(content)
        except (WireError, MessageRefused) as error:
            self.close(str(error), refused=True)

    def _take(self, content: bytes) -> None:
        if self.session is None:
            self._shake_hands(content)
        elif body := self.session.opener.open(content):
            self._owner.received(self, unpack(body))

    def _shake_hands(self, content: bytes) -> None:
        answer = self._handshake.receive(unpack(content))
        if answer is not None:
            self._queue(frame(answer, HANDSHAKE_FRAME_BYTES_MAX))
            self.flush()
        if self._handshake.session is not None and not self.is_closed:
            self.session = self._handshake.session
            self._parser.limit_bytes = FRAME_BYTES_MAX
            self._owner.established(self)

    def _send_body(self, body: bytes) -> None:
        assert self.session is not None, "only a proven peer is sent anything"
        if len(body) > FRAME_BYTES_MAX - MAC_BYTES:  # before sealing: the seal uses up a frame's number
            raise FrameTooLarge(f"a message of {len(body)} bytes; the limit is {FRAME_BYTES_MAX - MAC_BYTES}")
        if not self.is_closed:
            self._queue(frame(self.session.sealer.seal(body), FRAME_BYTES_MAX))

    def _queue(self, framed: bytes) -> None:
        self.sent_s = self._clock()
        self._outgoing_bytes += len(framed)
        if self._outgoing_bytes > OUTGOING_BYTES_MAX:
            self.close(f"more than {OUTGOING_BYTES_MAX} bytes wait for the peer")
            return
        self._outgoing.append(framed)

    def _consume(self, sent: int) -> None:
        self._outgoing_bytes -= sent
        while sent:
            first = self._outgoing.popleft()
            if sent < len(first):
                self._outgoing.appendleft(memoryview(first)[sent:])
                return
            sent -= len(first)

    def _watch(self, interest: int) -> None:
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(self._sock, interest, self.on_ready)


def _first(outgoing: deque[bytes | memoryview]) -> list[bytes | memoryview]:
    return [buffer for buffer, _ in zip(outgoing, range(BUFFERS_PER_WRITE), strict=False)]
