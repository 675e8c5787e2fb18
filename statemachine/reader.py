"""Read-only access to the state, from another process or from the writer's own (the in-memory twin, tests).

Each snapshot is a new read transaction: it sees what was committed when it began, and nothing later. It pins pages
while it lives, so keep it short.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import lmdb

from statemachine.snapshot import Snapshot
from statemachine.tables import open_environment, open_state


class StateMissing(Exception):
    """There is no state in this directory yet: the log process has to be started first."""


class Space(NamedTuple):
    """Bytes of the file that were ever used (LMDB uses freed pages again, but keeps them), and what it may grow to."""

    used_bytes: int
    map_bytes: int


class StateReader:
    """Hands out snapshots of the state in a directory that another process writes, or in an environment of this one."""

    def __init__(self, source: Any) -> None:
        """`source` is a path, or an lmdb Environment (LMDB forbids opening one directory twice in a process); with the
        latter, not inside a write transaction. Raises StateMissing."""
        self._owned = not isinstance(source, lmdb.Environment)
        try:
            self._environment = open_environment(source, readonly=True) if self._owned else source
            self._state = open_state(self._environment)
        except lmdb.Error as error:
            raise StateMissing(f"no state in {source}") from error

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """A view of what is committed now. Which generation counts is read inside the transaction that reads the rest:
        it may be exchanged for another node's at any moment."""
        with self._environment.begin() as transaction:
            yield Snapshot(transaction, self._state.tables(transaction))

    def space(self) -> Space:
        """How full the environment is, the log's part too."""
        info, stat = self._environment.info(), self._environment.stat()
        return Space((info["last_pgno"] + 1) * stat["psize"], info["map_size"])

    def close(self) -> None:
        """Close the environment, if this reader opened it."""
        if self._owned:
            self._environment.close()
