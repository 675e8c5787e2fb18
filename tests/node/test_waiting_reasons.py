"""Why a run waits, as people see it; and that it keeps nobody else waiting."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from executor.registry import build_executors
from node.interface import HttpTarget, Invalid, RunState, TeamDraft
from tests.node.conftest import CONFIG, LiveNode, made_node
from tests.node.test_service import draft


async def test_tags_that_no_live_node_has(live: LiveNode) -> None:
    """The run waits, says why, is counted by a metric, and keeps nobody else waiting."""
    await live.wait_for_session()
    mars = await live.service.create_job(draft("mars", run_on={"zone": "mars", "disk": "ssd"}, priority=9))
    run = await live.service.run_now(mars.job_id)
    assert (run.state, run.reason) == (RunState.QUEUED, "waits: no live node has the tags disk=ssd, zone=mars")
    listed = await live.service.runs_of_job(mars.job_id)
    assert [one.reason for one in listed.items] == [run.reason]
    here = await live.service.create_job(draft("here"))
    await live.wait_for_run(await live.service.run_now(here.job_id), RunState.SUCCEEDED)
    assert b"horae_runs_unplaceable 1.0" in live.service.metrics_text()[0]


async def test_a_node_offers_its_tags_and_its_slots_by_kind(tmp_path: Path) -> None:
    config = replace(CONFIG, tags={"zone": "eu"}, kind_slots={"http": 3})
    async with made_node(tmp_path, config, executors=build_executors()) as node:
        working = asyncio.create_task(node.node.runtime.run())
        await node.wait_for_session()
        job = await node.service.create_job(draft(run_on={"zone": "eu"}))
        await node.wait_for_run(await node.service.run_now(job.job_id), RunState.SUCCEEDED)
        (view,) = (await node.service.cluster()).nodes
        node.node.runtime.stop()
        await working
    assert view.tags == {"zone": "eu"}
    assert view.kind_slots == {"http": 3, "container": 0, "command": 0}


async def test_a_quota_that_is_used_up(live: LiveNode) -> None:
    """(M9)"""
    await live.wait_for_session()
    await live.service.put_team("red", TeamDraft(max_concurrent=0))
    job = await live.service.create_job(draft(team="red"))
    run = await live.service.run_now(job.job_id)
    assert run.reason == "waits: team red has its max_concurrent of 0 runs under way"
    assert b'horae_team_claims{team="red"} 0.0' in live.service.metrics_text()[0]
    await live.service.put_team("red", TeamDraft(max_concurrent=1))
    await live.wait_for_run(run, RunState.SUCCEEDED)


async def test_a_cluster_without_a_live_node(idle: LiveNode) -> None:
    job = await idle.service.create_job(draft(target=HttpTarget(url="http://a.example/")))
    run = await idle.service.run_now(job.job_id)
    assert run.reason == "waits: no node is live"


@pytest.mark.parametrize("run_on", [{"": "x"}, {"a b": "x"}, {"zone": "x" * 300}, {str(n): "" for n in range(9)}])
async def test_tags_that_no_node_can_have_are_refused(idle: LiveNode, run_on: dict[str, str]) -> None:
    with pytest.raises(Invalid) as caught:
        await idle.service.create_job(draft(run_on=run_on))
    assert caught.value.errors[0].path.startswith("run_on")
