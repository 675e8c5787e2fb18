"""The LMDB environment that log, term, vote and state share, and the one write transaction of a tick."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import lmdb

from raftlog.storage_faults import DATA_NAME, check_files, check_length

MAP_BYTES = 64 * 1024**3
"""Address space, not disk: the file is sparse and grows with what is written."""
DATABASES_MAX = 128
READERS_MAX = 512
AHEAD_BYTES = 16 * 1024**2
"""The file is kept longer than what LMDB uses of it, by this at the least after a commit; the rest is a hole. LMDB
leaves pages unwritten that a commit took and freed again, so by itself the file may be shorter than its index says.
Kept longer, only one that was cut is (storage_faults.py); to read behind a file's end kills the process."""


class Disk(Protocol):
    """Where a node keeps everything. The transaction is begun by its first use and ends with `commit` or `abort`."""

    @property
    def environment(self) -> Any:
        """The lmdb.Environment (to open named databases, and for readers)."""
        ...

    @property
    def transaction(self) -> Any:
        """The write transaction of this tick."""
        ...

    def database(self, name: str) -> Any:
        """The handle of a named database, made if it is missing. Not while a transaction is open."""
        ...

    def commit(self) -> bool:
        """Make everything since the last commit durable. Costs no fsync if nothing was written; says whether it was."""
        ...

    def abort(self) -> None:
        """Forget everything since the last commit."""
        ...

    def close(self) -> None: ...


class LmdbDisk:
    """A Disk on an LMDB directory. `synchronous=False` leaves syncing to the operating system: for simulators, where a
    crash is an abort."""

    def __init__(self, path: Path, *, map_bytes: int = MAP_BYTES, synchronous: bool = True) -> None:
        """Raises LogRefused for files that are damaged or not ours; OSError, lmdb.Error."""
        path.mkdir(parents=True, exist_ok=True)
        check_files(path)
        self.environment: Any = lmdb.open(
            str(path),
            map_size=map_bytes,
            max_dbs=DATABASES_MAX,
            max_readers=READERS_MAX,
            sync=synchronous,
            metasync=synchronous,
            writemap=False,
        )
        self._data = path / DATA_NAME
        try:
            check_length(path, self.environment)
        except BaseException:
            self.environment.close()
            raise
        self._page_bytes: int = self.environment.stat()["psize"]
        self._length = self._data.stat().st_size
        self._transaction: Any = None
        self._databases: dict[str, Any] = {}

    @property
    def transaction(self) -> Any:
        if self._transaction is None:
            self._transaction = self.environment.begin(write=True)
        return self._transaction

    def database(self, name: str) -> Any:
        if name not in self._databases:
            assert self._transaction is None, "databases are opened between transactions"
            self._databases[name] = self.environment.open_db(name.encode())
        return self._databases[name]

    def commit(self) -> bool:
        if self._transaction is None:
            return False
        transaction, self._transaction = self._transaction, None
        number = transaction.id()
        transaction.commit()
        info = self.environment.info()
        self._keep_ahead(info["last_pgno"])
        return bool(info["last_txnid"] == number)

    def _keep_ahead(self, last_page: int) -> None:
        wanted = (last_page + 1) * self._page_bytes + AHEAD_BYTES
        if self._length < wanted:
            self._length = wanted + AHEAD_BYTES
            os.truncate(self._data, self._length)

    def abort(self) -> None:
        if self._transaction is not None:
            transaction, self._transaction = self._transaction, None
            transaction.abort()

    def close(self) -> None:
        self.abort()
        self.environment.close()
