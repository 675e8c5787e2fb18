"""The disk of a simulated machine: LMDB itself on a directory that outlives the processes, and the ways in which a disk
lets them down. Where LMDB can be brought to the fault it is LMDB's own (a full map, a damaged file)."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from node.kept_log import KeptLog
from node.live_files import LiveFiles
from node.log_folder import LogFolder
from raftlog.disk import LmdbDisk
from raftlog.process import database_path

MAP_BYTES = 256 * 1024 * 1024
PAGE_BYTES = 4096
DATA_NAME = "data.mdb"
LOG_BYTES_MAX = 8 * 1024 * 1024
"""Of the logs of attempts: some simulated runs reach it."""

FULL, ERRORS, FULL_MAP = "full", "errors", "full map"
TROUBLES = (FULL, ERRORS, FULL_MAP)
HEADER, CUT_OFF = "header", "cut off"
DAMAGES = (HEADER, CUT_OFF)


class SimulatedMachine:
    """What a node's processes find when they are started again."""

    def __init__(self, directory: Path, dice: random.Random, note: Callable[..., None]) -> None:
        self.directory = directory
        self.trouble: str | None = None
        """One of TROUBLES while the disk refuses."""
        self.is_narrow = False
        """The open map has no room to grow."""
        self.damaged = False
        self.wiped = False
        """Its first start is forgotten: it is not part of the cluster's any more."""
        self.is_to_be_lost = False
        """A fault under way will wipe it."""
        self._dice = dice
        self._note = note

    def open(self) -> SimulatedDisk:
        """As the log process opens it. Raises what LMDB says of a damaged store."""
        map_bytes = PAGE_BYTES if self.trouble == FULL_MAP else MAP_BYTES
        return SimulatedDisk(LmdbDisk(database_path(self.directory), map_bytes=map_bytes, synchronous=False), self)

    def wipe(self) -> None:
        """An empty disk in its place. Not while it is open."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.wiped, self.damaged, self.is_to_be_lost = True, False, False
        self._note("wiped")

    def damage(self, how: str) -> None:
        """Not while it is open."""
        path = database_path(self.directory) / DATA_NAME
        with path.open("r+b") as file:
            if how == HEADER:
                file.write(self._dice.randbytes(2 * PAGE_BYTES))
            else:
                os.ftruncate(file.fileno(), 2 * PAGE_BYTES)
        self.damaged = True
        self._note("damaged", how)

    def excuses(self) -> bool:
        """Whether an error of a process that uses the disk now is none of its own."""
        return self.damaged or self.is_narrow or self.trouble is not None

    def maybe_refuse_log(self) -> None:
        """Raises OSError while the disk is in trouble."""
        if self.trouble is not None:
            self._note("disk error", "log")
            raise OSError(errno.ENOSPC, "No space left on device")

    def refuse_commit(self, disk: LmdbDisk) -> None:
        """A full disk has nothing written; after an error of the device nobody knows, and LMDB neither."""
        if self.trouble == FULL:
            disk.abort()
            self._note("disk error", FULL)
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.trouble == ERRORS:
            if self._dice.random() < 0.5:
                disk.commit()
            disk.abort()
            self._note("disk error", ERRORS)
            raise OSError(errno.EIO, "Input/output error")


class SimulatedDisk:
    """A raftlog Disk."""

    def __init__(self, disk: LmdbDisk, machine: SimulatedMachine) -> None:
        self._disk = disk
        self._machine = machine
        machine.is_narrow = machine.trouble == FULL_MAP
        self._used = False
        """Since the last commit."""

    @property
    def environment(self) -> Any:
        return self._disk.environment

    @property
    def transaction(self) -> Any:
        self._used = True
        return self._disk.transaction

    def database(self, name: str) -> Any:
        return self._disk.database(name)

    def commit(self) -> bool:
        used, self._used = self._used, False
        if used:
            self._machine.refuse_commit(self._disk)
        committed = self._disk.commit()
        narrow = self._machine.trouble == FULL_MAP
        if narrow != self._machine.is_narrow and not self._is_read():
            # From the next transaction on LMDB itself says that its map is full: it never goes below what is used.
            # Whoever reads a copy of the state meanwhile would lose it, which no full disk does to anybody.
            self.environment.set_mapsize(PAGE_BYTES if narrow else MAP_BYTES)
            self._machine.is_narrow = narrow
        return committed

    def _is_read(self) -> bool:
        """Whether a transaction reads at this moment: LMDB lists them as (process, thread, transaction)."""
        _, *readers = self.environment.readers().splitlines()
        return any(not reader.endswith("-") for reader in map(str.strip, readers))

    def abort(self) -> None:
        self._used = False
        self._disk.abort()

    def close(self) -> None:
        self._disk.close()


class SimulatedLogFolder(LogFolder):
    """The logs of attempts, on the same disk."""

    def __init__(self, machine: SimulatedMachine) -> None:
        super().__init__(
            machine.directory / "logs",
            bytes_max=LOG_BYTES_MAX,
            make_files=lambda stem: SimulatedLiveFiles(stem, machine),
        )
        self._machine = machine

    def keep(self, run_id: str, attempt: int, log: KeptLog) -> None:
        self._machine.maybe_refuse_log()
        super().keep(run_id, attempt, log)


class SimulatedLiveFiles(LiveFiles):
    def __init__(self, stem: Path, machine: SimulatedMachine) -> None:
        super().__init__(stem)
        self._machine = machine

    def append_head(self, data: bytes) -> None:
        self._machine.maybe_refuse_log()
        super().append_head(data)

    def save_tail(self, offset: int, data: bytes) -> None:
        self._machine.maybe_refuse_log()
        super().save_tail(offset, data)
