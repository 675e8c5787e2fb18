"""Runs: the history of a job, and single runs."""

from __future__ import annotations

import msgspec
from aiohttp import web

from httpapi import render
from httpapi.answers import json_response, read_headers
from httpapi.parsing import idempotency_key, identifier, read_json, read_json_or_empty
from httpapi.query import Query
from node.interface import TEAM_LENGTH_MAX, RunState, Scheduler


class CancelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/runs/{id}:cancel, which may be left out."""

    reason: str | None = None


class NoBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that may be left out, and says nothing."""


class RedriveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/runs:redrive: whose dead runs."""

    team: str | None = None
    job_id: str | None = None


class RunRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/jobs/{job_id:[^/:]+}/runs", self.list_runs),
            web.get("/v1/runs/{run_id:[^/:]+}", self.show),
            web.get("/v1/runs", self.list_dead),
            web.post("/v1/runs/{run_id:[^/:]+}:cancel", self.cancel),
            web.post("/v1/runs/{run_id:[^/:]+}:redrive", self.redrive),
            web.post("/v1/runs:redrive", self.redrive_many),
        ]

    async def list_runs(self, request: web.Request) -> web.Response:
        """Newest first. `from` is inclusive, `to` is not; both mean the due time."""
        query = Query(request, ("state", "from", "to", "limit", "cursor", "consistency"))
        states, from_ms, to_ms = query.states(), query.instant_ms("from"), query.instant_ms("to")
        limit, cursor, consistency = query.limit(), query.cursor(), query.consistency()
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            query.refuse("to", "is before from")
        query.done()
        page = await self._scheduler.runs_of_job(
            identifier(request, "job_id", "job"),
            states=states,
            from_ms=_since_epoch(from_ms),
            to_ms=_since_epoch(to_ms),
            limit=limit,
            cursor=cursor,
            consistency=consistency,
        )
        return json_response(render.page(page.items, page.next_cursor, render.run), headers=read_headers(page.read))

    async def show(self, request: web.Request) -> web.Response:
        query = Query(request, ("consistency",))
        consistency = query.consistency()
        query.done()
        run, read = await self._scheduler.run(identifier(request, "run_id", "run"), consistency=consistency)
        return json_response(render.run(run), headers=read_headers(read))

    async def list_dead(self, request: web.Request) -> web.Response:
        """Dead runs of all jobs, or of a team's or one job's, newest first. Other states are listed by job."""
        query = Query(request, ("state", "team", "job_id", "limit", "cursor", "consistency"))
        states, team, job_id = query.states(), query.text("team", length_max=TEAM_LENGTH_MAX), query.text("job_id")
        limit, cursor, consistency = query.limit(), query.cursor(), query.consistency()
        if states != (RunState.DEAD,):
            query.refuse("state", "must be dead; runs in other states are listed by job: /v1/jobs/{id}/runs")
        if team is not None and job_id is not None:
            query.refuse("team", "leave it out beside job_id: a job has one team")
        query.done()
        if job_id is None:
            page = await self._scheduler.dead_runs(team=team, limit=limit, cursor=cursor, consistency=consistency)
        else:
            page = await self._scheduler.runs_of_job(
                job_id, states=states, limit=limit, cursor=cursor, consistency=consistency
            )
        return json_response(render.page(page.items, page.next_cursor, render.run), headers=read_headers(page.read))

    async def redrive(self, request: web.Request) -> web.Response:
        """200 and the run, which begins anew. A repeat is refused while it is not dead again, so no idempotency key is
        kept for it."""
        Query(request, ()).done()
        run_id = identifier(request, "run_id", "run")
        idempotency_key(request)
        await read_json_or_empty(request, NoBody)
        return json_response(render.run(await self._scheduler.redrive_run(run_id)))

    async def redrive_many(self, request: web.Request) -> web.Response:
        """200 and how many. What has been redriven is not dead any more, so repeating it goes on where it stopped."""
        Query(request, ()).done()
        idempotency_key(request)
        body = await read_json(request, RedriveBody)
        done = await self._scheduler.redrive_dead(team=body.team, job_id=body.job_id)
        return json_response({"redriven": done.redriven, "refused": done.refused, "remaining": done.remaining})

    async def cancel(self, request: web.Request) -> web.Response:
        """200 and the run, which is or will be `cancelled`; `effective` says whether its attempt is known to be gone.
        A repeat answers the same, so an idempotency key adds nothing to it."""
        Query(request, ()).done()
        run_id = identifier(request, "run_id", "run")
        idempotency_key(request)
        body = await read_json_or_empty(request, CancelBody)
        cancelled = await self._scheduler.cancel_run(run_id, reason=body.reason)
        return json_response(render.run_cancelled(cancelled))


def _since_epoch(unix_ms: int | None) -> int | None:
    # No run was ever due before 1970, and the keys of runs know no negative times.
    return None if unix_ms is None else max(unix_ms, 0)
