"""What an attempt puts out, while it runs: the first part and the last part of it are kept, and what was cut in between
is counted. The beginning says what was done, the end says why it went wrong."""

from __future__ import annotations

HEAD_BYTES_MAX = 768 * 1024
"""Kept from an attempt's first byte on."""
TAIL_BYTES_MAX = 256 * 1024
"""Kept up to its last byte, beyond the head: some three thousand lines, in memory while it runs."""


class AttemptOutput:
    """An executor's OutputSink. Costs a copy in memory of what it is given, and no more than both limits."""

    def __init__(self) -> None:
        self.total_bytes = 0
        """All that was written."""
        self._head = bytearray()
        self._tail = bytearray()

    def write(self, data: bytes) -> None:
        self.total_bytes += len(data)
        room = HEAD_BYTES_MAX - len(self._head)
        if room:
            self._head += data[:room]
        if len(data) > room:
            self._tail += data[room:] if len(data) - room <= TAIL_BYTES_MAX else data[-TAIL_BYTES_MAX:]
            if len(self._tail) > 2 * TAIL_BYTES_MAX:  # not at each write: cutting off costs a copy of what stays
                del self._tail[:-TAIL_BYTES_MAX]

    @property
    def cut_bytes(self) -> int:
        """How much is missing between the two parts."""
        return max(self.total_bytes - HEAD_BYTES_MAX - TAIL_BYTES_MAX, 0)

    def kept(self) -> bytes:
        """The first part and the last; between them, where there is anything cut, a line that says how much."""
        tail = bytes(self._tail[-TAIL_BYTES_MAX:])
        return bytes(self._head) + (cut_line(self.cut_bytes) if self.cut_bytes else b"") + tail


def cut_line(cut_bytes: int) -> bytes:
    """What stands in a log where so many bytes are missing."""
    return f"\n[horae: {cut_bytes} bytes are not kept]\n".encode()
