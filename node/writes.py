"""What users change: each a command through the log, repeatable, and honest about whether it may have happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from node.admission import admit, parse_args
from node.afterwards import seen_afterwards
from node.cancelling import Cancelling
from node.clock import Clock
from node.interface import (
    Conflict,
    DiskFull,
    FieldError,
    HoraeError,
    Invalid,
    JobCreated,
    JobDraft,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    PreconditionFailed,
    RunCancelled,
    TooLarge,
    Unavailable,
)
from node.reads import Reads
from raftlog import errors as log_errors
from raftlog.interface import Lane, Log
from statemachine.codec import decode_reply, encode_command
from statemachine.commands import AnyReply, Command, DeleteJob, JobReply, PutJob, RunNow, RunReply
from statemachine.limits import IDEMPOTENCY_KEPT_MS
from statemachine.records import Run, RunState

WRITE_TIMEOUT_S = 10.0
EFFECTIVE_TIMEOUT_S = 12.0
"""How long a delete waits for those that hold the job's claims: a session that does not answer is over by then."""
EFFECTIVE_POLL_S = 0.02
EFFECTIVE_POLL_GROWTH = 1.5
EFFECTIVE_POLL_MAX_S = 0.25
"""A delete looks again after so long, and after longer each time: many deletes under load must not add to it."""
EFFECTIVE_WINDOW_MS = 3_600_000
"""How long ago an unstarted claim may have been due that a delete still looks for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """What writes take from outside."""

    clock: Clock
    make_id: Callable[[], str]
    allow_link_local: bool = False


class Writes:
    """The writing half of the scheduler."""

    def __init__(self, *, log: Log, reads: Reads, sources: Sources) -> None:
        self._log = log
        self._reads = reads
        self._sources = sources
        self._cancelling = Cancelling(propose=self.propose, reads=reads, clock=sources.clock)

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
        return _created(
            draft, await self.propose(PutJob(now_ms=now_ms, job=job, idempotency_key=key, body_digest=digest))
        )

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

    async def delete_job(self, job_id: str, *, expected_version: int | None = None) -> None:
        """Answers when the delete is effective: no tick of the job starts any more."""
        command = DeleteJob(now_ms=self._sources.clock.wall_ms(), job_id=job_id, expected_version=expected_version)
        reply = await self.propose(command, lane=self._lane_of_what_makes_room())
        if reply.code == "unknown_job":
            raise NotFound(f"There is no job {job_id}.")
        if reply.code == "version_conflict":
            raise PreconditionFailed
        expect_ok(reply)
        await seen_afterwards("The job is deleted", self._wait_effective(job_id))

    async def _wait_effective(self, job_id: str) -> None:
        """Until nobody holds an unstarted claim of the job. Its runs are handed out no more, so what is claimed now is
        all that there is to wait for. A `claimed` run may have started a moment ago; it ends, or says so within a
        second."""
        deadline_s = self._sources.clock.monotonic() + EFFECTIVE_TIMEOUT_S
        pause_s = EFFECTIVE_POLL_S
        index = await self._reads.stand_at()
        held = self._claimed_runs(job_id, index)
        while held := self._still_claimed(held, index):
            if self._sources.clock.monotonic() > deadline_s:
                raise OutcomeUnknown(
                    f"The job is deleted, but node {held[0].node} has not yet confirmed that it starts nothing."
                )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * EFFECTIVE_POLL_GROWTH, EFFECTIVE_POLL_MAX_S)

    def _claimed_runs(self, job_id: str, index: int) -> list[Run]:
        """All of them, page after page: there may be more rows than one page looks at."""
        from_ms = self._sources.clock.wall_ms() - EFFECTIVE_WINDOW_MS
        with self._reads.open_at(index) as (snapshot, _):
            page = snapshot.runs_of_job(job_id, (RunState.CLAIMED,), from_ms=from_ms)
            claimed = list(page.items)
            while page.next_key is not None:
                page = snapshot.runs_of_job(job_id, (RunState.CLAIMED,), from_ms=from_ms, before_key=page.next_key)
                claimed += page.items
        return claimed

    def _still_claimed(self, runs: list[Run], index: int) -> list[Run]:
        with self._reads.open_at(index) as (snapshot, _):
            now = [snapshot.run(run.run_id) for run in runs]
        return [run for run in now if run is not None and run.state is RunState.CLAIMED]

    async def run_now(self, job_id: str, *, args: Any = None, idempotency_key: str | None = None) -> Run:
        """A manual run. The same key answers the same run."""
        own_args = None if args is None else parse_args(args)
        command = RunNow(
            now_ms=self._sources.clock.wall_ms(),
            job_id=job_id,
            nonce=self._sources.make_id(),
            args=own_args,
            idempotency_key=idempotency_key,
            body_digest=blake2b(b"run" + job_id.encode() + b"\0" + (own_args or b""), digest_size=16).digest(),
        )
        reply = await self.propose(command)
        if reply.code == "unknown_job":
            raise NotFound(f"There is no job {job_id}.")
        if reply.code == "idempotency_conflict":
            raise _other_body()
        if reply.code != "existing":
            expect_ok(reply)
        assert isinstance(reply, RunReply) and reply.run_id is not None
        return (await seen_afterwards("The run was made", self._reads.run(reply.run_id)))[0]

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> RunCancelled:
        """A run that is not over ends `cancelled`."""
        return await self._cancelling.cancel(run_id, reason)

    def _lane_of_what_makes_room(self) -> Lane:
        """While clients are refused for want of room on the disks, what frees some is the node's own work."""
        return Lane.WORK if self._log.status.refuses_clients else Lane.CLIENT

    async def propose(self, command: Command, *, lane: Lane = Lane.CLIENT) -> AnyReply:
        try:
            data = encode_command(command)
            return decode_reply(await self._log.propose(data, lane=lane, timeout_s=WRITE_TIMEOUT_S))
        except log_errors.LogError as error:
            raise _translated(error) from error


