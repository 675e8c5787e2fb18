"""What an attempt puts out, while it runs: bounded, written to files by and by, and followed by any number of readers.

The first part goes to a file and leaves the memory; the last part stays in memory and is saved every few seconds. What
was cut in between is counted. A disk that refuses costs memory, up to the same bounds, and at worst the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from node.interface import LogPiece
from node.kept_log import HEAD_BYTES_MAX, TAIL_BYTES_MAX, KeptLog
from node.live_files import LiveFiles

FLUSH_BYTES = 64 * 1024
"""So much of the first part is written at once."""
FLUSH_AFTER_S = 2.0
"""Nothing waits longer for the disk: what a kill of this node may cost a log. Most attempts are over by then, and cost
no file but the one that is kept."""
PIECE_BYTES_MAX = 64 * 1024
"""What a reader gets at once."""

logger = logging.getLogger(__name__)


class LiveLog:
    """An executor's OutputSink. Of the event loop's thread only, as all of it."""

    def __init__(self, run_id: str, attempt: int, files: LiveFiles) -> None:
        self.run_id = run_id
        self.attempt = attempt
        self.files = files
        self.total_bytes = 0
        """All that was written."""
        self.ended = False
        self._flushed = 0
        """How much of the first part is in its file, and no more in memory."""
        self._head = bytearray()
        """The rest of it."""
        self._tail = bytearray()
        self._saved = 0
        """Up to here the last part has been saved."""
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._refused = False
        """The disk did not take something: no more is asked of it until the end."""

    def write(self, data: bytes) -> None:
        room = HEAD_BYTES_MAX - self._flushed - len(self._head)
        self.total_bytes += len(data)
        if room:
            self._head += data[:room]
        if len(data) > room:
            self._tail += data[room:] if len(data) - room <= TAIL_BYTES_MAX else data[-TAIL_BYTES_MAX:]
            if len(self._tail) > 2 * TAIL_BYTES_MAX:  # not at each write: cutting off costs a copy of what stays
                del self._tail[:-TAIL_BYTES_MAX]
        self._news.set()
        if len(self._head) >= FLUSH_BYTES:
            self._flush_head()
        self._flush_later()

    def end(self) -> None:
        """Nothing more is put out."""
        self.ended = True
        if len(self._tail) > TAIL_BYTES_MAX:
            del self._tail[:-TAIL_BYTES_MAX]  # from now on, readers get what will be kept
        self._news.set()
        if self._timer is not None:
            self._timer.cancel()

    # --- what is kept

    @property
    def kept_bytes(self) -> int:
        return self._flushed + len(self._head) + min(len(self._tail), TAIL_BYTES_MAX)

    @property
    def is_in_memory(self) -> bool:
        """Whether all that is kept of it is there, and nothing is under way."""
        return self._flushed == 0 and self._writing is None and not self._refused

    async def kept(self) -> KeptLog:
        """What there is of it by now. Raises OSError."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        rest, tail, total_bytes = bytes(self._head), bytes(self._tail[-TAIL_BYTES_MAX:]), self.total_bytes
        head = await asyncio.to_thread(self.files.read_head, 0, self._flushed) if self._flushed else b""
        return _kept(head + rest, tail, total_bytes)

    def kept_in_memory(self) -> KeptLog:
        assert self.is_in_memory, "a part of it is in a file"
        return _kept(bytes(self._head), bytes(self._tail[-TAIL_BYTES_MAX:]), self.total_bytes)

    # --- readers

    async def follow(self, offset: int) -> AsyncIterator[LogPiece]:
        """What was and is put out from there on, until the end. A reader that is too slow misses what was cut in the
        meantime. Raises FileNotFoundError when the log is kept elsewhere by now."""
        while True:
            piece = await self._read(offset)
            if piece.data:
                offset = piece.offset + len(piece.data)
                yield piece
            elif self.ended:
                return
            else:
                await self._wait_beyond(offset)

    async def _wait_beyond(self, offset: int) -> None:
        while self.total_bytes <= offset and not self.ended:
            self._news.clear()
            await self._news.wait()

    async def _read(self, offset: int) -> LogPiece:
        """At most PIECE_BYTES_MAX; nothing when there is no more yet."""
        if offset < self._flushed:
            size = min(self._flushed - offset, PIECE_BYTES_MAX)
            return LogPiece(offset=offset, data=await asyncio.to_thread(self.files.read_head, offset, size))
        if not self._tail or offset < self._flushed + len(self._head):
            begin = offset - self._flushed
            return LogPiece(offset=offset, data=bytes(self._head[begin : begin + PIECE_BYTES_MAX]))
        tail_offset = self.total_bytes - len(self._tail)
        offset = max(offset, tail_offset)
        begin = offset - tail_offset
        return LogPiece(offset=offset, data=bytes(self._tail[begin : begin + PIECE_BYTES_MAX]))

    # --- to the disk

    def _flush_later(self) -> None:
        if self._timer is None and not self._refused and not self.ended:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_AFTER_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        if self._head:
            self._flush_head()
        elif self._tail and self._writing is None:
            tail = bytes(self._tail[-TAIL_BYTES_MAX:])
            end = self.total_bytes
            self._write(lambda: self.files.save_tail(end - len(tail), tail), lambda: self._on_saved(end))

    def _flush_head(self) -> None:
        """One write at a time: what comes meanwhile goes with the next."""
        if self._writing is None and not self._refused:
            data = bytes(self._head)
            self._write(lambda: self.files.append_head(data), lambda: self._on_flushed(len(data)))

    def _on_flushed(self, size: int) -> None:
        del self._head[:size]
        self._flushed += size

    def _on_saved(self, end: int) -> None:
        self._saved = end

    def _write(self, act: Callable[[], None], then: Callable[[], None]) -> None:
        def done(writing: asyncio.Future[None]) -> None:
            self._writing = None
            error = None if writing.cancelled() else writing.exception()
            if error is None:
                then()
                if self._head or (self._tail and self._saved < self.total_bytes):
                    self._flush_later()
            else:
                self._refused = True
                logger.error("the log of run %s cannot be written while it runs: %s", self.run_id, error)

        self._writing = asyncio.get_running_loop().run_in_executor(None, act)
        self._writing.add_done_callback(done)


def _kept(head: bytes, tail: bytes, total_bytes: int) -> KeptLog:
    return KeptLog(head=head, tail=tail, cut_bytes=total_bytes - len(head) - len(tail))
