"""How an entry of the log stands on the disk: its term, a check over all of it, its command.

LMDB trusts the disk: a bit that flips inside a value is handed out as if it had been written. An entry is sent to
others and applied on them, so it is checked whenever it is read from the disk: the damage stays where it is. CRC-32
finds every burst of 32 bits, and all but one in four billion of what is larger; nobody is expected to forge it here.
"""

from __future__ import annotations

import struct
from binascii import crc32

from raftlog.errors import LogDamaged

Entry = tuple[bytes, int, int]
"""(command, index, term), in the library's order."""

_HEAD = struct.Struct(">QI")
_NUMBERS = struct.Struct(">QQ")


def stored(entry: Entry) -> bytes:
    command, index, term = entry
    return _HEAD.pack(term, _check(index, term, command)) + command


def read(index: int, value: bytes) -> Entry:
    """The entry that was stored at an index. Raises LogDamaged if it is another one now."""
    if len(value) < _HEAD.size:
        raise LogDamaged(f"entry {index} of the log has {len(value)} bytes")
    term, check = _HEAD.unpack_from(value)
    command = value[_HEAD.size :]
    if not is_whole(check, _check(index, term, command)):
        raise LogDamaged(f"entry {index} of the log is not what was written")
    return command, index, term


def is_whole(check: int, expected: int) -> bool:
    return check == expected


def _check(index: int, term: int, command: bytes) -> int:
    return crc32(command, crc32(_NUMBERS.pack(index, term)))
