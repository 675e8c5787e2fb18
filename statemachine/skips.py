"""Ranges of ticks that are not run: one record each, however many ticks (I2)."""

from __future__ import annotations

from statemachine.definition_commands import FireSkip
from statemachine.keys import run_id_of, tick_row_key
from statemachine.lifecycle import create, reason_word, skip
from statemachine.limits import DETAIL_LENGTH_MAX, INT_MAX, TIME_MS_MAX
from statemachine.records import Job, Run, RunKind, RunState, SkipReason
from statemachine.supersede import is_rearmed_by
from statemachine.work import Work

SKIP_REASONS = frozenset(reason.value for reason in SkipReason)


def is_skip(ticks: FireSkip) -> bool:
    """Whether the range can be one, within the limits."""
    return (
        1 <= ticks.count <= INT_MAX
        and ticks.from_ms + ticks.count - 1 <= ticks.until_ms
        and len(ticks.reason) <= DETAIL_LENGTH_MAX
        and reason_word(ticks.reason) in SKIP_REASONS
    )


def is_whole_skip(ticks: FireSkip, first_ms: int | None, until_ms: int) -> bool:
    """Whether it is a range from exactly this tick on, up to `until_ms` at most."""
    return is_skip(ticks) and 0 <= ticks.from_ms == first_ms and ticks.until_ms <= min(until_ms, TIME_MS_MAX)


def record_skip(work: Work, job: Job, ticks: FireSkip, row: bytes) -> None:
    """Write a range down, and the `row` at its beginning that says where the job goes on.

    An earlier definition may have made a run of the first tick. It stays that tick's record, and the range begins
    right behind it: else the rest of the range would have none."""
    from_ms, count = ticks.from_ms, ticks.count
    work.transaction.put(tick_row_key(job.job_id, from_ms), row, db=work.tables.job_runs)
    while count and (before := work.run(run_id_of(job.job_id, from_ms))) is not None:
        if before.state is not RunState.SKIPPED and is_rearmed_by(before, job):
            skip(work, before, ticks.reason)
        from_ms, count = from_ms + 1, count - 1
    if count:
        work.transaction.put(tick_row_key(job.job_id, from_ms), row, db=work.tables.job_runs)
        create(work, _range_of(work, job, from_ms, count, ticks))


def _range_of(work: Work, job: Job, from_ms: int, count: int, ticks: FireSkip) -> Run:
    return Run(
        run_id=run_id_of(job.job_id, from_ms),
        job_id=job.job_id,
        job_version=job.version,
        team=job.team,
        kind=RunKind.SCHEDULED,
        due_ms=from_ms,
        release_ms=from_ms,
        priority=job.priority,
        state=RunState.SKIPPED,
        reason=ticks.reason,
        created_ms=work.now_ms,
        finished_ms=work.now_ms,
        until_ms=ticks.until_ms,
        count=count,
    )
