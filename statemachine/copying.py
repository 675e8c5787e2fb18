"""A copy of the whole state on its way from one node to another: read in chunks here, written from chunks there.

A chunk is msgpack [[table, [key, value, key, value, ...]], ...]: tables in the order of their names, keys in theirs.
Reading costs the writer nothing but pages: it goes on changing the state, and the reader's transaction keeps what it
has not read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from statemachine.tables import TABLE_NAMES, State, Tables, read_applied_index

CLEARED_PAGES_MAX = 32_768
"""Of 4 KiB: tables that one `clear_tables` empties at once; giving their pages back takes a few milliseconds."""
CLEARED_ENTRIES_MAX = 10_000
"""What it takes from a table that is larger: the same time."""
KEY_BYTES_MAX = 511
"""LMDB's own limit."""

_Chunk = list[tuple[str, list[bytes]]]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Chunk)


class ChunkRead(NamedTuple):
    """A chunk, and the position behind it; None: that was the last one."""

    data: bytes
    position: bytes | None


class StateCopy:
    """The state as of the moment of making. It pins the pages that it reads, and all that is changed meanwhile: close
    it as soon as possible."""

    def __init__(self, environment: Any, state: State) -> None:
        self._transaction = environment.begin()
        self._tables = state.tables(self._transaction)
        self.index = read_applied_index(self._transaction, self._tables)
        """The index that the state stands at."""

    def read(self, position: bytes, bytes_max: int) -> ChunkRead:
        """The keys and values from a position on (b"": the beginning), until together they reach `bytes_max`, passed by
        one entry at most. The same position and size give the same chunk."""
        number, after = (position[0], position[1:]) if position else (0, b"")
        chunk: _Chunk = []
        for name in TABLE_NAMES[number:]:
            pairs, room = self._read_table(name, after, bytes_max)
            if pairs:
                chunk.append((name, pairs))
            if room <= 0:
                return ChunkRead(_ENCODER.encode(chunk), bytes([number]) + pairs[-2])
            number, after, bytes_max = number + 1, b"", room
        return ChunkRead(_ENCODER.encode(chunk), None)

    def _read_table(self, name: str, after: bytes, room: int) -> tuple[list[bytes], int]:
        """(keys and values behind `after`, what is left of the room)."""
        pairs: list[bytes] = []
        with self._transaction.cursor(db=getattr(self._tables, name)) as cursor:
            found = cursor.set_range(after) if after else cursor.first()
            if found and cursor.key() == after:
                found = cursor.next()
            while found and room > 0:
                key, value = cursor.item()
                pairs += (key, value)
                room -= len(key) + len(value)
                found = cursor.next()
        return pairs, room

    def close(self) -> None:
        """Safe to repeat."""
        self._transaction.abort()


def write_chunk(transaction: Any, tables: Tables, data: bytes) -> bool:
    """Append a chunk to the tables. False if it is no chunk, or does not follow what is there: what was written of it
    is of no use then."""
    try:
        chunk = _DECODER.decode(data)
    except msgspec.DecodeError:
        return False
    return all(
        name in TABLE_NAMES and len(pairs) % 2 == 0 and _append(transaction, getattr(tables, name), pairs)
        for name, pairs in chunk
    )


def _append(transaction: Any, table: Any, pairs: list[bytes]) -> bool:
    """Sorted keys behind the last one: LMDB fills the pages, and refuses any other order."""
    keys, values = pairs[::2], pairs[1::2]
    if not all(0 < len(key) <= KEY_BYTES_MAX for key in keys):
        return False
    return all(transaction.put(key, value, append=True, db=table) for key, value in zip(keys, values, strict=True))


def clear_tables(transaction: Any, tables: Tables) -> bool:
    """Take away as much of the tables as one step of the log may; whether nothing is left."""
    pages = 0
    for name in TABLE_NAMES:
        table = getattr(tables, name)
        stat = transaction.stat(table)
        if stat["entries"] == 0:
            continue
        size = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        if size > CLEARED_PAGES_MAX:
            _clear_entries(transaction, table)
            return False
        pages += size
        if pages > CLEARED_PAGES_MAX:
            return False
        transaction.drop(table, delete=False)
    return True


def _clear_entries(transaction: Any, table: Any) -> None:
    with transaction.cursor(db=table) as cursor:
        cursor.first()
        for _ in range(CLEARED_ENTRIES_MAX):
            if not cursor.delete():
                return
