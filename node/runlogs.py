"""The kept output of attempts: one file each under <data-dir>/logs, on the node that ran the attempt.

A folder holds the runs due in the same five hours or so (the head of the run id is its due time), so that no
folder grows without end and old ones go as a whole. A file appears under its name only when it is complete. It is not
synced: a log is worth less than the time of an fsync, and the result it belongs to is in the state.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from node.interface import NotFound, RunLog

FOLDERS_PRUNED_MAX = 16
"""Outdated folders that one call removes."""
FOLDER_DIGITS = 6
"""Of the due time's 12 hex digits: 2**24 ms, 4.7 hours, a folder."""
FOLDER_SHIFT = (12 - FOLDER_DIGITS) * 4
_RUN_ID = re.compile(r"[0-9a-f]{12}-[0-9A-Za-z_-]{1,120}\Z")
_CUT = ".cut"


class RunLogs:
    """Reads and writes the logs of one node. Blocking calls of a few file operations each."""

    def __init__(self, folder: Path, *, node: str) -> None:
        self._folder = folder
        self._node = node
        self._first_kept = 0

    def write(self, run_id: str, attempt: int, output: bytes, *, truncated: bool) -> int:
        """Keep an attempt's output; returns its length. Raises OSError when the disk refuses."""
        path = self._path(run_id, attempt, cut=truncated)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        fresh.write_bytes(output)
        fresh.replace(path)
        return len(output)

    def read(self, run_id: str, attempt: int) -> RunLog | None:
        """An attempt's log; None when it is not here: it was empty, is of another node, or was pruned. Raises NotFound
        for what cannot be the id of a run."""
        if _RUN_ID.match(run_id) is None:
            raise NotFound(f"There is no run {run_id!r}.")
        for cut in (False, True):
            with contextlib.suppress(FileNotFoundError):
                output = self._path(run_id, attempt, cut=cut).read_bytes()
                return RunLog(attempt=attempt, output=output, truncated=cut)
        return None

    def check_kept(self, run_id: str) -> None:
        """Raises NotFound for a run that is so old that its logs are gone or about to go."""
        if int(run_id[:FOLDER_DIGITS], 16) < self._first_kept:
            raise NotFound(f"Run {run_id} is so old that node {self._node} no longer keeps its logs.")

    def prune(self, before_ms: int) -> int:
        """Remove folders whose runs were all due before; at most FOLDERS_PRUNED_MAX. Returns how many went."""
        first_kept = self._first_kept = max(before_ms, 0) >> FOLDER_SHIFT
        if not self._folder.is_dir():
            return 0
        names = sorted(entry.name for entry in self._folder.iterdir() if _is_folder_name(entry.name))
        outdated = [name for name in names if int(name, 16) < first_kept][:FOLDERS_PRUNED_MAX]
        for name in outdated:
            shutil.rmtree(self._folder / name, ignore_errors=True)
        return len(outdated)

    def _path(self, run_id: str, attempt: int, *, cut: bool) -> Path:
        assert _RUN_ID.match(run_id), "a run id names a file"
        return self._folder / run_id[:FOLDER_DIGITS] / f"{run_id}.{attempt}{_CUT if cut else ''}.log"


def _is_folder_name(name: str) -> bool:
    return re.fullmatch(rf"[0-9a-f]{{{FOLDER_DIGITS}}}", name) is not None
