"""A non-blocking stream socket that carries frames: what the links between nodes and the local socket share."""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from raftlog.errors import MessageRefused
from raftlog.wire import FrameParser, WireError, frame

RECEIVE_BYTES = 256 * 1024
RECEIVES_MAX = 8
"""Reads a turn, so that one busy peer cannot keep the others waiting."""
BUFFERS_PER_WRITE = 64


class FrameOwner(Protocol):
    """Who is told what happens on a socket."""

    def bytes_received(self) -> None:
        """Something came, if only a part of a frame."""

    def frame_received(self, content: bytes) -> None:
        """A frame. Raises WireError or MessageRefused to have the socket closed for it."""

    def socket_closed(self, reason: str, *, refused: bool) -> None:
        """Told exactly once. `refused`: something came that no honest peer sends."""


class FramedSocket:
    """`on_ready` is the selector's data. With `on_connected` the socket is still connecting.

    Once closed, it delivers nothing more, whatever the socket still holds."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        owner: FrameOwner,
        *,
        frame_bytes_max: int,
        outgoing_bytes_max: int,
        on_connected: Callable[[], None] | None = None,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.is_closed = False
        self.outgoing_bytes = 0
        self._sock = sock
        self._selector = selector
        self._owner = owner
        self._on_connected = on_connected
        self._outgoing_bytes_max = outgoing_bytes_max
        self._parser = FrameParser(frame_bytes_max)
        self._outgoing: deque[bytes | memoryview] = deque()
        self._interest = selectors.EVENT_WRITE if on_connected else selectors.EVENT_READ
        selector.register(sock, self._interest, self.on_ready)

    def raise_frame_limit(self, frame_bytes_max: int) -> None:
        """From the next frame on, both ways."""
        self.frame_bytes_max = self._parser.limit_bytes = frame_bytes_max

    def on_ready(self, mask: int) -> None:
        if self.is_closed:
            return
        if self._on_connected is not None:
            self._connected(self._on_connected)
        elif mask & selectors.EVENT_READ:
            self._read()
        if mask & selectors.EVENT_WRITE and not self.is_closed:
            self.flush()

    def write(self, content: bytes) -> None:
        """Queue a frame; `flush` puts it on its way. Closes the socket if too much waits already.
        Raises FrameTooLarge if the frame can never be sent."""
        framed = frame(content, self.frame_bytes_max)
        if self.is_closed:
            return
        self.outgoing_bytes += len(framed)
        if self.outgoing_bytes > self._outgoing_bytes_max:
            self.close(f"more than {self._outgoing_bytes_max} bytes wait to be sent")
            return
        self._outgoing.append(framed)

    def flush(self) -> None:
        """Write what the socket takes now; the rest follows when it is writable."""
        if self.is_closed:
            return
        try:
            while self._outgoing:
                self._sent(self._sock.sendmsg(_first(self._outgoing)))
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
        self._owner.socket_closed(reason, refused=refused)

    def _connected(self, on_connected: Callable[[], None]) -> None:
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self.close(f"cannot connect: {os.strerror(error)}")
            return
        self._on_connected = None
        on_connected()

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
                self.close("closed by the other side")
                return
            self._received(data)
            if self.is_closed or len(data) < RECEIVE_BYTES:
                return

    def _received(self, data: bytes) -> None:
        self._owner.bytes_received()
        self._parser.feed(data)
        try:
            while not self.is_closed and (content := self._parser.next_frame()) is not None:
                self._owner.frame_received(content)
        except (WireError, MessageRefused) as error:
            self.close(str(error), refused=True)

    def _sent(self, count: int) -> None:
        self.outgoing_bytes -= count
        while count:
            first = self._outgoing.popleft()
            if count < len(first):
                self._outgoing.appendleft(memoryview(first)[count:])
                return
            count -= len(first)

    def _watch(self, interest: int) -> None:
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(self._sock, interest, self.on_ready)


def _first(outgoing: deque[bytes | memoryview]) -> list[bytes | memoryview]:
    return [buffer for _, buffer in zip(range(BUFFERS_PER_WRITE), outgoing, strict=False)]
