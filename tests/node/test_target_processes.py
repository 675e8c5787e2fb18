"""Commands and containers on a whole node: what they put out is the run's log, and a lapsed lease ends them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from executor import describe_missing
from executor.interface import Executor
from executor.owner import Owner
from executor.registry import build_executors
from node.interface import AttemptOutcome, CommandTarget, ContainerTarget, JobDraft, RunState
from statemachine.codec import encode_command
from statemachine.commands import ExpireSession
from tests.docker_engine import IMAGE, ask
from tests.node.conftest import LiveNode, made_node

pytestmark = pytest.mark.slow


@asynccontextmanager
async def working_node(directory: Path, executors: dict[str, Executor]) -> AsyncIterator[LiveNode]:
    async with made_node(directory, executors=executors) as made:
        working = asyncio.create_task(made.node.runtime.run())
        yield made
        made.node.runtime.stop()
        await working


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """One node at work that runs commands."""
    owner = Owner(cluster=str(tmp_path), node="n1", incarnation="a")
    async with working_node(tmp_path, build_executors(allow_commands=True, owner=owner)) as made:
        yield made


async def expire_session(node: LiveNode) -> None:
    """What the leader does with a node that it has not heard of."""
    with node.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None
    renewal = session.renewal + 10
    expired = ExpireSession(now_ms=node.clock.wall_ms(), node="n1", incarnation=session.incarnation, renewal=renewal)
    node.log.apply([encode_command(expired)])


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
    await expire_session(node)
    run = await node.wait_for_run(run, RunState.SUCCEEDED)
    assert [one.outcome for one in run.attempts] == [AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_cancelled_run_has_no_process_when_it_is_answered(node: LiveNode, tmp_path: Path) -> None:
    """(M4) The program does not listen to SIGTERM, either."""
    told = tmp_path / "told"
    os.mkfifo(told)
    line = f"trap '' TERM; echo $$ > {told}; while :; do sleep 600; done"
    created = await node.service.create_job(draft("/bin/sh", "-c", line))
    run = await node.service.run_now(created.job_id)
    pid = int(await asyncio.to_thread(told.read_text))
    cancelled = await node.service.cancel_run(run.run_id)
    assert (cancelled.effective, cancelled.run.state) == (True, RunState.CANCELLED)
    assert [one.outcome for one in cancelled.run.attempts] == [AttemptOutcome.CANCELLED]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_lapsed_lease_kills_the_container(tmp_path: Path, docker_socket: str) -> None:
    """(I9) As it does a command."""
    owner = Owner(cluster=str(tmp_path), node="n1", incarnation="a")
    async with working_node(tmp_path, build_executors(docker_socket=docker_socket, owner=owner)) as node:
        line = "[ $HORAE_FENCE_TOKEN = 2 ] && exit 0; trap '' TERM; while :; do sleep 600; done"
        target = ContainerTarget(image=IMAGE, command=("sh", "-c", line), network="none")
        job = JobDraft(name="a", schedule="@every 1h", target=target, max_retries=1, backoff_base_s=0)
        run = await node.service.run_now((await node.service.create_job(job)).job_id)
        await until(docker_socket, f"horae-{run.run_id}-1", runs=True)
        await expire_session(node)
        run = await node.wait_for_run(run, RunState.SUCCEEDED)
        assert [one.outcome for one in run.attempts] == [AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED]
        await until(docker_socket, f"horae-{run.run_id}-1", runs=False)


async def until(socket: str, name: str, *, runs: bool) -> None:
    """Whether a container of that name runs is as it should be."""
    async with asyncio.timeout(30):
        while runs is not await asyncio.to_thread(is_running, socket, name):
            pass


def is_running(socket: str, name: str) -> bool:
    return f"/{name}" in [one["Names"][0] for one in ask(socket, "GET", "/containers/json")]


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        ("command", "this node runs no commands: start it with --allow-commands"),
        ("container", "this node runs no containers: start it with --docker-socket"),
        ("wasm", "this node cannot run targets of type wasm"),
    ],
)
def test_a_kind_that_a_node_does_not_run_comes_with_the_remedy(kind: str, detail: str) -> None:
    assert describe_missing(kind) == detail


async def test_a_command_waits_for_a_node_that_runs_commands_and_says_so(live: LiveNode) -> None:
    await live.wait_for_session()
    created = await live.service.create_job(draft("true"))
    run = await live.service.run_now(created.job_id)
    assert (run.state, run.reason) == (RunState.QUEUED, "waits: no live node runs targets of type command")
