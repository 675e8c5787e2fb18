"""PutJob and DeleteJob: a job's definition, its name, its idempotency key and the tick that it stands at."""

from __future__ import annotations

import msgspec

from statemachine.codec import encode
from statemachine.commands import DeleteJob, JobDeleted, JobReply, JobUpdated, PutJob
from statemachine.definition import flaw_of
from statemachine.idempotency import entry_of, remember
from statemachine.keys import archive_key, pair_key, team_prefix
from statemachine.limits import JOB_VERSIONS_KEPT_MAX
from statemachine.records import IdempotencyEntry, Job
from statemachine.release import mark_active_runs
from statemachine.ticks import last_version, leave_tick, next_tick, stand_at, tell_owner
from statemachine.work import EVERY_NODE, Work


def put_job(work: Work, command: PutJob) -> JobReply:
    """Create or replace a job."""
    job = command.job
    flaw = flaw_of(job)
    if flaw is None and job.version != command.expected_version + 1:
        flaw = "job.version must be expected_version + 1"
    if flaw is not None:
        return JobReply(code="malformed", detail=flaw)
    repeated = _repeated(work, command)
    if repeated is not None:
        return repeated
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
    leave_tick(work, job)
    _unlist(work, job)
    work.drop_job(job.job_id)
    _archive(work, msgspec.structs.replace(job, deleted_ms=work.now_ms))
    work.count("jobs", -1)
    work.usage.of(job.team).jobs -= 1
    work.emit(EVERY_NODE, JobDeleted(job_id=job.job_id))
    return JobReply(job_id=job.job_id, version=job.version)


def _create(work: Work, command: PutJob) -> JobReply:
    job = command.job
    taken = work.job(job.job_id)
    if taken is not None or last_version(work.transaction, work.tables, job.job_id) is not None:
        return JobReply(code="version_conflict", job_id=job.job_id, version=None if taken is None else taken.version)
    if _is_name_taken(work, job):
        return JobReply(code="name_taken")
    use, team = work.usage.of(job.team), work.team_record(job.team)
    if team is not None and team.max_jobs is not None and use.jobs >= team.max_jobs:
        return JobReply(code="jobs_limit", detail=f"team {job.team} may have {team.max_jobs} jobs")
    use.jobs += 1
    work.count("jobs")
    _settle(work, job)
    _remember(work, command)
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
    leave_tick(work, before)
    _unlist(work, before)
    _archive(work, before)
    _settle(work, job)
    if before.overlap_policy == "allow" != job.overlap_policy:
        mark_active_runs(work, job)
    _remember(work, command)
    work.emit(EVERY_NODE, JobUpdated(job_id=job.job_id, version=job.version))
    return JobReply(job_id=job.job_id, version=job.version, next_ms=job.first_due_ms)


def _settle(work: Work, job: Job) -> None:
    """Store the job, list it, and let it stand at its first tick."""
    work.put_job(job)
    work.transaction.put(pair_key(job.name, job.team), job.job_id.encode(), db=work.tables.job_names)
    work.transaction.put(team_prefix(job.team) + job.job_id.encode(), b"", db=work.tables.team_jobs)
    if job.first_due_ms is not None:
        stand_at(work, job, job.first_due_ms)
        tell_owner(work, job.job_id, job.first_due_ms)


def _unlist(work: Work, job: Job) -> None:
    work.transaction.delete(pair_key(job.name, job.team), db=work.tables.job_names)
    work.transaction.delete(team_prefix(job.team) + job.job_id.encode(), db=work.tables.team_jobs)


def _archive(work: Work, job: Job) -> None:
    work.transaction.put(archive_key(job.job_id, job.version), encode(job), db=work.tables.job_archive)
    if job.version > JOB_VERSIONS_KEPT_MAX:
        oldest = archive_key(job.job_id, job.version - JOB_VERSIONS_KEPT_MAX)
        work.transaction.delete(oldest, db=work.tables.job_archive)


def _is_name_taken(work: Work, job: Job) -> bool:
    return work.transaction.get(pair_key(job.name, job.team), db=work.tables.job_names) is not None


def _repeated(work: Work, command: PutJob) -> JobReply | None:
    """The answer to an idempotency key that was used before."""
    entry = entry_of(work, command.job.team, command.idempotency_key)
    if entry is None:
        return None
    if entry.digest != command.body_digest:
        return JobReply(code="idempotency_conflict", job_id=entry.job_id)
    job = work.job(entry.job_id)
    if job is None:
        return JobReply(code="existing", job_id=entry.job_id)
    next_ms = next_tick(work.transaction, work.tables, job)
    return JobReply(code="existing", job_id=job.job_id, version=job.version, next_ms=next_ms)


def _remember(work: Work, command: PutJob) -> None:
    entry = IdempotencyEntry(digest=command.body_digest, job_id=command.job.job_id, created_ms=work.now_ms)
    remember(work, command.job.team, command.idempotency_key, entry)
