"""(N18) A target that completes its attempt itself outlives the node that called it."""

from __future__ import annotations

from typing import Any

from bench.api import Api, Json
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import create, http_target, until
from tests.cluster.sink import Seen, Sink


async def accept(seen: Seen) -> int:
    return 202


async def test_a_run_goes_on_when_the_node_that_sent_its_request_is_killed(
    cluster: LocalCluster, api: Api, sink: Sink
) -> None:
    sink.answer, sink.headers = accept, {"Horae-Completion": "async"}
    job = await create(
        api, "long", schedule="@every 1h", timeout_s=600, target=http_target(f"{sink.url}/long", heartbeat_s=120)
    )
    run_id = (await api.call("POST", f"/v1/jobs/{job['job_id']}:run", json={}))["run_id"]

    async def show(node: str | None = None) -> Json:
        return await api.call("GET", f"/v1/runs/{run_id}", node=node)

    async def taken_over() -> Json | None:
        run = await show()
        return run if "lease_until" in run else None

    sender = (await until("the lease of the target", taken_over, 15))["node"]
    await cluster.kill(sender)
    others = [name for name in cluster.places if name != sender]

    async def expired() -> bool:
        nodes = (await api.call("GET", "/v1/cluster", node=others[0]))["nodes"]
        return any(node["node"] == sender and not node["live"] for node in nodes)

    await until("the end of the sender's session", expired, 30)
    run = await show(others[0])
    assert (run["state"], run["attempt"], run["fence_token"]) == ("running", 1, 1)

    async def say(call: str, node: str, **body: Any) -> tuple[int, Json]:
        return await api.once("POST", f"/v1/runs/{run_id}:{call}", node=node, json=body)

    assert (await say("heartbeat", others[0], fence_token=1, progress="half"))[0] == 200
    assert (await say("complete", others[1], fence_token=0, outcome="failed"))[0] == 409
    assert (await show(others[1]))["progress"] == "half"
    for node in others:
        status, run = await say("complete", node, fence_token=1, outcome="succeeded", output="312 rows\n")
        assert (status, run["state"]) == (200, "succeeded")
        assert await api.text(f"/v1/runs/{run_id}/log", node=node) == (200, "312 rows\n")
    assert [(one["attempt"], one["node"], one["outcome"]) for one in run["attempts"]] == [(1, sender, "succeeded")]
    assert len(sink.seen) == 1
