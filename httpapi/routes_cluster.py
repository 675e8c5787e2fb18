"""The cluster's state, the preview of schedules, and what probes and collectors ask."""

from __future__ import annotations

from aiohttp import web

from httpapi import render
from httpapi.answers import APPLIED_INDEX_HEADER, json_response
from httpapi.parsing import IDENTIFIER_LENGTH_MAX
from httpapi.query import Query
from node.interface import PREVIEW_TICKS_MAX, SCHEDULES_MAX, Scheduler, Unavailable

PREVIEW_TICKS_DEFAULT = 10
ZONE_LENGTH_MAX = 64


class ClusterRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/cluster", self.cluster),
            web.get("/v1/schedules:preview", self.preview),
            web.get("/healthz", self.healthz),
            web.get("/readyz", self.readyz),
            web.get("/metrics", self.metrics),
        ]

    async def cluster(self, request: web.Request) -> web.Response:
        query = Query(request, ("consistency",))
        consistency = query.consistency()
        query.done()
        view = await self._scheduler.cluster(consistency=consistency)
        return json_response(render.cluster(view), headers={APPLIED_INDEX_HEADER: str(view.applied_index)})

    async def preview(self, request: web.Request) -> web.Response:
        """The next `n` ticks of one or more expressions. `job_id` gives the H fields and the jitter of that job;
        without expressions, what is to come of the job itself is shown."""
        query = Query(request, ("schedule", "tz", "from", "n", "job_id"))
        schedule = query.texts("schedule", count_max=SCHEDULES_MAX)
        tz, from_ms = query.text("tz", length_max=ZONE_LENGTH_MAX), query.instant_ms("from")
        count = query.integer("n", least=1, most=PREVIEW_TICKS_MAX, default=PREVIEW_TICKS_DEFAULT)
        job_id = query.text("job_id", length_max=IDENTIFIER_LENGTH_MAX)
        if not schedule and job_id is None:
            query.refuse("schedule", "is required (or job_id, for the schedule of a job)")
        if not schedule and tz is not None:
            query.refuse("tz", "belongs to schedule; a job has its own")
        query.done()
        zone = tz or "UTC"
        preview = await self._scheduler.preview(schedule=schedule, tz=zone, from_ms=from_ms, count=count, job_id=job_id)
        if not schedule and job_id is not None:
            job = (await self._scheduler.job(job_id))[0].job
            schedule, zone = list(job.expressions), job.tz
        return json_response(render.preview(preview, schedule=schedule, tz=zone))

    async def healthz(self, request: web.Request) -> web.Response:
        """200 while the process answers at all; says nothing about the cluster."""
        return json_response({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.Response:
        """200 when this node reaches a quorum and its scheduling moves, else 503 with the reason."""
        reason = self._scheduler.ready()
        if reason is not None:
            raise Unavailable(reason)
        return json_response({"status": "ready"})

    async def metrics(self, request: web.Request) -> web.Response:
        body, content_type = self._scheduler.metrics_text()
        return web.Response(body=body, headers={"Content-Type": content_type})
