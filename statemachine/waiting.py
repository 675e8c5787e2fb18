"""The queue of runs that wait for a session with room, as one apply sees it.

Most runs are queued and handed out within one apply. They stay in memory then, and only what is left at its end is
written; `first_from` merges both, so that nobody else has to know.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from statemachine.codec import decode_depth, encode
from statemachine.tables import DEPTH_KEY, Tables

PRIORITIES = 10


class WaitingQueue:
    """Keys of `waiting`, and how many there are by priority. Lives for one apply."""

    def __init__(self, transaction: Any, tables: Tables) -> None:
        self._transaction = transaction
        self._tables = tables
        self._depth = read_depth(transaction, tables)
        self._depth_before = list(self._depth)
        self._stored = sum(self._depth)
        self._fresh: list[bytes] = []
        self._sorted = True
        self._cursor: Any = None

    def __len__(self) -> int:
        return self._stored + len(self._fresh)

    def may_have(self, class_: int) -> bool:
        """Whether something can be waiting in the class of this number (0 is that of priority 9): of its own priority,
        or one below that has aged."""
        priority = 9 - class_
        return self._depth[priority] > 0 or (priority > 0 and self._depth[priority - 1] > 0)

    def add(self, key: bytes, priority: int) -> None:
        self._fresh.append(key)
        self._sorted = False
        self._depth[priority] += 1

    def remove(self, key: bytes, priority: int) -> None:
        """Take a run out; it must be in."""
        self._depth[priority] -= 1
        place = self._place(key)
        if place < len(self._fresh) and self._fresh[place] == key:
            del self._fresh[place]
            return
        found = self._transaction.delete(key, db=self._tables.waiting)
        assert found, "a queued run must wait"
        self._stored -= 1

    def first_from(self, key: bytes) -> bytes | None:
        """The first waiting key at or after this one."""
        place = self._place(key)
        fresh = self._fresh[place] if place < len(self._fresh) else None
        stored = self._first_stored(key) if self._stored else None
        if fresh is None or stored is None:
            return fresh or stored
        return min(fresh, stored)

    def flush(self) -> None:
        """Write what was queued and not handed out, and the counts."""
        self._sort()
        for key in self._fresh:
            self._transaction.put(key, b"", db=self._tables.waiting)
        if self._depth != self._depth_before:
            self._transaction.put(DEPTH_KEY, encode(self._depth), db=self._tables.meta)

    def _first_stored(self, key: bytes) -> bytes | None:
        if self._cursor is None:
            self._cursor = self._transaction.cursor(db=self._tables.waiting)
        return self._cursor.key() if self._cursor.set_range(key) else None

    def _place(self, key: bytes) -> int:
        self._sort()
        return bisect_left(self._fresh, key)

    def _sort(self) -> None:
        if not self._sorted:
            self._fresh.sort()
            self._sorted = True


def read_depth(transaction: Any, tables: Tables) -> list[int]:
    """How many runs wait, by priority."""
    value = transaction.get(DEPTH_KEY, db=tables.meta)
    return [0] * PRIORITIES if value is None else decode_depth(value)
