"""The commands that change what a job is: create, replace, delete, pause, resume."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from statemachine.command_types import Command, Count, JobId, Reason, TimeMs
from statemachine.limits import DIGEST_BYTES_MAX, IDEMPOTENCY_KEY_LENGTH_MAX
from statemachine.records import Job

IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=IDEMPOTENCY_KEY_LENGTH_MAX)]
Digest = Annotated[bytes, Meta(max_length=DIGEST_BYTES_MAX)]


class FireSkip(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A range of ticks that are not run: one record, one decision. `reason` is a SkipReason, maybe with ': detail'."""

    from_ms: int
    until_ms: int
    count: int
    reason: str


class PutJob(Command, frozen=True, kw_only=True, tag="put_job"):
    """Create (expected_version 0) or replace (expected_version = the current one) a job.

    `job.version` must be expected_version + 1. An idempotency key (scoped to the team) with the same body digest
    answers the first job again (`existing`); with another digest it is refused (`idempotency_conflict`)."""

    job: Job
    expected_version: Count = 0
    idempotency_key: IdempotencyKey | None = None
    body_digest: Digest = b""
    skip: FireSkip | None = None
    """Of an update: the ticks of the definition before that are due and were not fired. An update that passes over
    one without a word is refused (`not_due`): it would never have a record."""


class DeleteJob(Command, frozen=True, kw_only=True, tag="delete_job"):
    """Delete a job (a tombstone stays, for its history). Its runs that nobody holds end skipped(superseded) when they
    would be handed out; sessions that hold unstarted ones are told by JobDeleted and answer Withdraw. expected_version
    None = any."""

    job_id: JobId
    expected_version: Count | None = None


class PauseJob(Command, frozen=True, kw_only=True, tag="pause_job"):
    """Stop a job's schedule: the next version of its definition stands at no tick. Runs of ticks that were not
    attempted end skipped(paused), as `DeleteJob` tells; what was asked for by hand goes on. A paused job stays as it
    is. expected_version None = any."""

    job_id: JobId
    reason: Reason | None = None
    expected_version: Count | None = None
    idempotency_key: IdempotencyKey | None = None
    body_digest: Digest = b""


class ResumeJob(Command, frozen=True, kw_only=True, tag="resume_job"):
    """Let a paused job stand at a tick again, under the next version of its definition. The ticks from the one that it
    stood at (`first_due_ms` of the paused job) to the new one are one recorded `skip`, or there are none: else
    `malformed`. A job that is not paused stays as it is."""

    job_id: JobId
    expected_version: Count
    first_due_ms: TimeMs | None
    skip: FireSkip | None = None
    idempotency_key: IdempotencyKey | None = None
    body_digest: Digest = b""