def digest_of(draft: JobDraft) -> bytes:
    """A fingerprint of what a create asks for; the same for the same fields in any order and spelling of JSON."""
    body = msgspec.structs.replace(draft, idempotency_key=None)
    return blake2b(msgspec.json.encode(body, order="deterministic"), digest_size=16).digest()


def _created(draft: JobDraft, reply: AnyReply) -> JobCreated:
    if reply.code == "name_taken":
        message = f"another job of team {draft.team} has this name"
        raise Conflict(f"{message[0].upper()}{message[1:]}.", errors=[FieldError(path="name", message=message)])
    if reply.code == "jobs_limit":
        message = f"{reply.detail} (max_jobs), and has them; delete some, or raise the limit"
        raise Conflict(f"{message[0].upper()}{message[1:]}.", errors=[FieldError(path="team", message=message)])
    if reply.code == "idempotency_conflict":
        raise _other_body()
    if reply.code != "existing":
        expect_ok(reply)
    assert isinstance(reply, JobReply) and reply.job_id is not None
    return JobCreated(
        job_id=reply.job_id,
        version=reply.version or 1,
        next_run_ms=reply.next_ms,
        created=reply.code == "ok",
    )


def _other_body() -> Conflict:
    return Conflict("The idempotency key was used before with another body; use a new key for a new request.")


def expect_ok(reply: AnyReply) -> None:
    """Admission lets nothing through that the state machine calls malformed; if it does, say what it said."""
    if reply.code == "malformed":
        raise Invalid(reply.detail)
    if reply.code == "clock_off":
        raise Unavailable("Nothing was done: the clock of this node is far from the others', which may be starting.")
    if reply.code != "ok":
        raise HoraeError(f"The cluster refused the change: {reply.code}.")


def _translated(error: log_errors.LogError) -> HoraeError:
    match error:
        case log_errors.OutcomeUnknown():
            return OutcomeUnknown()
        case log_errors.CommandTooLarge():
            return TooLarge()
        case log_errors.LogOverloaded():
            return Overloaded()
        case log_errors.DiskFull():
            return DiskFull(f"Nothing was done: {error}. Deleting still works, and so does a node that has room.")
        case _:
            return Unavailable()
