"""The files of an attempt that is running: what it has put out so far, for the case that this node is killed. They are
not synced: a power cut may cost the last seconds of a log, never a run its result."""

from __future__ import annotations

import contextlib
from pathlib import Path

from node.kept_log import HEAD_BYTES_MAX, TAIL_BYTES_MAX, KeptLog

HEAD, TAIL = ".head", ".tail"


class LiveFiles:
    """`stem` is their common path. Blocking calls of a file operation or two; all but `remove` may raise OSError."""

    def __init__(self, stem: Path) -> None:
        self._head = stem.with_name(stem.name + HEAD)
        self._tail = stem.with_name(stem.name + TAIL)

    def append_head(self, data: bytes) -> None:
        self._head.parent.mkdir(parents=True, exist_ok=True)
        with self._head.open("ab") as file:
            file.write(data)

    def save_tail(self, offset: int, data: bytes) -> None:
        """The last part as it is now; `offset` is where it begins in all that was put out."""
        fresh = self._tail.with_name(self._tail.name + ".new")
        self._tail.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(offset.to_bytes(8, "big") + data)
        fresh.replace(self._tail)

    def read_head(self, offset: int, size: int) -> bytes:
        with self._head.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def left_behind(self) -> KeptLog:
        """What a node that was killed had written."""
        head, tail, tail_offset = b"", b"", 0
        with contextlib.suppress(FileNotFoundError):
            head = self.read_head(0, HEAD_BYTES_MAX)
        with contextlib.suppress(FileNotFoundError):
            saved = self._tail.read_bytes()
            tail_offset, tail = int.from_bytes(saved[:8], "big"), saved[8 : 8 + TAIL_BYTES_MAX]
        return KeptLog(head=head, tail=tail, cut_bytes=max(tail_offset - len(head), 0))

    def remove(self) -> None:
        for path in (self._head, self._tail):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
