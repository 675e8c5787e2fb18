"""(M18) What the owner of a job is owed outlives the leader that was about to tell it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web

from bench.api import Api
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import api_time, create, http_target, leader_of, until
from tests.cluster.sink import Seen, Sink


class AlertReceiver:
    """Answers nothing while it is `stuck`."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []
        self.came = asyncio.Event()
        self.loose = asyncio.Event()
        self.url = ""

    async def open(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/hook", self._take)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        return runner

    async def _take(self, request: web.Request) -> web.Response:
        self.messages.append((request.headers["webhook-id"], await request.json()))
        self.came.set()
        await self.loose.wait()
        return web.Response()


async def refuse(seen: Seen) -> int:
    return 500


async def test_a_dead_run_is_told_although_the_leader_dies_while_it_tells(
    cluster: LocalCluster, api: Api, sink: Sink
) -> None:
    alerts = AlertReceiver()
    runner = await alerts.open()
    sink.answer = refuse
    job = await create(
        api,
        "doomed",
        run_at=api_time(time.time() + 1),
        target=http_target(sink.url),
        max_retries=0,
        notify={"url": alerts.url, "on": ["dead"]},
    )
    async with asyncio.timeout(30):
        await alerts.came.wait()
    leader = await leader_of(api)
    await cluster.kill(leader)
    alerts.loose.set()
    successor = await leader_of(api, other_than=leader)

    async def told_again() -> bool:
        return len(alerts.messages) > 1

    await until("the next leader tells it", told_again, 30)
    assert len({message_id for message_id, _ in alerts.messages}) == 1
    assert all(message["type"] == "run.dead" for _, message in alerts.messages)
    assert alerts.messages[0][1]["data"]["job_id"] == job["job_id"]

    async def settled() -> bool:
        return "horae_notifications_pending 0.0" in (await api.text("/metrics", node=successor))[1]

    await until("nothing is owed any more", settled, 30)
    await runner.cleanup()
