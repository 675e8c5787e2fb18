"""What targets report: the end of an attempt that they complete themselves, and until then that they are at it."""

from __future__ import annotations

import msgspec
from aiohttp import web

from httpapi import render
from httpapi.answers import json_response
from httpapi.parsing import idempotency_key, identifier, read_json
from httpapi.query import Query
from node.interface import Completion, CompletionOutcome, Scheduler


class CompleteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/runs/{id}:complete."""

    fence_token: int
    outcome: CompletionOutcome
    detail: str | None = None
    output: str | None = None


class HeartbeatBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/runs/{id}:heartbeat."""

    fence_token: int
    progress: str | None = None


class CompletionRoutes:
    """Both may be repeated at will, since the token says which attempt is meant: an Idempotency-Key is taken, and adds
    nothing."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/runs/{run_id:[^/:]+}:complete", self.complete),
            web.post("/v1/runs/{run_id:[^/:]+}:heartbeat", self.heartbeat),
        ]

    async def complete(self, request: web.Request) -> web.Response:
        """200 and the run as it is then; 409 when the attempt of that token is over."""
        Query(request, ()).done()
        run_id = identifier(request, "run_id", "run")
        body = await read_json(request, CompleteBody)
        idempotency_key(request)
        output = None if body.output is None else body.output.encode("utf-8", "replace")
        completion = Completion(outcome=body.outcome, detail=body.detail, output=output)
        run = await self._scheduler.complete_run(run_id, token=body.fence_token, completion=completion)
        return json_response(render.run(run))

    async def heartbeat(self, request: web.Request) -> web.Response:
        """200 and until when to be heard again; 409 when the attempt is over: its target may stop."""
        Query(request, ()).done()
        run_id = identifier(request, "run_id", "run")
        body = await read_json(request, HeartbeatBody)
        idempotency_key(request)
        beat = await self._scheduler.heartbeat_run(run_id, token=body.fence_token, progress=body.progress)
        return json_response(render.heartbeat(run_id, beat))
