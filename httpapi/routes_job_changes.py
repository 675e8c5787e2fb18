"""Changes of a job: replace, patch, delete, pause, resume. Each answers when it is effective, or that it is not yet."""

from __future__ import annotations

import msgspec
from aiohttp import web

from httpapi import render
from httpapi.answers import json_response
from httpapi.fields import build
from httpapi.merge_patch import merged
from httpapi.parsing import (
    entity_tag,
    expected_version,
    idempotency_key,
    identifier,
    read_any_json,
    read_json,
    read_json_or_empty,
)
from httpapi.query import Query
from node.interface import (
    REASON_LENGTH_MAX,
    FieldError,
    Invalid,
    JobChanged,
    JobDraft,
    PreconditionFailed,
    ResumeFrom,
    Scheduler,
    Unavailable,
)

PATCH_TRIES_MAX = 5
"""How often a patch without If-Match is merged anew because the job changed meanwhile."""


class PauseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/jobs/{id}:pause, which may be left out."""

    reason: str | None = None


class ResumeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/jobs/{id}:resume, which may be left out."""

    since: ResumeFrom = msgspec.field(default="now", name="from")


class JobChangeRoutes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def table(self) -> list[web.RouteDef]:
        return [
            web.put("/v1/jobs/{job_id:[^/:]+}", self.replace),
            web.patch("/v1/jobs/{job_id:[^/:]+}", self.patch),
            web.delete("/v1/jobs/{job_id:[^/:]+}", self.delete),
            web.post("/v1/jobs/{job_id:[^/:]+}:pause", self.pause),
            web.post("/v1/jobs/{job_id:[^/:]+}:resume", self.resume),
        ]

    async def replace(self, request: web.Request) -> web.Response:
        """200 and the job as it is now. What the body leaves out gets its default; a paused job stays paused."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        version = expected_version(request)
        draft = await read_json(request, JobDraft)
        return _changed(await self._scheduler.update_job(job_id, draft, expected_version=version))

    async def patch(self, request: web.Request) -> web.Response:
        """200 and the job as it is now. The body is merged into the definition (RFC 7396)."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        version = expected_version(request)
        body = await read_any_json(request)
        for _ in range(PATCH_TRIES_MAX):
            view, _ = await self._scheduler.job(job_id)
            if version not in (None, view.job.version):
                raise PreconditionFailed
            draft = build(JobDraft, merged(view.job, body))
            try:
                return _changed(await self._scheduler.update_job(job_id, draft, expected_version=view.job.version))
            except PreconditionFailed:
                if version is not None:
                    raise
        raise Unavailable("Nothing was done: the job changed again and again meanwhile.")

    async def delete(self, request: web.Request) -> web.Response:
        """200. With If-Match a compare-and-set: 412 when the job has changed since."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        effective = await self._scheduler.delete_job(job_id, expected_version=expected_version(request))
        return json_response({"job_id": job_id, "effective": effective})

    async def pause(self, request: web.Request) -> web.Response:
        """200 and the job; pausing a paused one changes nothing."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        body = await read_json_or_empty(request, PauseBody)
        if len(body.reason or "") > REASON_LENGTH_MAX or not (body.reason or "").isprintable():
            message = f"must be at most {REASON_LENGTH_MAX} printable characters"
            raise Invalid(errors=[FieldError(path="reason", message=message)])
        changed = await self._scheduler.pause_job(
            job_id,
            reason=body.reason or None,
            expected_version=expected_version(request),
            idempotency_key=idempotency_key(request),
        )
        return _changed(changed)

    async def resume(self, request: web.Request) -> web.Response:
        """200 and the job; resuming one that is not paused changes nothing."""
        Query(request, ()).done()
        job_id = identifier(request, "job_id", "job")
        body = await read_json_or_empty(request, ResumeBody)
        changed = await self._scheduler.resume_job(
            job_id,
            since=body.since,
            expected_version=expected_version(request),
            idempotency_key=idempotency_key(request),
        )
        return _changed(changed)


def _changed(changed: JobChanged) -> web.Response:
    body = render.job(changed.view) | {"effective": changed.effective}
    return json_response(body, headers={"ETag": entity_tag(changed.view.job.version)})
