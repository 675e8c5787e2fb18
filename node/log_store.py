"""Where the logs of ended attempts can go besides this node's disk: an interface of three calls.

s3_store.py is the one for object stores. All calls may be repeated: an object is the whole log of an attempt, and the
same one whoever puts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class StoreError(Exception):
    """The store did not do it, or nobody knows whether it did; one line, without secrets."""


class LogStore(Protocol):
    """Keys are like paths. Every call may raise StoreError, and takes seconds at most."""

    async def put(self, key: str, data: bytes) -> None:
        """Keep `data` under the key, in place of what was there."""
        ...

    async def get(self, key: str) -> bytes | None:
        """None when there is no such object."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Forget objects; those that are not there do no harm."""
        ...
