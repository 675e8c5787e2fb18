"""What becomes of runs when their job's definition changes (I8), and of ticks that two definitions share (I1).

An update withdraws what was never attempted. The old definition may have made runs of ticks that the new one has too:
such a run stays the tick's only one and is made anew, for the new definition, under the same token, so that tokens only
rise.
"""

from __future__ import annotations

import msgspec

from statemachine.codec import decode_job
from statemachine.concurrency import is_judged
from statemachine.deadlines import start_by_ms
from statemachine.keys import archive_key, tick_row_key, unpack_row
from statemachine.lanes import lane_of
from statemachine.lifecycle import allows, change, deactivate, skip
from statemachine.records import Job, Run, RunKind, RunState, SkipReason
from statemachine.ticks import tell_owner
from statemachine.transitions import Move
from statemachine.work import Work

_TAKEN_BACK = (SkipReason.SUPERSEDED, SkipReason.PAUSED)
"""Why a run may have been skipped that a later definition makes anew."""


def scheduled_run(work: Work, job: Job, run_id: str, due_ms: int, release_ms: int, *, catch_up: bool = False) -> Run:
    """A run of a tick, as it begins."""
    must_wait = catch_up or is_judged(job)
    return Run(
        run_id=run_id,
        job_id=job.job_id,
        job_version=job.version,
        team=job.team,
        kind=RunKind.SCHEDULED,
        due_ms=due_ms,
        release_ms=release_ms,
        priority=job.priority,
        state=RunState.SCHEDULED if must_wait else RunState.QUEUED,
        attempts_max=1 + job.max_retries,
        created_ms=work.now_ms,
        lane=b"" if must_wait else lane_of(work, job),
        run_on=job.run_on,
        catch_up=catch_up,
        start_by_ms=start_by_ms(job, release_ms),
    )


def is_superseded(work: Work, run: Run) -> bool:
    """Its job is gone, or was changed before the run was ever attempted."""
    job = work.job(run.job_id)
    return job is None or (job.version != run.job_version and not run.attempts)


def supersede(work: Work, run: Run) -> None:
    """End a run of a definition that is gone, unless somebody still counts on it: the new one has come past this tick
    already, or the run was asked for by hand. Then it is made anew. It waits among the timers, since this may happen in
    the middle of a hand-out."""
    job = work.job(run.job_id)
    if job is None or not _is_counted_on(work, job, run):
        skip(work, run, _reason(work, job, run).value)
        return
    fresh = scheduled_run(work, job, run.run_id, run.due_ms, run.release_ms, catch_up=run.catch_up)
    rearm(work, run, msgspec.structs.replace(fresh, kind=run.kind, args=run.args, overlap_policy=run.overlap_policy))
    tell_owner(work, run.job_id, run.release_ms)


def is_rearmed_by(run: Run, job: Job) -> bool:
    """Whether the job, coming to the tick of a run that exists, makes it anew. Not if somebody holds it: it is for the
    holder to withdraw it first."""
    if run.job_version == job.version or run.attempts or run.until_ms is not None:
        return False
    if run.state is RunState.SKIPPED:
        return run.reason in _TAKEN_BACK
    return run.state in (RunState.SCHEDULED, RunState.QUEUED)


def rearm(work: Work, before: Run, run: Run) -> Run:
    """Let `run` take the place of the one before it, as scheduled."""
    deactivate(work, before)
    fields = msgspec.structs.asdict(run) | {"token": before.token}
    del fields["state"]
    return change(work, before, Move.REARM, **fields)


def _is_counted_on(work: Work, job: Job, run: Run) -> bool:
    """What was asked for by hand belongs to the job, whatever its definition. A tick belongs to the definition that
    came past it last, as its row says."""
    if run.attempts or run.job_version == job.version or not allows(run, Move.REARM):
        return False
    if run.kind is not RunKind.SCHEDULED:
        return True
    value = work.transaction.get(tick_row_key(job.job_id, run.due_ms), db=work.tables.job_runs)
    return value is not None and unpack_row(value)[0] == job.version


def _reason(work: Work, job: Job | None, run: Run) -> SkipReason:
    """What ended the definition of a run: the change that came right after it, if it is still known."""
    after = job
    if job is not None and job.version > run.job_version + 1:
        value = work.transaction.get(archive_key(job.job_id, run.job_version + 1), db=work.tables.job_archive)
        after = None if value is None else decode_job(value)
    return SkipReason.SUPERSEDED if after is None or after.paused_ms is None else SkipReason.PAUSED
