"""What becomes of runs when their job's definition changes (I8), and of ticks that two definitions share (I1).

An update withdraws what was never attempted. The old definition may have made runs of ticks that the new one has too:
such a run stays the tick's only one and is made anew, for the new definition, under the same token, so that tokens only
rise.
"""

from __future__ import annotations

import msgspec

from statemachine.keys import tick_row_key, unpack_row
from statemachine.lanes import lane_of
from statemachine.lifecycle import allows, change, deactivate, skip
from statemachine.records import Job, Run, RunKind, RunState, SkipReason
from statemachine.ticks import tell_owner
from statemachine.transitions import Move
from statemachine.work import Work


def scheduled_run(work: Work, job: Job, run_id: str, due_ms: int, release_ms: int) -> Run:
    """A run of a tick, as it begins."""
    waits = job.overlap_policy == "allow"
    return Run(
        run_id=run_id,
        job_id=job.job_id,
        job_version=job.version,
        team=job.team,
        kind=RunKind.SCHEDULED,
        due_ms=due_ms,
        release_ms=release_ms,
        priority=job.priority,
        state=RunState.QUEUED if waits else RunState.SCHEDULED,
        attempts_max=1 + job.max_retries,
        created_ms=work.now_ms,
        lane=lane_of(job) if waits else b"",
        run_on=job.run_on,
    )


def is_superseded(work: Work, run: Run) -> bool:
    """Its job is gone, or was changed before the run was ever attempted."""
    job = work.job(run.job_id)
    return job is None or (job.version != run.job_version and not run.attempts)


def supersede(work: Work, run: Run) -> None:
    """End a run of a definition that is gone; but if the new one has come past this tick already, counting on the run,
    make it anew. It waits among the timers, since this may happen in the middle of a hand-out."""
    job = work.job(run.job_id)
    if job is None or not _is_tick_of(work, job, run):
        skip(work, run, SkipReason.SUPERSEDED.value)
        return
    rearm(work, run, scheduled_run(work, job, run.run_id, run.due_ms, run.release_ms))
    tell_owner(work, run.job_id, run.release_ms)


def is_rearmed_by(run: Run, job: Job) -> bool:
    """Whether the job, coming to the tick of a run that exists, makes it anew. Not if somebody holds it: it is for the
    holder to withdraw it first."""
    if run.job_version == job.version or run.attempts or run.until_ms is not None:
        return False
    if run.state is RunState.SKIPPED:
        return run.reason == SkipReason.SUPERSEDED
    return run.state in (RunState.SCHEDULED, RunState.QUEUED)


def rearm(work: Work, before: Run, run: Run) -> Run:
    """Let `run` take the place of the one before it, as scheduled."""
    deactivate(work, before)
    fields = msgspec.structs.asdict(run) | {"token": before.token}
    del fields["state"]
    return change(work, before, Move.REARM, **fields)


def _is_tick_of(work: Work, job: Job, run: Run) -> bool:
    """The row of a tick says which definition came past it last."""
    if run.kind is not RunKind.SCHEDULED or run.attempts or not allows(run, Move.REARM):
        return False
    value = work.transaction.get(tick_row_key(job.job_id, run.due_ms), db=work.tables.job_runs)
    return value is not None and run.job_version != job.version and unpack_row(value)[0] == job.version
