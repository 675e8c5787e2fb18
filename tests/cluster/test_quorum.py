"""Without a majority nothing is acknowledged, and every refusal says whether it may have happened."""

from __future__ import annotations

import time
from datetime import datetime

from bench.api import Api
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import api_time, create, leader_of, runs_of, until


async def test_a_minority_acknowledges_nothing_and_recovers(cluster: LocalCluster, api: Api) -> None:
    before = await create(api, "before", schedule="@every 1d", target={"type": "noop"})
    leader = await leader_of(api)
    lone, *dead = (leader, *(name for name in cluster.places if name != leader))
    await cluster.kill(*dead)

    body = {"name": "during", "schedule": "@every 1s", "target": {"type": "noop"}, "idempotency_key": "during"}
    status, problem = await api.once("POST", "/v1/jobs", node=lone, json=body)
    assert status == 503
    assert problem["outcome"] in ("definite", "indefinite")
    await until("not ready", lambda: answers(api, lone, "/readyz", 503), 15)
    _, reason = await api.once("GET", "/readyz", node=lone)
    assert reason["detail"]
    assert await answers(api, lone, "/healthz", 200)
    assert await answers(api, lone, f"/v1/jobs/{before['job_id']}", 503), "a linearizable read without a majority"
    assert await answers(api, lone, f"/v1/jobs/{before['job_id']}?consistency=local", 200)
    status, problem = await api.once("POST", "/v1/jobs", node=lone, json=body | {"name": "x", "idempotency_key": "x"})
    assert (status, problem["status"]) == (503, 503)

    cluster.start(dead[0])
    await cluster.wait_ready(lone, dead[0])
    during = await api.call("POST", "/v1/jobs", json=body)
    await until("it runs", lambda: succeeded(api, during["job_id"]), 20)
    assert [job["name"] for job in await api.pages("/v1/jobs?limit=500")].count("during") == 1
    assert (await api.call("GET", f"/v1/jobs/{before['job_id']}"))["version"] == 1


async def answers(api: Api, node: str, path: str, status: int) -> bool:
    found, _ = await api.once("GET", path, node=node)
    return found == status


async def succeeded(api: Api, job_id: str) -> bool:
    return any(run["state"] == "succeeded" for run in await runs_of(api, job_id))


async def test_every_node_tells_the_same_of_the_cluster(cluster: LocalCluster, api: Api) -> None:
    await until("all buckets owned", lambda: owned(api), 20)
    views = [await api.call("GET", "/v1/cluster", node=name) for name in cluster.places]
    assert {view["node"] for view in views} == set(cluster.places)
    assert len({(view["cluster_id"], view["leader"], view["term"]) for view in views}) == 1
    for view in views:
        assert view["quorum"]
        assert {node["node"]: node["http"] for node in view["nodes"]} == {
            name: place.http for name, place in cluster.places.items()
        }
        assert sum(node["buckets"] for node in view["nodes"]) == 1024
        assert all(node["live"] for node in view["nodes"])
        assert [node["node"] for node in view["nodes"] if node["role"] == "leader"] == [view["leader"]]


async def owned(api: Api) -> bool:
    view = await api.call("GET", "/v1/cluster")
    return min(int(node["buckets"]) for node in view["nodes"]) >= 1024 // 3


async def test_an_idle_cluster_keeps_its_leader(cluster: LocalCluster, api: Api) -> None:
    before = await api.call("GET", "/v1/cluster")
    deadline = time.monotonic() + 8

    async def changed() -> bool:
        view = await api.call("GET", "/v1/cluster")
        assert (view["leader"], view["term"]) == (before["leader"], before["term"])
        return time.monotonic() > deadline

    await until("eight quiet seconds", changed, 15)


async def test_the_leadership_goes_where_an_operator_wants_it_without_a_gap(cluster: LocalCluster, api: Api) -> None:
    """Asked of a node that is neither the leader nor the one to lead, while a job ticks every second."""
    leader = await leader_of(api)
    wanted, asked = (name for name in sorted(cluster.places) if name != leader)
    job = await create(api, "beat", schedule="@every 1s", target={"type": "noop"})
    await until("a first run", lambda: runs_of(api, job["job_id"], "&state=succeeded"), 10)
    status, answer = await api.once("POST", "/v1/cluster:transfer", node=asked, json={"to": wanted})
    assert (status, answer) == (200, {"leader": wanted})
    assert await leader_of(api, other_than=leader) == wanted
    handed = api_time(time.time())

    async def later_runs() -> bool:
        return sum(run["due_at"] > handed for run in await runs_of(api, job["job_id"])) >= 3

    await until("ticks after the handing over", later_runs, 15)
    runs = [run for run in await runs_of(api, job["job_id"]) if run["state"] != "claimed"]
    assert {run["state"] for run in runs} == {"succeeded"}
    dues_s = sorted(datetime.fromisoformat(run["due_at"]).timestamp() for run in runs)
    assert dues_s == [dues_s[0] + number for number in range(len(dues_s))], "a tick is missing or doubled"
