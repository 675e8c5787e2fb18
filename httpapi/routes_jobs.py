"""Jobs: create, list, read, run now."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from httpapi import render
from httpapi.answers import json_response, read_headers
from httpapi.parsing import (
    entity_tag,
    idempotency_key,
    identifier,
    read_json,
    read_json_or_empty,
)
from httpapi.query import Query
from node.interface import NAME_LENGTH_MAX, TEAM_LENGTH_MAX, JobDraft, OverlapPolicy, Scheduler


class RunNowBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/jobs/{id}:run, which may be left out. What is there takes the place of the job's."""

    args: Any = None
    overlap_policy: OverlapPolicy | None = None


class JobRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/jobs", self.create),
            web.get("/v1/jobs", self.list_jobs),
            web.get("/v1/jobs/{job_id:[^/:]+}", self.show),
            web.post("/v1/jobs/{job_id:[^/:]+}:run", self.run_now),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """201 for a new job; 200 for the one that the same idempotency key and body have made before."""
        Query(request, ()).done()
        draft = await read_json(request, JobDraft)
        key = idempotency_key(request, draft.idempotency_key)
        created = await self._scheduler.create_job(draft, idempotency_key=key)
        headers = {"Location": f"/v1/jobs/{created.job_id}", "ETag": entity_tag(created.version)}
        status = 201 if created.created else 200
        return json_response(render.job_created(created), status=status, headers=headers)

    async def list_jobs(self, request: web.Request) -> web.Response:
        query = Query(request, ("team", "q", "limit", "cursor", "consistency"))
        team = query.text("team", length_max=TEAM_LENGTH_MAX)
        name = query.text("q", length_max=NAME_LENGTH_MAX)
        limit, cursor, consistency = query.limit(), query.cursor(), query.consistency()
        query.done()
        page = await self._scheduler.jobs(team=team, name=name, limit=limit, cursor=cursor, consistency=consistency)
        return json_response(render.page(page.items, page.next_cursor, render.job), headers=read_headers(page.read))

    async def show(self, request: web.Request) -> web.Response:
        query = Query(request, ("consistency",))
        consistency = query.consistency()
        query.done()
        view, read = await self._scheduler.job(identifier(request, "job_id", "job"), consistency=consistency)
        headers = read_headers(read) | {"ETag": entity_tag(view.job.version)}
        return json_response(render.job(view), headers=headers)

    async def run_now(self, request: web.Request) -> web.Response:
        """201 and the manual run; the same idempotency key answers the same run."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        body = await read_json_or_empty(request, RunNowBody)
        run = await self._scheduler.run_now(
            job_id, args=body.args, overlap_policy=body.overlap_policy, idempotency_key=idempotency_key(request)
        )
        return json_response(render.run(run), status=201, headers={"Location": f"/v1/runs/{run.run_id}"})
