"""The part of the in-memory scheduler that knows backfills. Nobody steps them."""

from __future__ import annotations

from typing import Any

import msgspec

from node.interface import (
    LIST_LIMIT_DEFAULT,
    Backfill,
    BackfillPage,
    BackfillPlan,
    BackfillView,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    Job,
    NotFound,
    OverlapPolicy,
    Read,
)
from tests.httpapi.twin_checks import cut, decode_cursor, ticks_after


class TwinBackfills:
    """Backfills, on the jobs and the time of the twin that this is a part of."""

    now_ms: int
    jobs_by_id: dict[str, Job]
    backfills_by_id: dict[str, Backfill]
    backfill_keys: dict[str, tuple[object, str]]

    async def plan_backfill(self, job_id: str, *, from_ms: int, to_ms: int) -> BackfillPlan:
        self._check_alive()
        self._check_range(from_ms, to_ms)
        job = self._known_job(job_id)
        ticks: list[int] = []
        for tick_ms in ticks_after(job.expressions, job.tz, from_ms - 1):
            if tick_ms >= to_ms:
                break
            ticks.append(tick_ms)
        return BackfillPlan(
            count=len(ticks), first_ms=ticks[0] if ticks else None, last_ms=ticks[-1] if ticks else None
        )

    async def start_backfill(
        self,
        job_id: str,
        *,
        from_ms: int,
        to_ms: int,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> BackfillView:
        self._check_alive()
        self._check_range(from_ms, to_ms)
        job, body = self._known_job(job_id), (job_id, from_ms, to_ms, overlap_policy, repr(args))
        if idempotency_key is not None and idempotency_key in self.backfill_keys:
            known, backfill_id = self.backfill_keys[idempotency_key]
            if known != body:
                raise Conflict("The idempotency key was used with another body.")
            return BackfillView(backfill=self.backfills_by_id[backfill_id], outstanding=0)
        made = Backfill(
            backfill_id=f"B{len(self.backfills_by_id):025d}",
            job_id=job_id,
            team=job.team,
            from_ms=from_ms,
            to_ms=to_ms,
            args=None if args is None else msgspec.json.encode(args),
            overlap_policy=overlap_policy,
            next_ms=from_ms,
            created_ms=self.now_ms,
        )
        self.backfills_by_id[made.backfill_id] = made
        if idempotency_key is not None:
            self.backfill_keys[idempotency_key] = (body, made.backfill_id)
        return BackfillView(backfill=made, outstanding=0)

    async def backfills(
        self,
        job_id: str,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> BackfillPage:
        self._check_alive()
        if job_id not in self.jobs_by_id:
            raise NotFound(f"There is no job {job_id}.")
        after = decode_cursor(cursor)
        keys = [key for key, one in sorted(self.backfills_by_id.items()) if one.job_id == job_id]
        shown, more = cut([key for key in keys if after is None or key > after], limit)
        items = [BackfillView(backfill=self.backfills_by_id[key], outstanding=0) for key in shown]
        return BackfillPage(items=items, next_cursor=more, read=self._read(consistency))

    async def cancel_backfill(self, backfill_id: str, *, reason: str | None = None) -> BackfillView:
        self._check_alive()
        backfill = self.backfills_by_id.get(backfill_id)
        if backfill is None:
            raise NotFound(f"There is no backfill {backfill_id}.")
        if len(reason or "") > 500:
            raise Invalid(errors=[FieldError(path="reason", message="is too long")])
        if backfill.state == "completed":
            raise Conflict("It is completed.")
        if backfill.state == "running":
            backfill = msgspec.structs.replace(backfill, state="cancelled", reason=reason, finished_ms=self.now_ms)
            self.backfills_by_id[backfill_id] = backfill
        return BackfillView(backfill=backfill, outstanding=0)

    def _check_range(self, from_ms: int, to_ms: int) -> None:
        if from_ms >= to_ms or to_ms > self.now_ms:
            raise Invalid(errors=[FieldError(path="to", message="must be after from, and not to come")])

    def _known_job(self, job_id: str) -> Job:
        raise NotImplementedError

    def _check_alive(self) -> None:
        raise NotImplementedError

    def _read(self, consistency: Consistency) -> Read:
        raise NotImplementedError
