"""The logs of ended attempts on this node's disk: one file each under <data-dir>/logs.

A folder holds the runs due in the same five hours or so (the head of the run id is its due time), so that no
folder grows without end and old ones go as a whole. A file appears under its name only when it is complete. It is not
synced: a log is worth less than the time of an fsync, and the result it belongs to is in the state.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

from node.kept_log import KeptLog, packed, unpacked
from node.live_files import LiveFiles

FOLDERS_PRUNED_MAX = 16
"""Outdated folders that one call removes."""
FOLDER_DIGITS = 6
"""Of the due time's 12 hex digits: 2**24 ms, 4.7 hours, a folder."""
FOLDER_SHIFT = (12 - FOLDER_DIGITS) * 4
SHRUNK_TO = 0.95
"""Of what a node may keep: it is not at its limit again with the next log."""
BLOCK_BYTES = 4096
"""What the smallest file takes of a disk."""
_FOLDER = re.compile(rf"[0-9a-f]{{{FOLDER_DIGITS}}}\Z")
_RUN_ID = re.compile(r"[0-9a-f]{12}-[0-9A-Za-z_-]{1,120}\Z")
_LIVE_NAME = re.compile(r"([0-9a-f]{12}-[0-9A-Za-z_-]{1,120})\.([0-9]{1,9})\.(?:head|tail)\Z")
SUFFIX = ".log.gz"
LIVE, LEFT_BEHIND, WAITING = "live", "left-behind", "to-upload"


class LogFolder:
    """Blocking calls of a few file operations each, safe in threads. `bytes_max`: what the disk may hold of it."""

    def __init__(self, path: Path, *, bytes_max: int, make_files: Callable[[Path], LiveFiles] = LiveFiles) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._make_files = make_files
        self._lock = Lock()
        self._bytes: dict[str, int] = {}
        """What each folder takes of the disk, once `measure` has looked."""

    # --- attempts that run

    def live_files(self, run_id: str, attempt: int) -> LiveFiles:
        return self._make_files(self._path / LIVE / _name(run_id, attempt))

    def set_live_aside(self) -> None:
        """Before the first attempt of this process: what is there was left behind by one that was killed. Raises
        OSError."""
        live, aside = self._path / LIVE, self._path / LEFT_BEHIND
        for path in list(live.iterdir()) if live.is_dir() else ():
            aside.mkdir(exist_ok=True)
            path.replace(aside / path.name)

    def left_behind(self) -> Iterator[tuple[str, int, LiveFiles]]:
        """The attempts whose node was killed."""
        aside = self._path / LEFT_BEHIND
        names = {path.name for path in aside.iterdir()} if aside.is_dir() else set()
        for run_id, attempt in sorted({(found[1], int(found[2])) for found in map(_LIVE_NAME.match, names) if found}):
            yield run_id, attempt, self._make_files(aside / _name(run_id, attempt))

    # --- attempts that have ended

    def keep(self, run_id: str, attempt: int, log: KeptLog) -> None:
        """Raises OSError when the disk refuses."""
        data = packed(log)
        path = self._file(run_id, attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        try:
            fresh.write_bytes(data)
            fresh.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
        self._count(path.parent.name, _disk_bytes(len(data)))

    def read(self, run_id: str, attempt: int) -> KeptLog | None:
        """None when it is not here. Raises DamagedLog, and OSError when the disk refuses."""
        with contextlib.suppress(FileNotFoundError):
            return unpacked(self._file(run_id, attempt).read_bytes())
        return None

    def remove(self, run_id: str, attempts: int) -> None:
        """Forget the logs of a run that had so many attempts."""
        for attempt in range(1, attempts + 1):
            path = self._file(run_id, attempt)
            size = _size(path)
            with contextlib.suppress(OSError):
                path.unlink()
                self._count(path.parent.name, -size)

    # --- those that are to go to a store

    def make_wait(self, run_id: str, attempt: int) -> str:
        """Hold a kept log, whatever becomes of the file, until `end_wait`. Answers the name it waits under. Raises
        OSError."""
        path = self._file(run_id, attempt)
        held = self._path / WAITING / path.name
        held.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            held.hardlink_to(path)
        return path.name

    def waiting(self) -> list[str]:
        """Due first, first."""
        held = self._path / WAITING
        return sorted(path.name for path in held.iterdir() if path.name.endswith(SUFFIX)) if held.is_dir() else []

    def read_waiting(self, name: str) -> bytes | None:
        """None when it has gone. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            return (self._path / WAITING / name).read_bytes()
        return None

    def end_wait(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._path / WAITING / name).unlink()

    # --- keeping it bounded

    def prune(self, before_ms: int) -> int:
        """Remove folders whose runs were all due before; at most FOLDERS_PRUNED_MAX. Returns how many went."""
        first_kept = max(before_ms, 0) >> FOLDER_SHIFT
        outdated = [name for name in self._folders() if int(name, 16) < first_kept][:FOLDERS_PRUNED_MAX]
        for name in outdated:
            self._remove_folder(name)
        return len(outdated)

    def measure(self) -> None:
        """Look what is there; from then on it is counted."""
        for name in self._folders():
            size = sum(map(_size, (self._path / name).iterdir()))
            with self._lock:
                self._bytes[name] = size

    @property
    def disk_bytes(self) -> int:
        with self._lock:
            return sum(self._bytes.values())

    @property
    def is_too_large(self) -> bool:
        return self.disk_bytes > self._bytes_max

    def shrink(self) -> int:
        """Remove the logs of the runs that were due first, until there is room again. Returns the bytes freed."""
        excess = before = self.disk_bytes
        excess -= round(self._bytes_max * SHRUNK_TO) if self.is_too_large else before
        for name in self._folders():
            if excess <= 0:
                break
            excess -= self._remove_folder(name) if self._bytes.get(name, 0) <= excess else self._thin_out(name, excess)
        return before - self.disk_bytes

    def _thin_out(self, name: str, excess: int) -> int:
        freed = 0
        for path in sorted((self._path / name).glob("*" + SUFFIX)):
            if freed >= excess:
                break
            size = _size(path)
            path.unlink(missing_ok=True)
            freed += size
        self._count(name, -freed)
        return freed

    def _remove_folder(self, name: str) -> int:
        shutil.rmtree(self._path / name, ignore_errors=True)
        with self._lock:
            return self._bytes.pop(name, 0)

    def _folders(self) -> list[str]:
        """Oldest first."""
        if not self._path.is_dir():
            return []
        return sorted(entry.name for entry in self._path.iterdir() if _FOLDER.match(entry.name))

    def _count(self, name: str, size: int) -> None:
        with self._lock:
            self._bytes[name] = self._bytes.get(name, 0) + size

    def _file(self, run_id: str, attempt: int) -> Path:
        return self._path / run_id[:FOLDER_DIGITS] / f"{_name(run_id, attempt)}{SUFFIX}"


def is_run_id(text: str) -> bool:
    """Whether it can be the id of a run, and so the name of a file."""
    return _RUN_ID.match(text) is not None


def _name(run_id: str, attempt: int) -> str:
    assert is_run_id(run_id), "a run id names a file"
    return f"{run_id}.{attempt}"


def _size(path: Path) -> int:
    """What a file takes of the disk; nothing when it has gone."""
    try:
        return _disk_bytes(path.stat().st_size)
    except OSError:
        return 0


def _disk_bytes(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
