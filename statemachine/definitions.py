"""What every change of a job's definition shares: the archive of what it was before, and the keys of repeats."""

from __future__ import annotations

from typing import Protocol

from statemachine.codec import encode
from statemachine.commands import JobReply
from statemachine.idempotency import entry_of, remember
from statemachine.keys import archive_key
from statemachine.limits import JOB_VERSIONS_KEPT_MAX
from statemachine.records import Job
from statemachine.repeat_records import IdempotencyEntry
from statemachine.ticks import next_tick
from statemachine.work import Work


class Repeatable(Protocol):
    """A command that its sender may send again."""

    @property
    def idempotency_key(self) -> str | None: ...

    @property
    def body_digest(self) -> bytes: ...


def archive(work: Work, job: Job) -> None:
    """Keep a definition that is about to change, for the runs and the history that it made."""
    work.transaction.put(archive_key(job.job_id, job.version), encode(job), db=work.tables.job_archive)
    if job.version > JOB_VERSIONS_KEPT_MAX:
        oldest = archive_key(job.job_id, job.version - JOB_VERSIONS_KEPT_MAX)
        work.transaction.delete(oldest, db=work.tables.job_archive)


def repeated(work: Work, team: str, command: Repeatable) -> JobReply | None:
    """The answer to an idempotency key that was used before: the job as it is now."""
    entry = entry_of(work, team, command.idempotency_key)
    if entry is None:
        return None
    if entry.digest != command.body_digest:
        return JobReply(code="idempotency_conflict", job_id=entry.job_id)
    job = work.job(entry.job_id)
    if job is None:
        return JobReply(code="existing", job_id=entry.job_id)
    next_ms = next_tick(work.transaction, work.tables, job)
    return JobReply(code="existing", job_id=job.job_id, version=job.version, next_ms=next_ms)


def remember_job(work: Work, job: Job, command: Repeatable) -> None:
    """Let the command's key, if it has one, answer this job from now on."""
    entry = IdempotencyEntry(digest=command.body_digest, job_id=job.job_id, created_ms=work.now_ms)
    remember(work, job.team, command.idempotency_key, entry)
