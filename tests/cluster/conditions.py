"""Waiting for what a cluster shows on its API: there is no signal to wait for in another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp

from bench import jobs
from bench.api import Api, Json
from bench.local_cluster import LocalCluster

POLL_EVERY_S = 0.1
Value = TypeVar("Value")


async def until(what: str, look: Callable[[], Awaitable[Value | None]], timeout_s: float) -> Value:
    """The first value of `look()` that is true (not empty either). Fails with `what` and the last value otherwise."""
    value: Value | None = None
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = await look()
        if value:
            return value
        await asyncio.sleep(POLL_EVERY_S)
    raise AssertionError(f"not within {timeout_s} s: {what} (last seen: {value!r})")


async def sleep_until(unix_s: float) -> None:
    """For what only happens at a time of day: a tick, a fault in the middle of a load."""
    await asyncio.sleep(max(unix_s - time.time(), 0))


async def leader_of(api: Api, *, other_than: str | None = None, timeout_s: float = 15.0) -> str:
    """The leader that some node reports; `other_than` waits until it is another one."""

    async def look() -> str | None:
        try:
            _, cluster = await api.once("GET", "/v1/cluster?consistency=local")
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
        leader = cluster.get("leader")
        return leader if leader != other_than else None

    return await until("a leader", look, timeout_s)


def follower_of(cluster: LocalCluster, leader: str) -> str:
    return next(name for name in cluster.places if name != leader)


async def create(api: Api, name: str, **fields: Any) -> Json:
    """Create a job, repeating it under its own key until it is acknowledged."""
    return await api.call("POST", "/v1/jobs", json={"name": name, "idempotency_key": f"key-{name}", **fields})


async def runs_of(api: Api, job_id: str, query: str = "") -> list[Json]:
    """All runs of a job, oldest first."""
    runs = await api.pages(f"/v1/jobs/{job_id}/runs?limit=500{query}")
    return sorted(runs, key=lambda run: str(run["due_at"]))


async def final_runs_of(api: Api, job_id: str, query: str = "", timeout_s: float = 30.0) -> list[Json]:
    """The same, once there are some and all of them are final."""

    async def look() -> list[Json] | None:
        runs = await runs_of(api, job_id, query)
        return runs if all(run["state"] in jobs.FINAL for run in runs) else None

    return await until(f"final runs of {job_id}", look, timeout_s)


def http_target(url: str, **fields: Any) -> Json:
    return {"type": "http", "url": url, **fields}


def api_time(seconds: float) -> str:
    """A time as the API takes and shows it."""
    return jobs.api_time(round(seconds * 1000))
