"""Length-prefixed msgpack frames, for the links between nodes and for the socket between node and log process.

A frame is a four-byte length (big-endian, of what follows) and that many bytes. Nothing here can build an object that
is not a plain msgpack value: no pickle, no extension types, no map key but text or bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Between authenticated nodes: an append_entries of 1 MiB, its last entry and the envelope, with room to spare."""
HANDSHAKE_FRAME_BYTES_MAX = 4 * 1024
"""Before authentication: nobody who does not know the secret can make a node hold more than this."""
LOCAL_FRAME_BYTES_MAX = 64 * 1024 * 1024
"""On the Unix socket: the replies and events of one tick."""
COMPACT_BYTES_MIN = 64 * 1024
"""Consumed bytes that are worth moving the rest of the buffer for."""

_LENGTH = struct.Struct(">I")


class WireError(Exception):
    """Bytes that are no frame or no message of ours: the connection they came on is closed."""


class FrameTooLarge(WireError):
    """A frame is longer than its limit."""


class FrameParser:
    """Cuts a byte stream into frames. Holds at most one unfinished frame and what was fed behind it.

    `limit_bytes` may be raised between two frames (once the peer has proven itself): frames are taken one at a time."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._offset = 0

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += data

    @property
    def pending_bytes(self) -> int:
        return len(self._buffer) - self._offset

    def next_frame(self) -> bytes | None:
        """The next complete frame's content, or None until more is fed. Raises FrameTooLarge at the length already."""
        start = self._offset + _LENGTH.size
        end = start + self._next_length()
        if len(self._buffer) < end:
            self._compact()
            return None
        self._offset = end
        with memoryview(self._buffer) as view:
            return bytes(view[start:end])

    def _next_length(self) -> int:
        """The announced length; 0 while its four bytes are not complete."""
        if self.pending_bytes < _LENGTH.size:
            return 0
        length: int = _LENGTH.unpack_from(self._buffer, self._offset)[0]
        if length > self.limit_bytes:
            raise FrameTooLarge(f"a frame of {length} bytes; the limit is {self.limit_bytes}")
        return length

    def _compact(self) -> None:
        """Forget what was consumed: all of it at once as a rule, else when it is worth the move."""
        if self._offset == len(self._buffer):
            self._buffer.clear()
            self._offset = 0
        elif self._offset >= COMPACT_BYTES_MIN:
            del self._buffer[: self._offset]
            self._offset = 0


def frame(content: bytes, limit_bytes: int) -> bytes:
    """The frame around `content`. Raises FrameTooLarge rather than send what the other side must refuse."""
    if len(content) > limit_bytes:
        raise FrameTooLarge(f"a frame of {len(content)} bytes; the limit is {limit_bytes}")
    return _LENGTH.pack(len(content)) + content


def pack(message: Any) -> bytes:
    packed: bytes = msgpack.packb(message, use_bin_type=True)
    return packed


def unpack(content: bytes) -> Any:
    """The plain value in a frame. Raises WireError for anything else (truncated, trailing bytes, extension types, other
    keys than text and bytes, nesting beyond msgpack's own limit). Its timestamps, which cannot be refused,
    come out as plain numbers."""
    try:
        return msgpack.unpackb(content, raw=False, strict_map_key=True, ext_hook=_refuse_extension, timestamp=1)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise WireError(f"not a message: {type(error).__name__}") from None


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code}")
