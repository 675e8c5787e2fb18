"""PauseJob and ResumeJob: a job's schedule stops, and goes on (I8).

Each is a new version of the definition, so whatever was made of ticks before is superseded by it, as by any update.
What was asked for by hand (a manual run, a backfill) is no tick: it goes on under the new version.
"""

from __future__ import annotations

import msgspec

from statemachine.commands import JobReply, JobUpdated, PauseJob, ResumeJob
from statemachine.definitions import archive, remember_job, repeated
from statemachine.keys import pack_row
from statemachine.records import Job
from statemachine.skips import is_whole_skip, record_skip
from statemachine.ticks import leave_tick, next_tick, stand_at, tell_owner
from statemachine.work import EVERY_NODE, Work


def pause_job(work: Work, command: PauseJob) -> JobReply:
    """Stop a job's schedule; one that is paused stays so."""
    job = work.job(command.job_id)
    if job is None:
        return JobReply(code="unknown_job")
    answer = repeated(work, job.team, command)
    if answer is not None:
        return answer
    if command.expected_version not in (None, job.version):
        return JobReply(code="version_conflict", job_id=job.job_id, version=job.version)
    if job.paused_ms is None:
        job = pause(work, job, command.reason)
    remember_job(work, job, command)
    return JobReply(job_id=job.job_id, version=job.version)


def resume_job(work: Work, command: ResumeJob) -> JobReply:
    """Let a job's schedule go on; one that is not paused stays as it is."""
    job = work.job(command.job_id)
    if job is None:
        return JobReply(code="unknown_job")
    answer = repeated(work, job.team, command)
    if answer is not None:
        return answer
    if command.expected_version != job.version:
        return JobReply(code="version_conflict", job_id=job.job_id, version=job.version)
    if job.paused_ms is not None:
        if not _is_accounted_for(job, command):
            return JobReply(code="malformed", detail="the ticks of the pause must be accounted for")
        if work.is_off(command.now_ms):
            # The tick that it goes on at was computed by that clock.
            return JobReply(code="clock_off")
        job = _resume(work, job, command)
    remember_job(work, job, command)
    next_ms = next_tick(work.transaction, work.tables, job)
    return JobReply(job_id=job.job_id, version=job.version, next_ms=next_ms)


def pause(work: Work, job: Job, reason: str | None) -> Job:
    """What pausing a job that is not paused is, whoever wished it; the paused job."""
    stands_at_ms = next_tick(work.transaction, work.tables, job)
    leave_tick(work, job)
    return _put_next(
        work, job, paused_ms=work.now_ms, pause_reason=reason, first_due_ms=stands_at_ms, updated_ms=work.now_ms
    )


def _resume(work: Work, job: Job, command: ResumeJob) -> Job:
    due_ms = command.first_due_ms
    resumed = _put_next(work, job, paused_ms=None, pause_reason=None, first_due_ms=due_ms, updated_ms=work.now_ms)
    if command.skip is not None:
        record_skip(work, resumed, command.skip, pack_row(resumed.version, due_ms))
    if due_ms is not None:
        stand_at(work, resumed, due_ms)
        tell_owner(work, job.job_id, due_ms)
    return resumed


def _put_next(work: Work, job: Job, **fields: str | int | None) -> Job:
    archive(work, job)
    changed = msgspec.structs.replace(job, version=job.version + 1, **fields)
    work.put_job(changed)
    work.emit(EVERY_NODE, JobUpdated(job_id=job.job_id, version=changed.version))
    return changed


def _is_accounted_for(job: Job, command: ResumeJob) -> bool:
    """Whether no tick falls between the range that is skipped and the tick that the job goes on at (I2)."""
    if command.skip is not None:
        until_ms = command.now_ms if command.first_due_ms is None else command.first_due_ms - 1
        return is_whole_skip(command.skip, job.first_due_ms, until_ms)
    if job.first_due_ms is None:
        return True
    return command.first_due_ms is not None and command.first_due_ms <= job.first_due_ms
