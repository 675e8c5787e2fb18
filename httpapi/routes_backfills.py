"""Backfills: plan, start, list, cancel."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from httpapi import render
from httpapi.answers import json_response, read_headers
from httpapi.parsing import idempotency_key, identifier, read_json, read_json_or_empty
from httpapi.query import Query, parse_instant_ms
from node.interface import FieldError, Invalid, OverlapPolicy, Scheduler


class BackfillBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/jobs/{id}:backfill. Times with an offset; `args` takes the place of the job's."""

    begin: str = msgspec.field(name="from")
    to: str
    args: Any = None
    overlap_policy: OverlapPolicy | None = None
    """Absent: `allow` if that is the job's, else `queue_all`: none is dropped."""
    dry_run: bool = False


class CancelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/backfills/{id}:cancel, which may be left out."""

    reason: str | None = None


class BackfillRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/jobs/{job_id:[^/:]+}:backfill", self.start),
            web.get("/v1/jobs/{job_id:[^/:]+}/backfills", self.list_backfills),
            web.post("/v1/backfills/{backfill_id:[^/:]+}:cancel", self.cancel),
        ]

    async def start(self, request: web.Request) -> web.Response:
        """201 and the backfill; with `dry_run` 200, and how many ticks it would run."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        body = await read_json(request, BackfillBody)
        from_ms, to_ms = _range(body)
        if body.dry_run:
            plan = await self._scheduler.plan_backfill(job_id, from_ms=from_ms, to_ms=to_ms)
            return json_response(render.backfill_plan(plan))
        backfill = await self._scheduler.start_backfill(
            job_id,
            from_ms=from_ms,
            to_ms=to_ms,
            args=body.args,
            overlap_policy=body.overlap_policy,
            idempotency_key=idempotency_key(request),
        )
        return json_response(render.backfill(backfill), status=201)

    async def list_backfills(self, request: web.Request) -> web.Response:
        """Oldest first."""
        query = Query(request, ("limit", "cursor", "consistency"))
        limit, cursor, consistency = query.limit(), query.cursor(), query.consistency()
        query.done()
        job_id = identifier(request, "job_id", "job")
        page = await self._scheduler.backfills(job_id, limit=limit, cursor=cursor, consistency=consistency)
        body = render.page(page.items, page.next_cursor, render.backfill)
        return json_response(body, headers=read_headers(page.read))

    async def cancel(self, request: web.Request) -> web.Response:
        """200 and the backfill; a repeat changes nothing; 409 if it is completed."""
        Query(request, ()).done()
        backfill_id = identifier(request, "backfill_id", "backfill")
        body = await read_json_or_empty(request, CancelBody)
        idempotency_key(request)
        backfill = await self._scheduler.cancel_backfill(backfill_id, reason=body.reason or None)
        return json_response(render.backfill(backfill))


def _range(body: BackfillBody) -> tuple[int, int]:
    errors: list[FieldError] = []
    times = [_time("from", body.begin, errors), _time("to", body.to, errors)]
    if errors:
        raise Invalid(errors=errors)
    return times[0], times[1]


def _time(path: str, text: str, errors: list[FieldError]) -> int:
    """No run was ever due before 1970, and the keys of runs know no negative times."""
    try:
        return max(parse_instant_ms(text), 0)
    except ValueError as fault:
        errors.append(FieldError(path=path, message=str(fault)))
        return 0
