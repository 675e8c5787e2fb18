"""Why a run waits, as people see it; and that it keeps nobody else waiting."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from executor.registry import build_executors
from node.interface import AttemptOutcome, HttpTarget, Invalid, RunState, TeamDraft
from statemachine.codec import encode_command
from statemachine.commands import Finish, OpenSession
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


async def test_a_target_that_times_out_often(idle: LiveNode) -> None:
    """Three timeouts in a row: its runs wait while one of them holds its share, and other targets do not."""
    now_ms = idle.clock.wall_ms()
    room = {"http": "", "raft": "", "version": "", "tzdata": "", "ahead": 0}
    await idle.log.propose(encode_command(OpenSession(now_ms=now_ms, node="n1", incarnation=1, slots=4, **room)))
    slow = draft(target=HttpTarget(url="http://slow.example/"), max_retries=0)
    job = await idle.service.create_job(slow)
    for _ in range(3):
        run = await idle.service.run_now(job.job_id)
        times = {"now_ms": now_ms, "started_ms": now_ms, "finished_ms": now_ms}
        timed_out = Finish(run_id=run.run_id, token=1, outcome=AttemptOutcome.TIMED_OUT, **times)
        await idle.log.propose(encode_command(timed_out))
    first, second = [await idle.service.run_now(job.job_id) for _ in range(2)]
    assert (first.state, second.state) == (RunState.CLAIMED, RunState.QUEUED)
    assert second.reason == "waits: its target times out often, and holds its share of the slots"
    assert b"horae_slow_targets 1.0" in idle.service.metrics_text()[0]
