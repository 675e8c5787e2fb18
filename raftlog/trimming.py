"""How much of the log is kept, and for whom longer."""

from __future__ import annotations

from collections.abc import Callable

from raftlog import guards
from raftlog.config import RaftConfig
from raftlog.journal import LmdbJournal


class Trimming:
    """Takes away the oldest entries, a few a step, once the log is larger than what is to be kept. What is not applied
    here is never taken; the transaction that takes an entry holds the state that it is part of."""

    def __init__(self, config: RaftConfig, journal: LmdbJournal) -> None:
        self._config = config
        self._journal = journal
        self._seen = (0, 0)
        self.log_bytes = 0
        """As of the last look."""

    def step(self, applied_index: int, *, for_followers: Callable[[], float], for_copies: Callable[[], float]) -> None:
        """Once a tick. The callables give the last entry that followers have which are served from the log, and that
        those have or will have that get a copy of the state; infinity if there are none."""
        if (self._journal.last_index, applied_index) == self._seen:
            return
        self._seen = (self._journal.last_index, applied_index)
        self.log_bytes = self._journal.disk_bytes()
        times = max(self.log_bytes / self._config.log_keep_bytes, len(self._journal) / self._config.log_keep_entries)
        if times <= 1:
            return
        limit: float = applied_index
        if times <= self._config.log_keep_follower_times:
            limit = guards.held_back(limit, for_followers())
        if times <= self._config.log_keep_snapshot_times:
            limit = guards.held_back(limit, for_copies())
        excess = min(len(self._journal) - int(len(self._journal) / times), self._config.log_trim_entries_max)
        if limit > self._journal.first_index:
            self._journal.trim(int(limit), excess)
            self._seen = (0, 0)
