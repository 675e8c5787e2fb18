"""A node whose state is replaced by a copy of another's: what it holds in memory follows, though no event told it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from node.interface import JobDraft, NoopTarget, RunState
from statemachine.codec import encode_command
from statemachine.commands import ExpireSession
from tests.node.conftest import CONFIG, LiveNode, made_node

pytestmark = pytest.mark.slow

FORGETFUL = replace(CONFIG, reconcile_every_s=1000.0, rescan_every_s=1000.0)
"""Finds nothing by looking from time to time."""


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveNode]:
    async with made_node(tmp_path, FORGETFUL) as node:
        task = asyncio.create_task(node.node.runtime.run())
        await node.wait_for_session()
        node.log.events_lost = True
        yield node
        node.log.events_lost = False
        node.node.runtime.stop()
        await task


async def test_claims_in_the_copy_are_worked_off(live: LiveNode) -> None:
    created = await live.service.create_job(JobDraft(name="a", schedule="@every 1h", target=NoopTarget()))
    run = await live.service.run_now(created.job_id)
    live.log.state_replaced()
    assert (await live.wait_for_run(run, RunState.SUCCEEDED)).attempt == 1


async def test_ticks_in_the_copy_are_fired(live: LiveNode) -> None:
    """They may stand at instants that the ticker has passed."""
    live.log.events_lost = False
    passed = await live.service.create_job(JobDraft(name="b", schedule="@every 1s", target=NoopTarget()))
    await live.wait_for_runs(passed.job_id, (RunState.CLAIMED, RunState.SUCCEEDED), 3)
    live.log.events_lost = True
    created = await live.service.create_job(JobDraft(name="a", schedule="@every 1s", target=NoopTarget()))
    live.log.state_replaced()
    await live.wait_for_runs(created.job_id, (RunState.CLAIMED, RunState.SUCCEEDED), 1)


async def test_a_session_that_ended_in_the_copy_is_over_at_once(live: LiveNode) -> None:
    worker = live.node.runtime.worker
    with live.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None and session.incarnation == worker.session
    expired = ExpireSession(
        now_ms=live.clock.wall_ms(), node="n1", incarnation=session.incarnation, renewal=session.renewal
    )
    live.log.apply([encode_command(expired)])
    worker.pulse()
    assert worker.session == session.incarnation, "nobody told it"
    live.log.state_replaced()
    worker.pulse()
    assert worker.session != session.incarnation


async def test_a_session_that_the_copy_still_has_goes_on(live: LiveNode) -> None:
    worker = live.node.runtime.worker
    session = worker.session
    live.log.state_replaced()
    worker.pulse()
    assert worker.session == session


async def test_the_metrics_count_copies_and_show_the_log(live: LiveNode) -> None:
    live.log.state_replaced()
    text = live.service.metrics_text()[0].decode()
    for line in (
        "horae_raft_snapshots_received_total 1.0",
        "horae_raft_snapshots_sent_total 0.0",
        "horae_raft_first_index 1.0",
        "horae_raft_log_bytes 0.0",
    ):
        assert line in text
