"""A log on real nodes: followed from one that does not run it, through the kill of the one that does (M4, M20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.api import Api, Json
from bench.local_cluster import LocalCluster
from httpapi.client import Client
from tests.cluster.conditions import create, follower_of, http_target, until


class Talker:
    """A target whose first attempt talks and never ends; the others end."""

    def __init__(self) -> None:
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        attempt = request.headers["Horae-Attempt"]
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(f"attempt {attempt} talks\n".encode())
        if attempt == "1":
            await asyncio.Event().wait()
        return response


@pytest.fixture
async def talker() -> AsyncIterator[Talker]:
    made = Talker()
    app = web.Application()
    app.router.add_post("/", made.handle)
    server = TestServer(app, shutdown_timeout=0.1)
    async with server:
        made.url = str(server.make_url("/"))
        yield made


async def test_a_log_is_followed_from_another_node_through_the_kill_of_the_one_that_runs_it(
    cluster: LocalCluster, api: Api, talker: Talker
) -> None:
    """And what the killed node had of it is readable from any node when it is back."""
    job = await create(api, "talks", schedule="@every 1h", target=http_target(talker.url), backoff_base_s=1)
    run = await api.call("POST", f"/v1/jobs/{job['job_id']}:run", json={})

    async def begun() -> Json | None:
        found = await api.call("GET", f"/v1/runs/{run['run_id']}")
        return found if found["state"] == "running" else None

    holder = (await until("a start", begun, 20))["node"]
    async with Client(cluster.urls[follower_of(cluster, holder)]) as client, asyncio.timeout(60):
        events = client.follow_log(run["run_id"])
        told = [await anext(events), await anext(events)]
        assert [(event.name, event.data["attempt"]) for event in told] == [("attempt", 1), ("log", 1)]
        await until("the log on its disk", lambda: has_live_log(cluster, holder), 20)
        await cluster.kill(holder)
        told += [event async for event in events]
    assert "".join(event.data["text"] for event in told if event.name == "log") == "attempt 1 talks\nattempt 2 talks\n"
    assert any(holder in event.data["detail"] for event in told if event.name == "notice")
    assert told[-1].data == {"state": "succeeded", "attempt": 2, "outcome": "succeeded", "reason": None}
    cluster.start(holder)
    await cluster.wait_ready(holder)

    async def read() -> list[str] | None:
        texts = [await api.text(f"/v1/runs/{run['run_id']}/log?attempt=1", node=name) for name in cluster.places]
        return [text for _, text in texts] if {text for _, text in texts} == {"attempt 1 talks\n"} else None

    await until("the log of the first attempt, from every node", read, 20)


async def has_live_log(cluster: LocalCluster, name: str) -> bool:
    return any((cluster.places[name].data_dir / "logs" / "live").glob("*.head"))
