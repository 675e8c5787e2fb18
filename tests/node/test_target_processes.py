"""Commands on a whole node: what they put out is the run's log, and a lease that lapsed ends them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executor.owner import Owner
from executor.registry import build_executors
from node.interface import AttemptOutcome, CommandTarget, JobDraft, RunState
from statemachine.codec import encode_command
from statemachine.commands import ExpireSession
from tests.node.conftest import LiveNode, made_node

pytestmark = pytest.mark.slow


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """One node at work that runs commands."""
    owner = Owner(cluster=str(tmp_path), node="n1", incarnation="a")
    async with made_node(tmp_path, executors=build_executors(allow_commands=True, owner=owner)) as made:
        working = asyncio.create_task(made.node.runtime.run())
        yield made
        made.node.runtime.stop()
        await working


def draft(*argv: str, max_retries: int = 0) -> JobDraft:
    target = CommandTarget(argv=argv)
    return JobDraft(name="a", schedule="@every 1h", target=target, max_retries=max_retries, backoff_base_s=0)


async def test_a_command_runs_and_its_output_is_the_runs_log(node: LiveNode) -> None:
    """(M2, M20)"""
    created = await node.service.create_job(draft("/bin/sh", "-c", "echo $HORAE_FENCE_TOKEN of $HORAE_ATTEMPT; exit 3"))
    run = await node.wait_for_run(await node.service.run_now(created.job_id), RunState.DEAD)
    (attempt,) = run.attempts
    assert (attempt.outcome, attempt.status, attempt.detail) == (AttemptOutcome.FAILED, 3, "exit code 3")
    log = await node.service.run_log(run.run_id)
    assert log.output == b"1 of 1\n"


async def test_a_lapsed_lease_kills_the_command(node: LiveNode, tmp_path: Path) -> None:
    """(I9) The cluster ended the session: the program is killed, the run goes on under a new token."""
    told = tmp_path / "told"
    os.mkfifo(told)
    line = f'[ $HORAE_FENCE_TOKEN = 2 ] && exit 0; trap "" TERM; echo $$ > {told}; while :; do sleep 600; done'
    created = await node.service.create_job(draft("/bin/sh", "-c", line, max_retries=1))
    run = await node.service.run_now(created.job_id)
    pid = int(await asyncio.to_thread(told.read_text))
    with node.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None
    renewal = session.renewal + 10
    expired = ExpireSession(now_ms=node.clock.wall_ms(), node="n1", incarnation=session.incarnation, renewal=renewal)
    node.log.apply([encode_command(expired)])
    run = await node.wait_for_run(run, RunState.SUCCEEDED)
    assert [one.outcome for one in run.attempts] == [AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_node_that_runs_no_commands_says_how_to_change_that(live: LiveNode) -> None:
    created = await live.service.create_job(draft("true"))
    run = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.DEAD)
    assert run.attempts[0].detail == "this node runs no commands: start it with --allow-commands"
