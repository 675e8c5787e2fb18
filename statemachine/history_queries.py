"""What can be asked of the state about what is over: the part of a snapshot that reads history and what is owed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from statemachine.codec import decode_notification
from statemachine.history_records import JobStats, Notification
from statemachine.keys import outbox_key
from statemachine.limits import PRUNED_RUNS_MAX
from statemachine.outbox import read_outbox
from statemachine.records import Job
from statemachine.retention import Forgettable, Keep, deleted_jobs, forgettable
from statemachine.settling import read_stats
from statemachine.tables import Tables


class HistoryQueries:
    """Of one transaction, as all of a snapshot."""

    _transaction: Any
    _tables: Tables

    def job_stats(self, job_id: str) -> JobStats:
        """The history of a job that exists, as far as it is settled: a second or two behind its runs."""
        return read_stats(self._transaction, self._tables, job_id)

    def notifications_until(self, horizon_ms: int) -> Iterator[Notification]:
        """What is owed and is to be sent up to the horizon, the first first."""
        end = outbox_key(horizon_ms + 1, 0)
        for key, value in self._transaction.cursor(db=self._tables.outbox):
            if key >= end:
                return
            yield decode_notification(value)

    def notifications_pending(self) -> int:
        """How many notifications are owed."""
        return read_outbox(self._transaction, self._tables)[1]

    def deleted_jobs(self, after_id: str | None = None, limit: int = 50) -> list[Job]:
        """Deleted jobs as they were last, in order of id, after `after_id`."""
        return list(islice(deleted_jobs(self._transaction, self._tables, after_id), limit))

    def forgettable(self, job: Job, keep: Keep, now_ms: int, runs_max: int = PRUNED_RUNS_MAX) -> Forgettable:
        """What of the job may go, if `keep` is how much of it stays; `now_ms` is the cluster's clock."""
        return forgettable(self._transaction, self._tables, job, keep, now_ms, runs_max)
