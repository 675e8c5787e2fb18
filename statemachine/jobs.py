"""PutJob and DeleteJob: a job's definition, its name, its idempotency key and the tick that it stands at."""

from __future__ import annotations

import msgspec

from statemachine.calendars import discharge, enlist, unknown_calendar
from statemachine.commands import DeleteJob, JobDeleted, JobReply, JobUpdated, PutJob
from statemachine.concurrency import is_judged
from statemachine.definition import flaw_of
from statemachine.definitions import archive, remember_job, repeated
from statemachine.keys import pack_row, pair_key, team_prefix
from statemachine.overlap import mark_active_runs
from statemachine.records import Job
from statemachine.run_limits import forget_runs_made
from statemachine.skips import is_whole_skip, record_skip
from statemachine.ticks import first_unrecorded, last_version, leave_tick, stand_at, tell_owner
from statemachine.work import EVERY_NODE, Work


def put_job(work: Work, command: PutJob) -> JobReply:
    """Create or replace a job."""
    job = command.job
    flaw = flaw_of(job)
    if flaw is None and job.version != command.expected_version + 1:
        flaw = "job.version must be expected_version + 1"
    if flaw is not None:
        return JobReply(code="malformed", detail=flaw)
    answer = repeated(work, job.team, command)
    if answer is not None:
        return answer
    unknown = unknown_calendar(work, job)
    if unknown is not None:
        return JobReply(code="unknown_calendar", detail=unknown)
    if work.is_off(command.now_ms):
        # Its first tick was computed by that clock: the ticks before it would never come.
        return JobReply(code="clock_off")
    return _create(work, command) if command.expected_version == 0 else _replace(work, command)


def delete_job(work: Work, command: DeleteJob) -> JobReply:
    """Take a job away; its last definition goes to the archive, for its history."""
    job = work.job(command.job_id)
    if job is None:
        return JobReply(code="unknown_job")
    if command.expected_version not in (None, job.version):
        return JobReply(code="version_conflict", job_id=job.job_id, version=job.version)
    remove_job(work, job)
    return JobReply(job_id=job.job_id, version=job.version)


def remove_job(work: Work, job: Job) -> None:
    """What deleting a live job is, whoever wished it."""
    leave_tick(work, job)
    forget_runs_made(work, job)
    _unlist(work, job)
    work.drop_job(job.job_id)
    archive(work, msgspec.structs.replace(job, deleted_ms=work.now_ms))
    work.count("jobs", -1)
    work.usage[job.team].jobs -= 1
    work.emit(EVERY_NODE, JobDeleted(job_id=job.job_id))


def _create(work: Work, command: PutJob) -> JobReply:
    job = command.job
    taken = work.job(job.job_id)
    if taken is not None or last_version(work.transaction, work.tables, job.job_id) is not None:
        return JobReply(code="version_conflict", job_id=job.job_id, version=None if taken is None else taken.version)
    if _is_name_taken(work, job):
        return JobReply(code="name_taken")
    use, team = work.usage[job.team], work.team_record(job.team)
    if team is not None and team.max_jobs is not None and use.jobs >= team.max_jobs:
        return JobReply(code="jobs_limit", detail=f"team {job.team} may have {team.max_jobs} jobs")
    use.jobs += 1
    work.count("jobs")
    _settle(work, job)
    remember_job(work, job, command)
    return JobReply(job_id=job.job_id, version=job.version, next_ms=job.first_due_ms)


def _replace(work: Work, command: PutJob) -> JobReply:
    job, before = command.job, work.job(command.job.job_id)
    if before is None:
        return JobReply(code="unknown_job")
    if before.version != command.expected_version:
        return JobReply(code="version_conflict", job_id=job.job_id, version=before.version)
    if before.team != job.team:
        return JobReply(code="malformed", detail="a job stays with its team")
    if before.name != job.name and _is_name_taken(work, job):
        return JobReply(code="name_taken")
    if not _is_accounted_for(work, before, command):
        return JobReply(code="not_due", job_id=job.job_id, version=before.version)
    leave_tick(work, before)
    if command.skip is not None:
        record_skip(work, before, command.skip, pack_row(before.version, None))
    job = msgspec.structs.replace(job, paused_ms=before.paused_ms, pause_reason=before.pause_reason)
    if job.max_runs is None:
        forget_runs_made(work, before)
    _unlist(work, before)
    archive(work, before)
    _settle(work, job)
    if is_judged(job) and not is_judged(before):
        mark_active_runs(work, job)
    remember_job(work, job, command)
    work.emit(EVERY_NODE, JobUpdated(job_id=job.job_id, version=job.version))
    next_ms = job.first_due_ms if job.paused_ms is None else None
    return JobReply(job_id=job.job_id, version=job.version, next_ms=next_ms)


def _is_accounted_for(work: Work, before: Job, command: PutJob) -> bool:
    """Whether no tick of the definition before is passed over without a word (I2): one whose time is past, so that it
    should have a run, or that came before the job was paused. The new one may stand at that tick itself."""
    tick_ms = first_unrecorded(work.transaction, work.tables, before)
    until_ms = command.now_ms if before.paused_ms is None else before.paused_ms
    if command.skip is not None:
        return is_whole_skip(command.skip, tick_ms, until_ms)
    if tick_ms is None or tick_ms + before.jitter_s * 1000 >= until_ms:
        return True
    return command.job.first_due_ms is not None and command.job.first_due_ms <= tick_ms


def _settle(work: Work, job: Job) -> None:
    """Store the job, list it, and let it stand at its first tick."""
    work.put_job(job)
    work.transaction.put(pair_key(job.name, job.team), job.job_id.encode(), db=work.tables.job_names)
    work.transaction.put(team_prefix(job.team) + job.job_id.encode(), b"", db=work.tables.team_jobs)
    enlist(work, job)
    if job.first_due_ms is not None and job.paused_ms is None:
        stand_at(work, job, job.first_due_ms)
        tell_owner(work, job.job_id, job.first_due_ms)


def _unlist(work: Work, job: Job) -> None:
    discharge(work, job)
    work.transaction.delete(pair_key(job.name, job.team), db=work.tables.job_names)
    work.transaction.delete(team_prefix(job.team) + job.job_id.encode(), db=work.tables.team_jobs)


def _is_name_taken(work: Work, job: Job) -> bool:
    return work.transaction.get(pair_key(job.name, job.team), db=work.tables.job_names) is not None
