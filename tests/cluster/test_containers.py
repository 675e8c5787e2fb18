"""Containers on a cluster: a killed node's container goes when the node is back, its run at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.api import Api
from bench.local_cluster import LocalCluster
from tests.cluster.conditions import create, final_runs_of, until
from tests.docker_engine import IMAGE, ask


@pytest.fixture
async def cluster(tmp_path: Path, docker_socket: str) -> AsyncIterator[LocalCluster]:
    """Three nodes that share one engine, as nodes on one machine do."""
    flags = ("--docker-socket", f"unix://{docker_socket}")
    async with LocalCluster(tmp_path, flags=flags) as started:
        yield started


async def test_a_killed_nodes_container_is_reaped_and_its_run_ends_elsewhere(
    cluster: LocalCluster, api: Api, docker_socket: str
) -> None:
    """(M8, dkron#316, dkron#349) kill -9 leaves the container running: nobody else may touch it. The run's next claim
    has a higher token; the node that comes back removes what it left, and only that."""
    line = "[ $HORAE_FENCE_TOKEN -gt 1 ] && exit 0; echo up; exec sleep 600"
    target = {"type": "container", "image": IMAGE, "command": ["sh", "-c", line], "network": "none"}
    job = await create(api, "held", schedule="@every 1h", target=target)
    await api.call("POST", f"/v1/jobs/{job['job_id']}:run", json={})

    async def look() -> dict[str, Any] | None:
        found = await asyncio.to_thread(ask, docker_socket, "GET", "/containers/json")
        return found[0] if found else None

    held = await until("its container runs", look, 30)
    killed = held["Labels"]["horae.node"]
    await cluster.kill(killed)
    (run,) = await final_runs_of(api, job["job_id"])
    assert run["state"] == "succeeded"
    assert run["node"] != killed
    assert [one["outcome"] for one in run["attempts"]] == ["lost", "succeeded"]
    left = await look()
    assert left is not None
    assert left["Id"] == held["Id"]

    cluster.start(killed)
    await cluster.wait_ready(killed)
    assert await look() is None, "it is ready only after it has reaped"
