"""(a) Kills of the leader and of a follower lose no tick and double none; (e) none is late beyond the bound."""

from __future__ import annotations

import asyncio
import time

from bench.api import Api, Json, spread
from bench.figures import unix_s
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
from tests.cluster.replicas import digests_at_one_index
from tests.cluster.sink import Sink

JOBS = 50
EVERY_S = 2
LOAD_S = 60


async def test_every_tick_has_one_run_and_reaches_its_target_while_nodes_are_killed(
    cluster: LocalCluster, api: Api, sink: Sink
) -> None:
    """(M6, M8, dkron#1210)"""
    jobs = await spread(
        range(JOBS),
        lambda i: create(api, f"tick-{i}", schedule=f"@every {EVERY_S}s", target=http_target(f"{sink.url}/{i}")),
    )
    begun = time.time()
    await sleep_until(begun + 8)
    leader = await leader_of(api)
    await cluster.kill(leader)
    await sleep_until(begun + 20)
    cluster.start(leader)
    await cluster.wait_ready(leader)
    await sleep_until(begun + 30)
    follower = follower_of(cluster, await leader_of(api))
    await cluster.kill(follower, parent_only=True)  # its log process must end by itself
    await sleep_until(begun + 42)
    cluster.start(follower)
    await cluster.wait_ready(follower)
    await sleep_until(begun + LOAD_S)
    end_s = time.time() // EVERY_S * EVERY_S
    assert any(seen.token > 1 for seen in sink.seen), "no claim was taken over: the kills hit nothing"
    await asyncio.gather(*(check_every_tick(api, sink, job, end_s) for job in jobs))
    await spread(jobs, lambda job: api.call("DELETE", f"/v1/jobs/{job['job_id']}"))
    assert len(set((await digests_at_one_index(cluster, api)).values())) == 1


async def check_every_tick(api: Api, sink: Sink, job: Json, end_s: float) -> None:
    """Each tick from the first promised one to `end_s` (exclusive) has one run, which succeeded and was delivered."""
    runs = await final_runs_of(api, job["job_id"], f"&to={api_time(end_s)}", timeout_s=40)
    first_s = unix_s(job["next_run_at"])
    expected = [api_time(first_s + EVERY_S * k) for k in range(round((end_s - first_s) / EVERY_S))]
    assert len(expected) >= LOAD_S / EVERY_S - 2
    assert [run["due_at"] for run in runs] == expected
    assert {run["kind"] for run in runs} == {"scheduled"}
    assert {run["state"] for run in runs} == {"succeeded"}
    delivered = {seen.due_at for seen in sink.seen if seen.job_id == job["job_id"]}
    assert delivered >= set(expected)
    by_run: dict[str, list[int]] = {}
    for seen in sink.seen:
        if seen.job_id == job["job_id"]:
            by_run.setdefault(seen.run_id, []).append(seen.token)
    assert all(tokens == sorted(set(tokens)) for tokens in by_run.values()), "a repeat without a higher token"


HELD_BY_SURVIVOR_LATE_S = 3.0
HELD_BY_DEAD_LATE_S = 10.0
ONE_OFFS = 60


async def test_a_tick_is_late_by_no_more_than_the_bound_when_the_leader_dies_just_before(
    cluster: LocalCluster, api: Api, sink: Sink
) -> None:
    """(M5, dkron#1210, dkron#998)"""
    due_s = int(time.time()) + 10
    jobs = await spread(
        range(ONE_OFFS),
        lambda i: create(api, f"once-{i}", run_at=api_time(due_s), target=http_target(f"{sink.url}/{i}")),
    )
    await sleep_until(due_s - 2)
    holders = {job["job_id"]: await holder(api, job["job_id"]) for job in jobs}
    leader = await leader_of(api)
    assert {leader} < set(holders.values()), "the test needs claims on the leader and on others"
    await sleep_until(due_s - 1)
    await cluster.kill(leader)
    await until("all delivered", lambda: delivered_all(sink), 20)
    late_s = {seen.job_id: seen.arrived_s - due_s for seen in sink.seen}
    bounds = {job: HELD_BY_DEAD_LATE_S if node == leader else HELD_BY_SURVIVOR_LATE_S for job, node in holders.items()}
    assert {job: late for job, late in late_s.items() if not 0 <= late <= bounds[job]} == {}
    for job in jobs:
        [run] = await final_runs_of(api, job["job_id"])
        assert run["state"] == "succeeded"


async def holder(api: Api, job_id: str) -> str:
    [run] = await runs_of(api, job_id)
    assert run["state"] == "claimed"
    return str(run["node"])


async def delivered_all(sink: Sink) -> bool:
    return len({seen.job_id for seen in sink.seen}) == ONE_OFFS
