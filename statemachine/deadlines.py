"""Deadlines of runs: when one must have begun, and how long one may take, whatever becomes of its attempts.

`start_by_ms` counts from the release, for what has not begun: scheduled, waiting, parked. `end_by_ms` counts from the
first claim. lifecycle.py keeps whichever comes next in `deadlines`; the bucket's owner proposes Deadline then, and it
is judged by the cluster's clock, which lags behind a right one (clock.py): late rather than early.
"""

from __future__ import annotations

from typing import Any

from statemachine.commands import Deadline, PlainReply, Reply
from statemachine.lifecycle import deadline_ms, is_unbegun, skip
from statemachine.limits import TIME_MS_MAX
from statemachine.records import Job, Run, SkipReason
from statemachine.stopping import RUN_TIMEOUT, stop
from statemachine.work import Work


def deadline(work: Work, command: Deadline) -> Reply:
    """End a run whose deadline has passed."""
    run = work.run(command.run_id)
    if run is None:
        return PlainReply(code="unknown_run")
    if deadline_ms(run) != command.at_ms:
        return PlainReply(code="no_deadline")
    if work.clock_ms is None or work.clock_ms < command.at_ms:
        return PlainReply(code="clock_off")
    if is_late_to_begin(work, run):
        skip(work, run, SkipReason.DEADLINE.value)
    else:
        stop(work, run, RUN_TIMEOUT)
    return PlainReply()


def is_late_to_begin(work: Work, run: Run) -> bool:
    """Whether a run that has not begun must not begin any more."""
    start_by_ms, clock_ms = run.start_by_ms, work.clock_ms
    return start_by_ms is not None and clock_ms is not None and start_by_ms <= clock_ms and is_unbegun(run)


def is_out_of_time(run: Run, at_ms: int) -> bool:
    """Whether the run may not go on until then."""
    return run.end_by_ms is not None and at_ms >= run.end_by_ms


def start_by_ms(job: Job, release_ms: int) -> int | None:
    """By when a run of the job must have begun."""
    return None if job.start_deadline_s is None else _after(release_ms, job.start_deadline_s)


def end_by_fields(work: Work, run: Run) -> dict[str, Any]:
    """What a claim sets: the time that the run may take begins with its first one, at its release at the earliest."""
    job = work.job(run.job_id)
    if run.end_by_ms is not None or job is None or job.version != run.job_version or job.run_timeout_s is None:
        return {}
    return {"end_by_ms": _after(max(run.release_ms, work.now_ms), job.run_timeout_s)}


def _after(time_ms: int, seconds: float) -> int:
    return min(time_ms + round(seconds * 1000), TIME_MS_MAX)
