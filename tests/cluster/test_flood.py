"""Under a flood of creates the cluster slows its clients down, and never its own heart."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
import pytest

from bench.api import Api, Json, spread
from bench.figures import unix_s
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import (
    api_time,
    create,
    final_runs_of,
    leader_of,
    sleep_until,
)

FLOOD_S = 15.0
CONNECTIONS_A_NODE = 400
BACK_OFF_S = 0.1
"""Ten times more eager than what Retry-After asks for."""
TICKING_JOBS = 20
LATE_MAX_S = 2.0
LAG_MAX_S = 1.0
"""Of the event loops. Usual is a tenth of this; the machine that runs the tests has two cores for all of it."""
FAR_AWAY = "2099-01-01T00:00:00Z"


@dataclass(kw_only=True)
class Answers:
    """What the flood was told: how often each status came, and the jobs that were acknowledged, by name."""

    statuses: Counter[int] = field(default_factory=Counter)
    acknowledged: dict[str, str] = field(default_factory=dict)
    unanswered: int = 0


@pytest.mark.parametrize(("args_bytes", "creates_a_s_min"), [(0, 100), (40_000, 10)], ids=["small", "large"])
async def test_a_flood_of_creates_costs_no_session_and_no_tick(
    cluster: LocalCluster, api: Api, args_bytes: int, creates_a_s_min: int
) -> None:
    ticking = await spread(
        range(TICKING_JOBS), lambda i: create(api, f"tick-{i}", schedule="@every 1s", target={"type": "noop"})
    )
    leader = await leader_of(api)
    term = await figure(cluster, api, "horae_raft_term")
    begun_s = time.time() + 1.0
    await sleep_until(begun_s)
    answers, lag_s = await asyncio.gather(flood(cluster, args_bytes), worst_lag_s(cluster, api))
    ended_s = time.time()

    assert answers.unanswered == 0
    assert set(answers.statuses) <= {201, 409, 429, 503}
    assert answers.statuses[429] > 0, "that was no flood"
    assert len(answers.acknowledged) > creates_a_s_min * FLOOD_S, "nothing but refusals"
    assert await figure(cluster, api, "horae_lease_expired_total") == 0
    assert not any("lapsed" in cluster.log_tail(name, lines=100_000) for name in cluster.places)
    assert (await leader_of(api), await figure(cluster, api, "horae_raft_term")) == (leader, term)
    assert lag_s < LAG_MAX_S
    for job in ticking:
        await check_ticks(api, job["job_id"], begun_s, ended_s)
    await check_acknowledged(api, answers.acknowledged)


async def flood(cluster: LocalCluster, args_bytes: int) -> Answers:
    """Creates over many connections to all nodes, each a closed loop, for FLOOD_S."""
    answers, until_s, args = Answers(), time.monotonic() + FLOOD_S, {"text": "x" * args_bytes}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        await asyncio.gather(
            *(
                create_until(session, f"{url}/v1/jobs", f"{node}-{number}", args, until_s, answers)
                for node, url in cluster.urls.items()
                for number in range(CONNECTIONS_A_NODE)
            )
        )
    return answers


async def create_until(
    session: aiohttp.ClientSession, url: str, prefix: str, args: Json, until_s: float, answers: Answers
) -> None:
    number = 0
    while time.monotonic() < until_s:
        name = f"flood-{prefix}-{number}"
        body = {"name": name, "target": {"type": "noop"}, "run_at": FAR_AWAY, "idempotency_key": name, "args": args}
        try:
            async with session.post(url, json=body) as response:
                answers.statuses[response.status] += 1
                answer = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError):
            answers.unanswered += 1
            continue
        if response.status == 201:
            answers.acknowledged[name] = answer["job_id"]
            number += 1
        else:
            assert "Retry-After" in response.headers
            await sleep_until(time.time() + BACK_OFF_S)


async def worst_lag_s(cluster: LocalCluster, api: Api) -> float:
    """Near the end of the flood: the worst lag of any node's loop since its beginning."""
    await sleep_until(time.time() + FLOOD_S - 1.0)
    return max([await figure(cluster, api, "horae_loop_lag_seconds", node=node) for node in cluster.places])


async def figure(cluster: LocalCluster, api: Api, name: str, *, node: str | None = None) -> float:
    """One metric without labels, of one node; each shows the same for the cluster."""
    _, text = await api.text("/metrics", node=node or next(iter(cluster.places)))
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found is not None, f"there is no metric {name}"
    return float(found[1])


async def check_ticks(api: Api, job_id: str, from_s: float, to_s: float) -> None:
    """Every second of the flood has its run, which started in time and needed one attempt."""
    runs = await final_runs_of(api, job_id, f"&from={api_time(from_s)}&to={api_time(to_s)}")
    seconds = [unix_s(run["due_at"]) for run in runs]
    assert seconds == [seconds[0] + k for k in range(len(seconds))]
    assert len(seconds) >= int(to_s) - int(from_s) - 1
    for run in runs:
        assert (run["state"], run["attempt"]) == ("succeeded", 1)
        assert unix_s(run["started_at"]) - unix_s(run["due_at"]) <= LATE_MAX_S


async def check_acknowledged(api: Api, acknowledged: dict[str, str]) -> None:
    """Every acknowledged job is there, under its id: read back in whole pages."""
    jobs = await api.pages("/v1/jobs?limit=500")
    assert acknowledged.items() <= {job["name"]: job["job_id"] for job in jobs}.items()
