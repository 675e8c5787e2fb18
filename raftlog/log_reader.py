"""Read-only access to the log of a data directory, from beside the log process that writes it: for whoever compares
what nodes have. Each call is a read transaction of its own."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgpack

from raftlog import stored_entries
from raftlog.disk import DATABASES_MAX, MAP_BYTES, READERS_MAX
from raftlog.envelope import decode
from raftlog.interface import Proposal
from raftlog.pysyncobj_bindings import NO_OP, REGULAR

_KEY = struct.Struct(">Q")


class LogMissing(Exception):
    """There is no log in this directory (yet)."""


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    index: int
    term: int
    payload: bytes

    @property
    def has_content(self) -> bool:
        """False for the one that stands before the log that goes on behind a copy of the state: only its term is
        known."""
        return self.payload != b""

    @property
    def proposal(self) -> Proposal | None:
        """None for an entry without commands."""
        return None if self.payload == NO_OP else decode(self.payload[len(REGULAR) :])


class Committed(NamedTuple):
    """What a node knows to be committed, as far as it was asked for. `first_index`: the oldest entry that it keeps."""

    first_index: int
    commit_index: int
    entries: list[LoggedEntry]


class LogReader:
    """The log in `path`, an LMDB directory. No process may open it twice: other readers take `environment`."""

    def __init__(self, path: Path) -> None:
        """Raises LogMissing."""
        try:
            self.environment: Any = lmdb.open(
                str(path), map_size=MAP_BYTES, max_dbs=DATABASES_MAX, max_readers=READERS_MAX, readonly=True
            )
        except lmdb.Error as error:
            raise LogMissing(f"no log in {path}") from error
        try:
            self._log = self.environment.open_db(b"raft/log", create=False)
            self._meta = self.environment.open_db(b"raft/meta", create=False)
        except lmdb.Error as error:
            self.environment.close()
            raise LogMissing(f"no log in {path}") from error

    def committed(self, from_index: int, *, entries_max: int) -> Committed:
        """Entries from `from_index` on (or the oldest that is kept, if that is later), up to the commit index. Raises
        LogDamaged."""
        with self.environment.begin() as transaction:
            stored = transaction.get(b"commit_index", db=self._meta)
            with transaction.cursor(db=self._log) as cursor:
                first = _KEY.unpack(cursor.key())[0] if cursor.first() else 0
                last = _KEY.unpack(cursor.key())[0] if cursor.last() else 0
                commit = min(0 if stored is None else int(msgpack.unpackb(stored)), last)
                entries: list[LoggedEntry] = []
                found = cursor.set_range(_KEY.pack(from_index))
                while found and len(entries) < entries_max and _KEY.unpack(cursor.key())[0] <= commit:
                    payload, index, term = stored_entries.read(_KEY.unpack(cursor.key())[0], cursor.value())
                    entries.append(LoggedEntry(index, term, payload))
                    found = cursor.next()
        return Committed(first, commit, entries)

    def close(self) -> None:
        self.environment.close()
