"""Creating many jobs and reading their runs, through the public API, over several connections and all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bench.api import Api, Json, Refused, spread

FINAL = frozenset({"succeeded", "dead", "cancelled", "skipped"})
POLL_EVERY_S = 0.5
PAGE = 500


async def create_noop_jobs(api: Api, names: Sequence[str], **fields: Any) -> list[str]:
    """create_jobs() of jobs that do nothing."""
    return await create_jobs(api, names, target={"type": "noop"}, **fields)


async def create_jobs(api: Api, names: Sequence[str], **fields: Any) -> list[str]:
    """One job a name, each with `fields`; the job ids in the same order. Repeats are safe: the name is the key."""

    async def create(name: str) -> str:
        body = {"name": name, "idempotency_key": name, **fields}
        return str((await api.call("POST", "/v1/jobs", json=body))["job_id"])

    return await spread(names, create)


async def delete_jobs(api: Api, job_ids: Sequence[str]) -> None:
    """Repeats are safe: 404 is the answer to the repeat of a delete whose own answer was lost."""

    async def delete(job_id: str) -> None:
        try:
            await api.call("DELETE", f"/v1/jobs/{job_id}")
        except Refused as refusal:
            if refusal.status != 404:
                raise

    await spread(job_ids, delete)


async def final_runs(api: Api, job_ids: Sequence[str], query: str, *, timeout_s: float) -> list[list[Json]]:
    """All runs of each job that `query` selects, read again until every one of them is final and each job has some.

    Raises TimeoutError after `timeout_s`."""
    found: dict[str, list[Json]] = {}
    async with asyncio.timeout(timeout_s):
        while waiting := [job_id for job_id in job_ids if not _all_final(found.get(job_id))]:
            if found:
                await asyncio.sleep(POLL_EVERY_S)
            found.update(zip(waiting, await spread(waiting, lambda job_id: _runs(api, job_id, query)), strict=True))
    return [found[job_id] for job_id in job_ids]


async def _runs(api: Api, job_id: str, query: str) -> list[Json]:
    return await api.pages(f"/v1/jobs/{job_id}/runs?consistency=local&limit={PAGE}{query}")


def _all_final(runs: list[Json] | None) -> bool:
    return bool(runs) and all(run["state"] in FINAL for run in runs or ())


def api_time(unix_ms: int) -> str:
    """A time as the API takes it."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
