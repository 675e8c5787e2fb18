"""The API of one node as the workload's Scheduler: what a client learns over HTTP, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import aiohttp
import msgspec

from chaos.workload import Client, NodeGone
from node.interface import (
    Consistency,
    HoraeError,
    HttpTarget,
    Job,
    JobChanged,
    JobCreated,
    JobDraft,
    JobPage,
    JobView,
    NoopTarget,
    Read,
    ResumeFrom,
    Run,
    RunCancelled,
    RunKind,
    RunPage,
    RunState,
    TeamDraft,
)

CONNECT_S = 3.0
LIMIT = 500
APPLIED_INDEX = "Horae-Applied-Index"
STALE = "Horae-Stale-Seconds"
Json = dict[str, Any]


class Answered(HoraeError):
    """A node's refusal, as its problem document says it."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or status))
        self.status = status
        self.definite = problem.get("outcome") == "definite"


def open_session() -> aiohttp.ClientSession:
    """A connection a request: on a used one aiohttp would repeat a request by itself, and hide what became of it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
    )


class LiveClient(Client):
    """The workload's client; the targets of its jobs are scripts of the sink at `sink_url`."""

    sink_url = ""

    def draft(self) -> JobDraft:
        draft = super().draft()
        if not isinstance(draft.target, HttpTarget):
            return draft
        script = draft.target.url.rpartition("/")[2]
        return msgspec.structs.replace(draft, target=HttpTarget(url=f"{self.sink_url}/{script}"))


class HttpScheduler:
    """Has the methods of node.interface.Scheduler that the workload calls; of the records only what it looks at. Each
    may raise NodeGone or a HoraeError."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def create_job(self, draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated:
        body, _ = await self._ask("POST", "/v1/jobs", key=idempotency_key, body=draft)
        return JobCreated(
            job_id=body["job_id"], version=body["version"], next_run_ms=unix_ms(body["next_run_at"]), created=True
        )

    async def job(self, job_id: str, *, consistency: Consistency = "linearizable") -> tuple[JobView, Read]:
        body, headers = await self._ask("GET", f"/v1/jobs/{job_id}?consistency={consistency}")
        return _job_view(body), _read(headers)

    async def jobs(self, *, limit: int = LIMIT, consistency: Consistency = "linearizable") -> JobPage:
        body, headers = await self._ask("GET", f"/v1/jobs?limit={limit}&consistency={consistency}")
        items = [_job_view(item) for item in body["items"]]
        return JobPage(items=items, next_cursor=body["next_cursor"], read=_read(headers))

    async def delete_job(self, job_id: str) -> bool:
        body, _ = await self._ask("DELETE", f"/v1/jobs/{job_id}")
        return bool(body["effective"])

    async def update_job(self, job_id: str, draft: JobDraft) -> JobChanged:
        body, _ = await self._ask("PUT", f"/v1/jobs/{job_id}", body=draft)
        return _job_changed(body)

    async def pause_job(self, job_id: str, *, reason: str, idempotency_key: str) -> JobChanged:
        body, _ = await self._ask("POST", f"/v1/jobs/{job_id}:pause", key=idempotency_key, body={"reason": reason})
        return _job_changed(body)

    async def resume_job(self, job_id: str, *, since: ResumeFrom, idempotency_key: str) -> JobChanged:
        body, _ = await self._ask("POST", f"/v1/jobs/{job_id}:resume", key=idempotency_key, body={"from": since})
        return _job_changed(body)

    async def put_team(self, team: str, draft: TeamDraft) -> None:
        await self._ask("PUT", f"/v1/teams/{team}", body=draft)

    async def run_now(self, job_id: str, *, idempotency_key: str | None = None) -> Run:
        body, _ = await self._ask("POST", f"/v1/jobs/{job_id}:run", key=idempotency_key, body={})
        return _run(body)

    async def run(self, run_id: str, *, consistency: Consistency = "linearizable") -> tuple[Run, Read]:
        body, headers = await self._ask("GET", f"/v1/runs/{run_id}?consistency={consistency}")
        return _run(body), _read(headers)

    async def runs_of_job(self, job_id: str, *, states: Sequence[RunState]) -> RunPage:
        wanted = "".join(f"&state={state.value}" for state in states)
        body, headers = await self._ask("GET", f"/v1/jobs/{job_id}/runs?limit={LIMIT}{wanted}")
        items = [_run(item) for item in body["items"]]
        return RunPage(items=items, next_cursor=body["next_cursor"], read=_read(headers))

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> RunCancelled:
        body, _ = await self._ask("POST", f"/v1/runs/{run_id}:cancel", body={"reason": reason})
        return RunCancelled(run=_run(body), effective=body["effective"])

    async def _ask(
        self, method: str, path: str, *, key: str | None = None, body: object = None
    ) -> tuple[Any, Mapping[str, str]]:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        sent |= {"Idempotency-Key": key} if key is not None else {}
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(method, self._url + path, data=data, headers=sent) as response:
                content = await response.read()
        except aiohttp.ClientConnectorError:
            raise NodeGone(definite=True) from None
        except (aiohttp.ClientError, OSError):
            raise NodeGone(definite=False) from None
        if response.status >= 300:
            raise Answered(response.status, _decoded(content) or {})
        return _decoded(content), response.headers


def unix_ms(text: str | None) -> int | None:
    """RFC 3339 as the API writes it."""
    return None if text is None else round(msgspec.convert(text, datetime).timestamp() * 1000)


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content) if content else None
    except msgspec.DecodeError:
        return None


def _read(headers: Mapping[str, str]) -> Read:
    stale = headers[STALE]
    return Read(applied_index=int(headers[APPLIED_INDEX]), stale_s=float("inf") if stale == "unknown" else float(stale))


def _job_view(body: Json) -> JobView:
    job = Job(
        job_id=body["job_id"],
        name=body["name"],
        team=body["team"],
        target=NoopTarget(),
        version=body["version"],
        created_ms=unix_ms(body["created_at"]) or 0,
        updated_ms=unix_ms(body["updated_at"]) or 0,
    )
    return JobView(job=job, next_run_ms=unix_ms(body["next_run_at"]))


def _job_changed(body: Json) -> JobChanged:
    return JobChanged(view=_job_view(body), effective=body["effective"])


def _run(body: Json) -> Run:
    return Run(
        run_id=body["run_id"],
        job_id=body["job_id"],
        job_version=body["job_version"],
        team=body["team"],
        kind=RunKind(body["kind"]),
        due_ms=unix_ms(body["due_at"]) or 0,
        release_ms=unix_ms(body["release_at"]) or 0,
        priority=0,
        state=RunState(body["state"]),
        token=body["fence_token"],
        created_ms=0,
    )
