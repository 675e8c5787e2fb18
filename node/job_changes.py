"""Changes of what a job is: update, pause, resume, delete. Each answers when it is effective, or that it is not yet.

What a change passes over is computed from what was read; the state machine refuses it if the job has moved since, and
then it is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import msgspec

from node.admission import Before, admit, make_plan
from node.afterwards import seen_afterwards
from node.effective import EVERY_VERSION, Effect
from node.interface import (
    Conflict,
    FieldError,
    JobChanged,
    JobDraft,
    NotFound,
    PreconditionFailed,
    ResumeFrom,
    Unavailable,
)
from node.passing import GoesOn, goes_on_now, goes_on_where_paused, passed_over
from node.proposing import Proposing, Sources, expect_ok, other_body, unknown_calendar
from node.reads import Reads, live_job
from raftlog.interface import Log
from statemachine.commands import AnyReply, Command, DeleteJob, FireSkip, JobReply, PauseJob, PutJob, ResumeJob
from statemachine.records import Job, SkipReason

TRIES_MAX = 5
"""How often a change is computed anew because the job moved under it: it does so at its own ticks only."""
MOVED = ("version_conflict", "not_due")


class JobChanges(Proposing):
    """Update, pause, resume and delete."""

    def __init__(self, *, log: Log, reads: Reads, sources: Sources) -> None:
        super().__init__(log=log, reads=reads, sources=sources)
        self._effect = Effect(reads=reads, clock=sources.clock)

    async def update_job(self, job_id: str, draft: JobDraft, *, expected_version: int | None = None) -> JobChanged:
        def command(before: Before) -> PutJob | None:
            if expected_version not in (None, before.job.version):
                raise PreconditionFailed
            return self._put(draft, before)

        return await self._change(job_id, expected_version, command, "The job is updated")

    async def pause_job(
        self,
        job_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        def command(before: Before) -> PauseJob:
            return PauseJob(
                now_ms=self._sources.clock.wall_ms(),
                job_id=job_id,
                reason=reason,
                expected_version=expected_version,
                idempotency_key=idempotency_key,
                body_digest=_digest("pause", job_id, reason or ""),
            )

        return await self._change(job_id, expected_version, command, "The job is paused")

    async def resume_job(
        self,
        job_id: str,
        *,
        since: ResumeFrom = "now",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        def command(before: Before) -> ResumeJob:
            now_ms = self._sources.clock.wall_ms()
            goes_on = _goes_on(before, since, now_ms)
            return ResumeJob(
                now_ms=now_ms,
                job_id=job_id,
                expected_version=before.job.version if expected_version is None else expected_version,
                first_due_ms=goes_on.first_due_ms,
                skip=goes_on.skip,
                idempotency_key=idempotency_key,
                body_digest=_digest("resume", job_id, since),
            )

        return await self._change(job_id, expected_version, command, "The job is resumed")

    async def delete_job(self, job_id: str, *, expected_version: int | None = None) -> bool:
        command = DeleteJob(now_ms=self._sources.clock.wall_ms(), job_id=job_id, expected_version=expected_version)
        reply = await self.propose(command, lane=self._lane_of_what_makes_room())
        if reply.code == "unknown_job":
            raise _no_job(job_id)
        if reply.code == "version_conflict":
            raise PreconditionFailed
        expect_ok(reply)
        return await seen_afterwards("The job is deleted", self._effect.wait(job_id, EVERY_VERSION))

    async def _change(
        self, job_id: str, expected_version: int | None, make: Callable[[Before], Command | None], done: str
    ) -> JobChanged:
        """Read the job, propose what `make` makes of it (None: nothing is to be changed), again if it moved meanwhile;
        then wait until that is effective."""
        for _ in range(TRIES_MAX):
            before = await self._before(job_id)
            command = make(before)
            if command is None:
                return await seen_afterwards(done, self._changed(job_id, before.job.version))
            reply = await self.propose(command)
            if reply.code == "version_conflict" and expected_version is not None:
                raise PreconditionFailed
            if reply.code not in MOVED:
                return await seen_afterwards(done, self._changed(job_id, _version_of(job_id, reply)))
        raise Unavailable("Nothing was done: the job changed again and again meanwhile.")

    async def _before(self, job_id: str) -> Before:
        index = await self._reads.stand_at()
        with self._reads.open_at(index) as (snapshot, _):
            return Before(job=live_job(snapshot, job_id), unrecorded_ms=snapshot.first_unrecorded_ms(job_id))

    async def _changed(self, job_id: str, version: int) -> JobChanged:
        effective = await self._effect.wait(job_id, version)
        view, _ = await self._reads.job(job_id)
        return JobChanged(view=view, effective=effective)

    def _put(self, draft: JobDraft, before: Before) -> PutJob | None:
        now_ms = self._sources.clock.wall_ms()
        job = admit(
            draft,
            job_id=before.job.job_id,
            now_ms=now_ms,
            allow_link_local=self._sources.allow_link_local,
            before=before,
        )
        if _is_same(job, before.job):
            return None
        return PutJob(now_ms=now_ms, job=job, expected_version=before.job.version, skip=_passed_by(job, before, now_ms))


def _goes_on(before: Before, since: ResumeFrom, now_ms: int) -> GoesOn:
    if before.job.paused_ms is None:
        return GoesOn(first_due_ms=None, skip=None)
    plan = make_plan(before.job)
    if since == "now":
        return goes_on_now(plan.ticks, before.unrecorded_ms, now_ms=now_ms, jitter_ms=plan.jitter_ms)
    return goes_on_where_paused(
        plan.ticks, before.unrecorded_ms, paused_ms=before.job.paused_ms, jitter_ms=plan.jitter_ms
    )


def _passed_by(job: Job, before: Before, now_ms: int) -> FireSkip | None:
    """The ticks of the definition before whose time is past and that have no run, unless the new one stands at them."""
    first_ms = before.unrecorded_ms
    if first_ms is None or (job.first_due_ms is not None and job.first_due_ms <= first_ms):
        return None
    plan = make_plan(before.job)
    paused_ms = before.job.paused_ms
    until_ms = (now_ms if paused_ms is None else paused_ms) - plan.jitter_ms
    return passed_over(plan.ticks, first_ms, until_ms, SkipReason.SUPERSEDED)


def _is_same(job: Job, before: Job) -> bool:
    """Whether the new definition says what the one before says."""
    told = {name: getattr(before, name) for name in _NOT_TOLD}
    return msgspec.structs.replace(job, **told) == before


_NOT_TOLD = ("version", "created_ms", "updated_ms", "first_due_ms", "paused_ms", "pause_reason")
"""Fields of a job that no draft says."""


def _version_of(job_id: str, reply: AnyReply) -> int:
    """The version that a change came to. Raises what the refusal means."""
    if reply.code == "unknown_job":
        raise _no_job(job_id)
    if reply.code == "name_taken":
        message = "another job of the team has this name"
        raise Conflict(f"{message[0].upper()}{message[1:]}.", errors=[FieldError(path="name", message=message)])
    if reply.code == "unknown_calendar":
        raise unknown_calendar(reply)
    if reply.code == "idempotency_conflict":
        raise other_body()
    if reply.code != "existing":
        expect_ok(reply)
    assert isinstance(reply, JobReply)
    if reply.version is None:
        raise _no_job(job_id)
    return reply.version


def _no_job(job_id: str) -> NotFound:
    return NotFound(f"There is no job {job_id}.")


def _digest(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(), digest_size=16).digest()
