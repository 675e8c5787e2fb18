"""What the nodes' data directories say while a live cluster runs: each node's committed entries are read beside it and
compared, entry by entry, with what the others have at the same index."""

from __future__ import annotations

import bisect
from pathlib import Path

from chaos.replica_state import ApplierView
from raftlog.log_reader import LoggedEntry, LogMissing, LogReader
from raftlog.process import database_path
from statemachine.reader import StateMissing, StateReader

ENTRIES_A_LOOK = 2_000
"""Of one node: the harness must not stand still for long."""


class Replica:
    """One node's data directory, read from outside. It may be missing, and may be wiped and made anew."""

    def __init__(self, node: str, data_dir: Path) -> None:
        self.node = node
        self.next_index = 1
        """Everything below has been compared."""
        self._path = database_path(data_dir)
        self._inode: int | None = None
        self._log: LogReader | None = None
        self._state: StateReader | None = None

    def look(self, shared: SharedLog, at_s: float) -> None:
        """Compare what this node has committed since the last look."""
        if not self._open():
            return
        assert self._log is not None and self._state is not None
        with self._state.snapshot() as snapshot:
            applied = snapshot.applied_index()
        committed = self._log.committed(self.next_index, entries_max=ENTRIES_A_LOOK)
        for entry in committed.entries:
            if entry.has_content:
                shared.heard(self.node, entry)
            self.next_index = entry.index + 1
        if not committed.entries:
            self.next_index = max(self.next_index, min(committed.first_index, committed.commit_index + 1))
        shared.applied(applied, at_s)

    def state(self) -> ApplierView | None:
        """The state's reader, None while there is no state."""
        return self._state if self._open() else None

    def close(self) -> None:
        """Must be called before the directory is wiped or unmounted."""
        if self._log is not None:
            self._log.close()
        self._log = self._state = None
        self._inode = None
        self.next_index = 1

    def _open(self) -> bool:
        inode = _inode_of(self._path / "data.mdb")
        if inode != self._inode:
            self.close()
        if self._log is None and inode is not None:
            try:
                self._log = LogReader(self._path)
                self._state = StateReader(self._log.environment)
            except (LogMissing, StateMissing):
                self.close()
                return False
            self._inode = inode
        return self._log is not None


def _inode_of(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


class SharedLog:
    """The entries that any node has committed, by index; and when the first node was seen to have applied them."""

    def __init__(self) -> None:
        self.entries: dict[int, LoggedEntry] = {}
        self.parted: list[str] = []
        self._applied: list[int] = []
        self._seen_s: list[float] = []

    def heard(self, node: str, entry: LoggedEntry) -> None:
        known = self.entries.setdefault(entry.index, entry)
        if known != entry:
            self.parted.append(f"{node} has committed another entry at {entry.index} than the first node")

    def applied(self, index: int, at_s: float) -> None:
        if not self._applied or index > self._applied[-1]:
            self._applied.append(index)
            self._seen_s.append(at_s)

    def applied_s(self, index: int) -> float:
        """When a node was first seen to have applied the entry: at most a look (and a pause of the harness) late."""
        position = bisect.bisect_left(self._applied, index)
        return self._seen_s[min(position, len(self._seen_s) - 1)] if self._seen_s else 0.0

    def holes(self) -> list[int]:
        """Indices that no node showed before it trimmed them: the truth is not whole then."""
        last = max(self.entries, default=0)
        return [index for index in range(1, last + 1) if index not in self.entries]
