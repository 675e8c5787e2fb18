"""What users change: each a command through the log, repeatable, and honest about whether it may have happened."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from node.admission import admit, parse_args
from node.afterwards import seen_afterwards
from node.cancelling import Cancelling
from node.completions import Completions
from node.interface import Conflict, FieldError, Invalid, JobCreated, JobDraft, NotFound, OverlapPolicy, RunCancelled
from node.job_changes import JobChanges
from node.proposing import Sources, expect_ok, other_body, unknown_calendar
from node.reads import Reads
from node.redriving import Redriving
from raftlog.interface import Lane, Log
from statemachine.commands import AnyReply, JobReply, PutJob, RunNow, RunReply
from statemachine.limits import IDEMPOTENCY_KEPT_MS
from statemachine.records import Run

__all__ = ["Sources", "Writes"]


class Writes(JobChanges):
    """The writing half of the scheduler."""

    def __init__(self, *, log: Log, reads: Reads, sources: Sources) -> None:
        super().__init__(log=log, reads=reads, sources=sources)
        self.redriving = Redriving(propose=self.propose, reads=reads, clock=sources.clock)
        self._cancelling = Cancelling(propose=self.propose, reads=reads, clock=sources.clock)
        # As urgent as the results that nodes report: they are no less.
        propose = partial(self.propose, lane=Lane.WORK)
        self.completions = Completions(propose=propose, reads=reads, clock=sources.clock, random=sources.random)

    @property
    def allow_link_local(self) -> bool:
        """Whether jobs may call link-local addresses."""
        return self._sources.allow_link_local

    async def create_job(self, draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated:
        """The same key and body answer the first job, however late the repeat."""
        key = idempotency_key or draft.idempotency_key
        digest = digest_of(draft)
        now_ms = self._sources.clock.wall_ms()
        try:
            job = admit(
                draft,
                job_id=self._sources.make_id(),
                now_ms=now_ms,
                allow_link_local=self._sources.allow_link_local,
            )
        except Invalid:
            # A repeat may come when the run_at that was accepted is past: the first answer stands.
            made = None if key is None else await self._made_by(draft.team, key, digest)
            if made is None:
                raise
            return made
        reply = await self.propose(PutJob(now_ms=now_ms, job=job, idempotency_key=key, body_digest=digest))
        created = _created(draft, reply)
        return await self._as_calendars_say(created) if draft.exclude_calendars else created

    async def _as_calendars_say(self, created: JobCreated) -> JobCreated:
        """The tick that the job stands at may be on an excluded day."""
        view, _ = await seen_afterwards("The job was created", self._reads.job(created.job_id))
        return replace(created, next_run_ms=view.next_run_ms)

    async def _made_by(self, team: str, key: str, digest: bytes) -> JobCreated | None:
        index = await self._reads.stand_at()
        with self._reads.open_at(index) as (snapshot, _):
            entry = snapshot.idempotency_entry(team, key)
            if entry is None or entry.digest != digest:
                return None
            if entry.created_ms + IDEMPOTENCY_KEPT_MS <= self._sources.clock.wall_ms():
                return None
            job = snapshot.job(entry.job_id)
            next_run_ms = snapshot.next_run_ms(entry.job_id)
        version = 1 if job is None else job.version
        return JobCreated(job_id=entry.job_id, version=version, next_run_ms=next_run_ms, created=False)

    async def run_now(
        self,
        job_id: str,
        *,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """A manual run. The same key answers the same run."""
        own_args = None if args is None else parse_args(args)
        command = RunNow(
            now_ms=self._sources.clock.wall_ms(),
            job_id=job_id,
            nonce=self._sources.make_id(),
            args=own_args,
            overlap_policy=overlap_policy,
            idempotency_key=idempotency_key,
            body_digest=_digest_of_run(job_id, own_args, overlap_policy),
        )
        reply = await self.propose(command)
        if reply.code == "unknown_job":
            raise NotFound(f"There is no job {job_id}.")
        if reply.code == "idempotency_conflict":
            raise other_body()
        if reply.code != "existing":
            expect_ok(reply)
        assert isinstance(reply, RunReply) and reply.run_id is not None
        return (await seen_afterwards("The run was made", self._reads.run(reply.run_id)))[0]

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> RunCancelled:
        """A run that is not over ends `cancelled`."""
        return await self._cancelling.cancel(run_id, reason)


def digest_of(draft: JobDraft) -> bytes:
    """A fingerprint of what a create asks for; the same for the same fields in any order and spelling of JSON."""
    body = msgspec.structs.replace(draft, idempotency_key=None)
    return blake2b(msgspec.json.encode(body, order="deterministic"), digest_size=16).digest()


def _digest_of_run(job_id: str, args: bytes | None, overlap_policy: OverlapPolicy | None) -> bytes:
    text = b"\0".join((b"run" + job_id.encode(), args or b"", (overlap_policy or "").encode()))
    return blake2b(text, digest_size=16).digest()


def _created(draft: JobDraft, reply: AnyReply) -> JobCreated:
    if reply.code == "name_taken":
        message = f"another job of team {draft.team} has this name"
        raise Conflict(f"{message[0].upper()}{message[1:]}.", errors=[FieldError(path="name", message=message)])
    if reply.code == "jobs_limit":
        message = f"{reply.detail} (max_jobs), and has them; delete some, or raise the limit"
        raise Conflict(f"{message[0].upper()}{message[1:]}.", errors=[FieldError(path="team", message=message)])
    if reply.code == "unknown_calendar":
        raise unknown_calendar(reply)
    if reply.code == "idempotency_conflict":
        raise other_body()
    if reply.code != "existing":
        expect_ok(reply)
    assert isinstance(reply, JobReply) and reply.job_id is not None
    return JobCreated(
        job_id=reply.job_id,
        version=reply.version or 1,
        next_run_ms=reply.next_ms,
        created=reply.code == "ok",
    )
