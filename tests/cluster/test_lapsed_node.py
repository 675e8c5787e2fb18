"""(c) A node that stands still beyond its session: its runs go on elsewhere, and what it says later does not count."""

from __future__ import annotations

import asyncio
import re
import time

from bench.api import Api, spread
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import (
    api_time,
    create,
    final_runs_of,
    follower_of,
    http_target,
    leader_of,
    runs_of,
    sleep_until,
    until,
)
from tests.cluster.sink import Seen, Sink

JOBS = 24
STOPPED_S = 30.0


async def test_a_stopped_nodes_runs_are_taken_over_and_its_late_results_are_refused(
    cluster: LocalCluster, api: Api, sink: Sink
) -> None:
    """(M17, dkron#316)"""
    leader = await leader_of(api)
    stopped = follower_of(cluster, leader)
    release = asyncio.Event()

    async def hold_first_attempts(seen: Seen) -> int:
        if seen.token == 1:
            await release.wait()
        return 200

    sink.answer = hold_first_attempts
    due_s = int(time.time()) + 4
    jobs = await spread(
        range(JOBS),
        lambda i: create(
            api, f"held-{i}", run_at=api_time(due_s), timeout_s=120, target=http_target(f"{sink.url}/{i}")
        ),
    )
    await sink.wait_count(JOBS, 30)
    first = [(await runs_of(api, job["job_id"]))[0] for job in jobs]
    held = {run["run_id"]: run for run in first if run["node"] == stopped}
    assert held, "the node to be stopped holds nothing"

    cluster.pause(stopped)
    try:
        taken_over = JOBS + len(held)
        await sink.wait_count(taken_over, 20)
        release.set()  # every first attempt is answered now: the others' count, the stopped node reads its own later
        await sleep_until(due_s + STOPPED_S)
    finally:
        cluster.resume(stopped)
    await cluster.wait_ready(stopped)
    await until("late results counted", lambda: fenced_writes(api, leader), 20)

    runs = {run["run_id"]: run for job in jobs for run in await final_runs_of(api, job["job_id"])}
    assert {run["state"] for run in runs.values()} == {"succeeded"}
    for run_id, run in runs.items():
        if run_id in held:
            assert run["node"] != stopped
            assert run["fence_token"] > held[run_id]["fence_token"]
            assert [attempt["outcome"] for attempt in run["attempts"]] == ["lost", "succeeded"]
        else:
            assert (run["attempt"], run["fence_token"]) == (1, 1)
    repeated = [seen for seen in sink.seen if seen.token > 1]
    assert {seen.run_id for seen in repeated} == set(held)
    assert all(seen.attempt == 2 and seen.idempotency_key == seen.run_id for seen in repeated)


async def fenced_writes(api: Api, node: str) -> float:
    _, text = await api.text("/metrics", node=node)
    found = re.search(r"^horae_fenced_writes_total(?:\{[^}]*\})? (\S+)$", text, re.MULTILINE)
    assert found is not None, "the metric is missing"
    return float(found[1])
