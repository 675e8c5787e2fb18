"""The log on LMDB, behind the journal interface of the library.

It differs from the library's own journals where those lose data:
- `add` settles conflicts entry by entry: what is there already, with the same term, stays (a delayed append_entries
  must not cut off what was acknowledged behind it); another term cuts off from there. `deleteEntriesFrom` therefore
  does nothing.
- Nothing at or below the commit index is ever cut off: that stops the process.
- Term and vote are part of the same transaction.
- `trim` takes away the oldest entries, a few at a time; the first one that is kept says which term came before the
  next. `install` begins the log behind a copy of the state.
- Recent entries are cached and `journal[i:]` reads lazily, so no call costs more than what it looks at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, overload

from pysyncobj.journal import Journal

from raftlog import guards, stored_entries
from raftlog.disk import Disk
from raftlog.errors import LogBroken, LogRefused
from raftlog.meta import MetaStore

Entry = stored_entries.Entry

FIRST_COMMIT_INDEX = 1
"""Entry 1 is the same no-op on every node, so it counts as committed from the start."""

CONTENT_UNKNOWN = b""
"""Stands for the entry that an installed copy of the state stands at: nobody is to send or apply it."""
_NOTHING: Entry = (b"", 0, 0)
_KEY = struct.Struct(">Q")


class LmdbJournal(Journal):  # type: ignore[misc]  # the library is untyped
    """The named database `raft/log`: index (u64 big-endian) → the entry, see stored_entries.py."""

    def __init__(self, disk: Disk, meta: MetaStore, *, cache_bytes: int) -> None:
        self._disk = disk
        self._meta = meta
        self._database = disk.database("raft/log")
        self._cache: dict[int, Entry] = {}
        self._cache_bytes = 0
        self._cache_bytes_max = cache_bytes
        self._first, self._last = self._bounds()
        self._cache_first = self._last[1] + 1
        """Cached are the entries from here to the last."""
        self._term, self._vote = meta.ballot()
        self._commit_index = self._stored_commit_index()

    # What raftlog asks.

    @property
    def first_index(self) -> int:
        """Of the entries that are kept. Unless it is 1 the first one serves for its term only: it may have come without
        its content, with a copy of the state."""
        return max(1, self._first[1])

    @property
    def last_index(self) -> int:
        return self._last[1]

    def disk_bytes(self) -> int:
        """What the log takes on the disk: whole pages."""
        stat = self._disk.transaction.stat(self._database)
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return int(stat["psize"] * pages)

    def entry(self, index: int) -> Entry:
        """The entry at an index, which must be in the log."""
        if index == self._last[1]:
            return self._last
        cached = self._cache.get(index)
        return self._read(index) if cached is None else cached

    def batch(self, start_index: int, bytes_max: int) -> list[Entry]:
        """Entries from an index on, until their commands together reach `bytes_max` or the log ends."""
        entries: list[Entry] = []
        size = 0
        for index in range(start_index, self.last_index + 1):
            entries.append(self.entry(index))
            size += len(entries[-1][0])
            if size >= bytes_max:
                break
        return entries

    def checked(self, applied_index: int) -> int:
        """The index that the state stands at, which was made from this log: it is neither ahead of it nor behind it.
        Raises LogRefused for a disk that was put together by hand."""
        if applied_index > min(self.last_index, self._commit_index):
            raise LogRefused(f"the state stands at {applied_index}, its log ends at {self.last_index}")
        if applied_index < self.first_index and self.first_index > 1:
            raise LogRefused(f"the state stands at {applied_index}, its log begins at {self.first_index}")
        return applied_index

    def trim(self, first_index: int, entries_max: int) -> None:
        """Take away entries before `first_index`, the oldest ones, so many at most. They must be part of the state."""
        if first_index > self._commit_index:
            raise LogBroken(f"entry {first_index} is not committed (up to {self._commit_index}) and would come first")
        first_index = min(first_index, self.first_index + entries_max)
        with self._disk.transaction.cursor(db=self._database) as cursor:
            cursor.first()
            for index in range(self.first_index, first_index):
                cursor.delete()
                entry = self._cache.pop(index, None)
                self._cache_bytes -= len(entry[0]) if entry else 0
        self._cache_first = max(self._cache_first, first_index)
        self._first = self.entry(first_index)

    def install(self, index: int, term: int) -> None:
        """Begin behind a copy of the state that stands at this entry of the leader's log. If this log has the same one
        it is kept, with what follows it: that may have been acknowledged (S3)."""
        if index <= self._commit_index:
            raise LogBroken(f"a copy at {index} is older than what is committed here ({self._commit_index})")
        held_term = self.entry(index)[2] if self.first_index <= index <= self.last_index else None
        if not guards.keeps_log(held_term, term):
            self._disk.transaction.drop(self._database, delete=False)
            self._cache.clear()
            self._cache_bytes, self._cache_first = 0, index
            self._first = self._last = _NOTHING
            self._append((CONTENT_UNKNOWN, index, term))
        self.setRaftCommitIndex(index)

    # What the library asks (names are its own; positions count from the first entry kept).

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Append, or keep what is there already (same index and term), or replace a conflicting uncommitted tail."""
        if idx <= self.last_index:
            if self._holds(command, idx, term):
                return
            self._truncate_from(idx)
        if idx != self.last_index + 1:
            raise LogBroken(f"entry {idx} would leave a gap behind {self.last_index}")
        self._append((command, idx, term))

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        """Nothing: the library asks for it before every append behind existing entries, whether they differ or not."""

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        raise LogBroken("the library does not trim the log")

    def clear(self) -> None:
        raise LogBroken("the library installs no snapshot")

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        if raftCommitIndex < self._commit_index:
            raise LogBroken(f"the commit index would fall from {self._commit_index} to {raftCommitIndex}")
        if raftCommitIndex != self._commit_index:
            self._commit_index = raftCommitIndex
            self._meta.put_commit_index(raftCommitIndex)

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return self._commit_index

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        if term < self._term:
            raise LogBroken(f"the term would fall from {self._term} to {term}")
        if (term, votedForNodeId) != (self._term, self._vote):
            self._term, self._vote = term, votedForNodeId
            self._meta.put_ballot(term, votedForNodeId)

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._vote

    def _destroy(self) -> None:
        """Nothing: the disk is its opener's."""

    def __len__(self) -> int:
        return self.last_index - self.first_index + 1

    @overload
    def __getitem__(self, item: int) -> Entry: ...
    @overload
    def __getitem__(self, item: slice) -> list[Entry] | Tail: ...
    def __getitem__(self, item: int | slice) -> Entry | list[Entry] | Tail:
        if isinstance(item, slice):
            start, stop, _ = item.indices(len(self))
            tail = Tail(self, self.first_index + start)
            return tail if item.stop is None else tail[: max(0, stop - start)]
        if item == 0 and self._first is not _NOTHING:
            return self._first  # the library asks for it before every look at the log
        index = self.first_index + item if item >= 0 else self.last_index + 1 + item
        if not self.first_index <= index <= self.last_index:
            raise IndexError(item)
        return self.entry(index)

    # Inside.

    def _bounds(self) -> tuple[Entry, Entry]:
        """(first entry, last entry); both a placeholder at 0 for an empty log."""
        with self._disk.transaction.cursor(db=self._database) as cursor:
            if not cursor.first():
                return _NOTHING, _NOTHING
            first = stored_entries.read(_KEY.unpack(cursor.key())[0], cursor.value())
            cursor.last()
            return first, stored_entries.read(_KEY.unpack(cursor.key())[0], cursor.value())

    def _stored_commit_index(self) -> int:
        """Never ahead of the log: the library counts everything below it as verified."""
        return max(FIRST_COMMIT_INDEX, min(self._meta.commit_index(), self.last_index))

    def _holds(self, command: bytes, index: int, term: int) -> bool:
        present = self.entry(index)
        if present[2] != term:
            return False
        if present[0] != command:
            raise LogBroken(f"two different entries at index {index} of term {term}")
        return True

    def _truncate_from(self, index: int) -> None:
        if index <= self._commit_index:
            raise LogBroken(f"entry {index} is committed (up to {self._commit_index}) and would be cut off")
        for cut in range(index, self.last_index + 1):
            self._disk.transaction.delete(_KEY.pack(cut), db=self._database)
            entry = self._cache.pop(cut, None)
            self._cache_bytes -= len(entry[0]) if entry else 0
        self._cache_first = min(self._cache_first, index)
        self._last = self.entry(index - 1)

    def _append(self, entry: Entry) -> None:
        command, index, _ = entry
        self._disk.transaction.put(_KEY.pack(index), stored_entries.stored(entry), append=True, db=self._database)
        self._last = entry
        if self._first is _NOTHING:
            self._first = entry
        self._cache[index] = entry
        self._cache_bytes += len(command)
        while self._cache_bytes > self._cache_bytes_max:
            self._cache_bytes -= len(self._cache.pop(self._cache_first)[0])
            self._cache_first += 1

    def _read(self, index: int) -> Entry:
        stored: Any = self._disk.transaction.get(_KEY.pack(index), db=self._database)
        if stored is None:
            raise LogBroken(f"entry {index} is missing from the log ({self.first_index} to {self.last_index})")
        return stored_entries.read(index, stored)


class Tail:
    """The journal from an index on, as the library's `journal[i:]`: nothing is read before it is asked for."""

    def __init__(self, journal: LmdbJournal, start_index: int) -> None:
        self._journal = journal
        self._start = start_index

    def __len__(self) -> int:
        return max(0, self._journal.last_index - self._start + 1)

    def __iter__(self) -> Iterator[Entry]:
        for index in range(self._start, self._journal.last_index + 1):
            yield self._journal.entry(index)

    @overload
    def __getitem__(self, item: int) -> Entry: ...
    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...
    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        if isinstance(item, slice):
            return [self._journal.entry(self._start + position) for position in range(*item.indices(len(self)))]
        if not 0 <= item < len(self):
            raise IndexError(item)
        return self._journal.entry(self._start + item)
