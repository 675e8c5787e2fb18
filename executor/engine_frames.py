"""The engine's stream of a container's output, taken apart: frames of standard output and error become plain bytes."""

from __future__ import annotations

from collections.abc import Iterator

HEAD_BYTES = 8
"""Which stream, three zeros, and four bytes of length."""
STREAMS = range(4)
"""Standard input (never sent), output and error, and what the engine itself has to say about them."""


class NotFrames(ValueError):
    """The engine sends something else than frames."""


class Frames:
    """Fed with what arrives, in pieces of any size, it hands out what the container wrote, in the same order. It keeps
    a frame's head at most, whatever a frame's length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises NotFrames."""
        view = memoryview(data)
        while view:
            if self._left:
                body = bytes(view[: self._left])
                self._left -= len(body)
                view = view[len(body) :]
                yield body
            else:
                view = view[self._take_head(view) :]

    def _take_head(self, view: memoryview) -> int:
        """Bytes that belonged to the head."""
        taken = min(HEAD_BYTES - len(self._head), len(view))
        self._head += view[:taken]
        if len(self._head) == HEAD_BYTES:
            if self._head[0] not in STREAMS or any(self._head[1:4]):
                raise NotFrames("the engine's output is not in frames")
            self._left = int.from_bytes(self._head[4:])
            self._head.clear()
        return taken
