"""What follows the end of a run for its job: one that dies too often may be paused, one whose last run is over deleted.

Judged when an end is settled, a second or two after it, never on the tick's path.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from statemachine.history_records import JobStats
from statemachine.jobs import remove_job
from statemachine.keys import row_prefix, row_run_id
from statemachine.limits import COMPLETED_SCAN_MAX
from statemachine.pausing import pause
from statemachine.records import FINAL_STATES, Job, Run
from statemachine.ticks import first_unrecorded, rows_before
from statemachine.work import Work


def follow(work: Work, job: Job, stats: JobStats) -> JobStats:
    """Something of the live job has ended; its definition may ask for more than that it is counted."""
    if job.after_completion == "delete" and _is_completed(work, job):
        remove_job(work, job)
        return stats
    return stats if job.pause_on_failure is None else _maybe_pause(work, job, job.pause_on_failure, stats)


def _maybe_pause(work: Work, job: Job, failures_max: int, stats: JobStats) -> JobStats:
    """Pause a job after so many dead runs in a row; after a resume, as many anew. Those that die while it is paused are
    no reason to pause it again."""
    if job.paused_ms is None:
        if stats.consecutive_failures - stats.failures_answered < failures_max:
            return stats
        pause(work, job, f"pause_on_failure: {stats.consecutive_failures} dead runs in a row")
    return replace(stats, failures_answered=stats.consecutive_failures)


def _is_completed(work: Work, job: Job) -> bool:
    """Whether the job has no tick to come and no run that is not over, as far as its newest runs say."""
    if first_unrecorded(work.transaction, work.tables, job) is not None:
        return False
    return all(run.state in FINAL_STATES for run in _newest_runs(work, job))


def _newest_runs(work: Work, job: Job) -> Iterator[Run]:
    for scheduled in (True, False):
        rows = rows_before(work.transaction, work.tables, row_prefix(job.job_id, scheduled=scheduled), None)
        for key, _ in islice(rows, COMPLETED_SCAN_MAX):
            run = work.run(row_run_id(job.job_id, key))
            assert run is not None, "a row must have its run"
            yield run
