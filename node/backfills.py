"""Backfills as the API knows them: planned, started, listed, cancelled."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from itertools import islice
from typing import Any

from node.admission import make_plan, parse_args
from node.afterwards import seen_afterwards
from node.clock import Clock
from node.cursors import backfills_of, decode_cursor, encode_cursor
from node.interface import (
    REASON_LENGTH_MAX,
    BackfillPage,
    BackfillPlan,
    BackfillView,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    NotFound,
)
from node.misfire import last_open, next_open
from node.plans import closed_days_of
from node.proposing import Proposing, expect_ok, other_body
from node.reads import Reads, live_job
from node.schedule import instant_text
from statemachine.commands import BackfillReply, CancelBackfill, StartBackfill
from statemachine.limits import BACKFILLS_ACTIVE_MAX
from statemachine.records import OverlapPolicy
from statemachine.snapshot import Snapshot


class Backfills:
    """Reads and changes of backfills."""

    def __init__(self, *, reads: Reads, writes: Proposing, clock: Clock, make_id: Callable[[], str]) -> None:
        self._reads = reads
        self._writes = writes
        self._clock = clock
        self._make_id = make_id

    async def plan(self, job_id: str, *, from_ms: int, to_ms: int) -> BackfillPlan:
        """A count of ticks; those of excluded days are counted out span by span."""
        _check_range(from_ms, to_ms, self._clock.wall_ms())
        index = await self._reads.stand_at()
        with self._reads.open_at(index) as (snapshot, _):
            job = live_job(snapshot, job_id)
            closed = closed_days_of(snapshot, job)
        ticks = make_plan(job).ticks
        first_ms = next_open(ticks, closed, from_ms - 1)
        if first_ms is None or first_ms >= to_ms:
            return BackfillPlan(count=0, first_ms=None, last_ms=None)
        if closed is None:
            last_ms, excluded = ticks.last_between(from_ms - 1, to_ms - 1), 0
        else:
            last_ms = last_open(ticks, closed, from_ms - 1, to_ms - 1)
            spans = closed.spans(from_ms, to_ms)
            excluded = sum(ticks.count_between(begin_ms - 1, end_ms - 1) for begin_ms, end_ms in spans)
        count = ticks.count_between(from_ms - 1, to_ms - 1) - excluded
        return BackfillPlan(count=count, first_ms=first_ms, last_ms=last_ms)

    async def start(
        self,
        job_id: str,
        *,
        from_ms: int,
        to_ms: int,
        args: Any,
        overlap_policy: OverlapPolicy | None,
        idempotency_key: str | None,
    ) -> BackfillView:
        own_args = None if args is None else parse_args(args)
        now_ms = self._clock.wall_ms()
        _check_range(from_ms, to_ms, now_ms)
        body = f"backfill\0{job_id}\0{from_ms}\0{to_ms}\0{overlap_policy}\0".encode() + (own_args or b"")
        command = StartBackfill(
            now_ms=now_ms,
            backfill_id=self._make_id(),
            job_id=job_id,
            from_ms=from_ms,
            to_ms=to_ms,
            args=own_args,
            overlap_policy=overlap_policy,
            idempotency_key=idempotency_key,
            body_digest=blake2b(body, digest_size=16).digest(),
        )
        reply = await self._writes.propose(command)
        if reply.code == "unknown_job":
            raise NotFound(f"There is no job {job_id}.")
        if reply.code == "idempotency_conflict":
            raise other_body()
        if reply.code == "backfills_limit":
            raise Conflict(f"{BACKFILLS_ACTIVE_MAX} backfills are running already; wait for one, or cancel it.")
        if reply.code != "existing":
            expect_ok(reply)
        assert isinstance(reply, BackfillReply) and reply.backfill_id is not None
        return await seen_afterwards("The backfill was started", self._backfill(reply.backfill_id))

    async def cancel(self, backfill_id: str, *, reason: str | None) -> BackfillView:
        if len(reason or "") > REASON_LENGTH_MAX or not (reason or "").isprintable():
            message = f"must be at most {REASON_LENGTH_MAX} printable characters"
            raise Invalid(errors=[FieldError(path="reason", message=message)])
        command = CancelBackfill(now_ms=self._clock.wall_ms(), backfill_id=backfill_id, reason=reason)
        reply = await self._writes.propose(command)
        if reply.code in ("unknown_backfill", "malformed"):
            raise NotFound(f"There is no backfill {backfill_id}.")
        if reply.code == "illegal_state":
            raise Conflict(f"Backfill {backfill_id} is {reply.detail}.")
        expect_ok(reply)
        return await seen_afterwards("The backfill is cancelled", self._backfill(backfill_id))

    async def of_job(self, job_id: str, *, limit: int, cursor: str | None, consistency: Consistency) -> BackfillPage:
        after = decode_cursor(backfills_of(job_id), cursor)
        index = await self._reads.stand_at(consistency)
        with self._reads.open_at(index) as (snapshot, read):
            if snapshot.job(job_id) is None:
                raise NotFound(f"There is no job {job_id}.")
            found = list(islice(snapshot.backfills_of(job_id, after), limit + 1))
            items = [BackfillView(backfill=one, outstanding=_outstanding(snapshot, one.backfill_id)) for one in found]
        more = None
        if len(found) > limit:
            more = encode_cursor(backfills_of(job_id), found[limit - 1].backfill_id)
        return BackfillPage(items=items[:limit], next_cursor=more, read=read)

    async def _backfill(self, backfill_id: str) -> BackfillView:
        index = await self._reads.stand_at()
        with self._reads.open_at(index) as (snapshot, _):
            found = snapshot.backfill(backfill_id)
            assert found is not None, "a backfill that was answered exists"
            return BackfillView(backfill=found, outstanding=_outstanding(snapshot, backfill_id))


def _outstanding(snapshot: Snapshot, backfill_id: str) -> int:
    return snapshot.backfill_outstanding(backfill_id)


def _check_range(from_ms: int, to_ms: int, now_ms: int) -> None:
    if from_ms >= to_ms:
        raise Invalid(errors=[FieldError(path="to", message="must be after from; it is exclusive")])
    if to_ms > now_ms:
        message = f"is to come; a backfill is for what is past, at most to {instant_text(now_ms)}"
        raise Invalid(errors=[FieldError(path="to", message=message)])
