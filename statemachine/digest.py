"""A fingerprint of the whole state: equal on replicas that stand at the same index (I6)."""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Any

from statemachine.tables import TABLE_NAMES, Tables

_LENGTHS = Struct(">II")


def digest_of(transaction: Any, tables: Tables) -> str:
    """Hex digest over every key and value of every table, the applied index included. Reads the whole state."""
    digest = blake2b(digest_size=16)
    for name in TABLE_NAMES:
        digest.update(name.encode() + b"\n")
        for key, value in transaction.cursor(db=getattr(tables, name)):
            digest.update(_LENGTHS.pack(len(key), len(value)) + key + value)
    return digest.hexdigest()
