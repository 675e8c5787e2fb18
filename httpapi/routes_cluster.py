"""The cluster's state, who leads it, the preview of schedules, and what probes and collectors ask."""

from __future__ import annotations

import msgspec
from aiohttp import web

from httpapi import render
from httpapi.answers import APPLIED_INDEX_HEADER, json_response
from httpapi.forwarding import FORWARDED_HEADER, ask_peer
from httpapi.parsing import IDENTIFIER_LENGTH_MAX, read_json_or_empty
from httpapi.query import Query
from node.interface import PREVIEW_TICKS_MAX, SCHEDULES_MAX, Scheduler, Unavailable

PREVIEW_TICKS_DEFAULT = 10
ZONE_LENGTH_MAX = 64


class TransferBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/cluster:transfer, which may be left out. `to`: a member's node id."""

    to: str | None = None


class ClusterRoutes:
    def __init__(self, scheduler: Scheduler, *, node: str) -> None:
        self._scheduler = scheduler
        self._node = node

    def table(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/cluster", self.cluster),
            web.post("/v1/cluster:transfer", self.transfer),
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

    async def transfer(self, request: web.Request) -> web.Response:
        """Hand the leadership to `to`, or to whoever has most of the log. Only the leader can: others ask it, once."""
        Query(request, ()).done()
        body = await read_json_or_empty(request, TransferBody)
        leader = (await self._scheduler.cluster(consistency="local")).leader
        if leader == self._node or FORWARDED_HEADER in request.headers:
            return json_response({"leader": await self._scheduler.transfer_leadership(to=body.to)})
        address = None if leader is None else self._scheduler.node_addresses().get(leader)
        if address is None:
            raise Unavailable("No leader that could hand over is known here right now; nothing was changed.")
        return await ask_peer(
            "POST",
            f"http://{address}/v1/cluster:transfer",
            body=msgspec.json.encode(body),
            asking=self._node,
            unreachable=f"Node {leader} leads and does not answer.",
        )

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
