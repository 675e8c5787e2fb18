"""What is wrong with a store's files, said in one line that names the file and what to do.

What LMDB would not notice, or would only notice by a signal that kills the process, is looked for at the start: an
emptied file (it would begin a new store in it), one that was cut or copied by half, a full disk under its lock file.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Final

import lmdb

from raftlog.errors import LogDamaged, LogRefused

DATA_NAME: Final = "data.mdb"
LOCKS_NAME: Final = "lock.mdb"
LOCKS_BYTES: Final = 32 * 1024
"""LMDB maps its lock file and writes into it: where the disk has no room for a page of it, that write kills."""
FULL_BELOW_BYTES: Final = 1024 * 1024
"""A write that failed with less than this free failed for want of room: LMDB calls a write cut short an I/O error."""

REJOIN: Final = (
    "move it away and let this machine join with an empty directory under a new node id, without --bootstrap, or "
    "restore the whole cluster from a backup"
)
MAKE_ROOM: Final = "make room there and start this node again: nothing that was acknowledged is lost"

_DAMAGED = (
    LogDamaged,
    *(lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.VersionMismatchError),
    *(lmdb.PanicError, lmdb.BadChecksumError, lmdb.BadTxnError),  # a bad transaction: LMDB met damage within it before
)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_files(database: Path) -> None:
    """Before LMDB opens the directory. Raises LogRefused or OSError."""
    data, locks = database / DATA_NAME, database / LOCKS_NAME
    for path in (database, data, locks):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
            raise LogRefused(
                f"{path} (of user {path.stat().st_uid}) cannot be read and written by user {os.geteuid()}, or its file "
                "system is read-only: give it to this user, or mount it for writing"
            )
    if data.exists() and data.stat().st_size == 0:
        raise LogRefused(damaged(database, f"{DATA_NAME} is empty"))
    _keep_room_for_locks(locks)


def _keep_room_for_locks(locks: Path) -> None:
    descriptor = os.open(locks, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, LOCKS_BYTES)
    except OSError as error:
        error.filename = str(locks)
        raise
    finally:
        os.close(descriptor)


def check_length(database: Path, environment: Any) -> None:
    """After LMDB opened it, before anything is read: a page behind the file's end would kill the process. Raises
    LogRefused."""
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    length = (database / DATA_NAME).stat().st_size
    if length < needed:
        raise LogRefused(
            damaged(database, f"{DATA_NAME} has {length} bytes of {needed}: it was cut, or copied by half")
        )


def damaged(database: Path, why: str) -> str:
    return f"the data in {database} is damaged ({why}); {REJOIN}"


def storage_fault(error: BaseException, database: Path) -> str | None:
    """The line that says what happened to the disk and what to do; None if the error is not the disk's."""
    if isinstance(error, _DAMAGED):
        return damaged(database, str(error))
    if isinstance(error, lmdb.MapFullError):
        return f"the database in {database} has reached the size of its map; delete jobs, or start with a larger map"
    number = error.errno if isinstance(error, OSError) else getattr(error, "code", None)
    if not isinstance(error, lmdb.Error | OSError) or number is None:
        return None
    if number in _FULL or (number == errno.EIO and _is_full(database)):
        return f"the disk under {database} is full ({error}); {MAKE_ROOM}"
    if number == errno.EIO:
        return f"the disk under {database} does not work ({error}): look at the kernel's log; if it is lost, {REJOIN}"
    if number == errno.ENOENT and not database.exists():
        return f"{database} has gone: if it is not coming back, {REJOIN.removeprefix('move it away and ')}"
    if number == errno.EROFS:
        return (
            f"the file system under {database} is read-only ({error}): mount it for writing and start this node again"
        )
    return None


def _is_full(database: Path) -> bool:
    try:
        system = os.statvfs(database)
    except OSError:
        return False
    return system.f_bavail * system.f_frsize < FULL_BELOW_BYTES
