"""A whole node, and a target that answers 202 and completes its attempts later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from executor.interface import Outcome, OutcomeKind
from httpapi.app import build_app
from node.config import ConfigError, NodeConfig
from node.interface import (
    AttemptOutcome,
    Completion,
    Fenced,
    JobDraft,
    LogElsewhere,
    NoopTarget,
    NotFound,
    RunState,
)
from node.log_folder import LogFolder
from node.outcomes import report_of
from node.work import Definition, Work
from statemachine.codec import encode_command
from statemachine.commands import Complete, Detach, OpenSession
from statemachine.records import HttpTarget, Job
from tests.node.conftest import LiveNode
from tests.node.test_runtime import Sink, sink
from tests.node.test_timers import claim

__all__ = ["sink"]
pytestmark = pytest.mark.slow
DONE = Completion(outcome="succeeded")


@pytest.fixture
async def taken(live: LiveNode, sink: Sink) -> AsyncIterator[Sink]:
    sink.status, sink.headers = 202, {"Horae-Completion": "async"}
    yield sink


async def detached(live: LiveNode, sink: Sink, **fields: object) -> str:
    """The id of a run that its target has taken over."""
    created = await live.service.create_job(sink.draft(**fields))
    run = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.RUNNING)
    await live.wait_until(lambda: True if not live.node.runtime.worker.attempts else None)
    return run.run_id


async def test_the_run_goes_on_until_its_target_completes_it(live: LiveNode, taken: Sink) -> None:
    run_id = await detached(live, taken)
    [headers] = taken.seen
    assert headers["Horae-Callback-Url"] == f"http://127.0.0.1:8101/v1/runs/{run_id}"
    token = int(headers["Horae-Fence-Token"])
    beat = await live.service.heartbeat_run(run_id, token=token, progress="half")
    run = (await live.service.run(run_id))[0]
    assert run.lease is not None and (run.lease.until_ms, run.lease.progress) == (beat.until_ms, "half")
    assert run.session is None
    run = await live.service.complete_run(
        run_id, token=token, completion=Completion(outcome="succeeded", detail="done")
    )
    assert (run.state, run.attempts[0].outcome, run.attempts[0].node) == (
        RunState.SUCCEEDED,
        AttemptOutcome.SUCCEEDED,
        "n1",
    )
    assert run == await live.service.complete_run(run_id, token=token, completion=DONE)
    assert (await live.service.run_log(run_id)).output == b"done"
    with pytest.raises(Fenced, match="the run is succeeded"):
        await live.service.complete_run(run_id, token=token, completion=Completion(outcome="failed"))


async def test_the_targets_output_is_the_attempts_log(live: LiveNode, taken: Sink) -> None:
    run_id = await detached(live, taken)
    done = Completion(outcome="succeeded", output="312 rows ä\n".encode())
    run = await live.service.complete_run(run_id, token=1, completion=done)
    assert (run.log_bytes, run.attempts[0].log_node) == (12, "n1")
    assert (await live.service.run_log(run_id)).output == "312 rows ä\n".encode()
    other = Completion(outcome="succeeded", output=b"another")
    with pytest.raises(Fenced):
        await live.service.complete_run(run_id, token=0, completion=other)
    assert (await live.service.run_log(run_id)).output == "312 rows ä\n".encode()


async def test_a_log_that_another_node_was_handed_is_found_there(idle: LiveNode) -> None:
    made = await idle.service.create_job(JobDraft(name="a", schedule="@every 1h", target=NoopTarget()))
    run_id = (await idle.service.run_now(made.job_id)).run_id
    session = OpenSession(
        now_ms=idle.clock.wall_ms(),
        node="n2",
        incarnation=1,
        http="h",
        raft="r",
        slots=9,
        ahead=0,
        version="",
        tzdata="",
    )
    await idle.log.propose(encode_command(session))
    handed = Complete(
        now_ms=idle.clock.wall_ms(),
        run_id=run_id,
        token=1,
        outcome=AttemptOutcome.SUCCEEDED,
        log_node="n3",
        log_bytes=7,
    )
    await idle.log.propose(encode_command(handed))
    with pytest.raises(LogElsewhere) as elsewhere:
        await idle.service.run_log(run_id)
    assert elsewhere.value.node == "n3"
    repeat = Completion(outcome="succeeded", output=b"312 rows")
    assert (await idle.service.complete_run(run_id, token=1, completion=repeat)).attempts[0].log_node == "n3"
    with pytest.raises(LogElsewhere):
        await idle.service.run_log(run_id)


async def test_a_full_disk_does_not_cost_the_run_its_result(
    live: LiveNode, taken: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    run_id = await detached(live, taken)
    monkeypatch.setattr(LogFolder, "keep", refuse)
    done = Completion(outcome="succeeded", output=b"312 rows")
    assert (await live.service.complete_run(run_id, token=1, completion=done)).state is RunState.SUCCEEDED


async def test_a_failure_is_followed_by_the_next_attempt_by_the_jobs_rules(live: LiveNode, taken: Sink) -> None:
    rules = {"backoff_base_s": 7.0, "backoff_jitter": 0.0}
    run_id = await detached(live, taken, max_retries=1, **rules)
    run = await live.service.complete_run(run_id, token=1, completion=Completion(outcome="failed", detail="no disk"))
    assert (run.state, run.attempts[0].detail) == (RunState.RETRYING, "no disk")
    assert run.retry_at_ms is not None and run.attempts[0].finished_ms is not None
    assert 6_900 <= run.retry_at_ms - run.attempts[0].finished_ms <= 7_100
    with pytest.raises(Fenced):
        await live.service.heartbeat_run(run_id, token=1)


async def test_a_cancelled_run_is_over_at_once_and_its_target_is_told(live: LiveNode, taken: Sink) -> None:
    """(I8) Nobody holds it who could answer, so it ends there and then; what its target says later does not count."""
    run_id = await detached(live, taken)
    cancelled = await live.service.cancel_run(run_id, reason="not needed")
    assert (cancelled.effective, cancelled.run.state, cancelled.run.lease) == (True, RunState.CANCELLED, None)
    for call in (
        live.service.heartbeat_run(run_id, token=1),
        live.service.complete_run(run_id, token=1, completion=DONE),
    ):
        with pytest.raises(Fenced, match="the run is cancelled"):
            await call
    assert (await live.service.run(run_id))[0] == cancelled.run


async def test_a_target_that_is_not_heard_has_timed_out(live: LiveNode, taken: Sink) -> None:
    """The owner of the bucket notices, whoever sent the request: here the only node there is."""
    run_id = await detached(live, taken, timeout_s=1.0, max_retries=1, backoff_base_s=0.0)
    taken.status, taken.headers = 200, {}
    run = (await live.service.run(run_id))[0]
    run = await live.wait_for_run(run, RunState.SUCCEEDED)
    assert [(one.attempt, one.outcome) for one in run.attempts] == [
        (1, AttemptOutcome.TIMED_OUT),
        (2, AttemptOutcome.SUCCEEDED),
    ]
    assert run.attempts[0].detail == "not completed within timeout_s"
    with pytest.raises(Fenced):
        await live.service.complete_run(run_id, token=1, completion=DONE)


async def test_the_target_may_be_quicker_than_its_own_answer(live: LiveNode, sink: Sink) -> None:
    """It completes the attempt before its 202 has left: the result stands, and the answer adds nothing."""
    sink.status, sink.headers = 202, {"Horae-Completion": "async"}
    sink.may_answer.clear()
    created = await live.service.create_job(sink.draft())
    run = await live.service.run_now(created.job_id)
    await sink.arrived.wait()
    assert (await live.service.heartbeat_run(run.run_id, token=1)).until_ms is None
    done = await live.service.complete_run(run.run_id, token=1, completion=DONE)
    sink.may_answer.set()
    await live.wait_until(lambda: True if not live.node.runtime.worker.attempts else None)
    assert done.state is RunState.SUCCEEDED
    assert (await live.service.run(run.run_id))[0].attempts == done.attempts


def test_what_is_left_of_the_timeout_is_the_targets() -> None:
    target = {"type": "http", "heartbeat_s": 30.0}
    job = Job(
        job_id="j",
        name="a",
        team="t",
        target=HttpTarget(url="http://a/"),
        timeout_s=90.0,
        backoff_jitter=1.0,
        created_ms=0,
        updated_ms=0,
    )
    definition = Definition(job=job, target=target)
    work = Work(claim=claim("r"), definition=definition, args=b"null", api_url="")
    accepted = Outcome(kind=OutcomeKind.ACCEPTED, status=202)
    report = report_of(work, accepted, started_ms=1000, finished_ms=3500, log_bytes=4, random=lambda: 0.5)
    assert isinstance(report, Detach)
    assert (report.left_ms, report.heartbeat_ms, report.backoff_ms) == (87_500, 30_000, 15_000)
    assert (report.now_ms, report.started_ms, report.log_bytes) == (3500, 1000, 4)
    late = report_of(work, accepted, started_ms=1000, finished_ms=99_000, log_bytes=4, random=lambda: 0.5)
    assert isinstance(late, Detach) and late.left_ms == 0


async def test_nobody_completes_what_is_not_there(live: LiveNode) -> None:
    for run_id in ("0193f2000000-01JD", "x" * 500):
        with pytest.raises(NotFound):
            await live.service.complete_run(run_id, token=1, completion=Completion(outcome="failed"))
        with pytest.raises(NotFound):
            await live.service.heartbeat_run(run_id, token=1)


async def test_the_callback_url_works_as_it_stands(live: LiveNode, taken: Sink) -> None:
    """What the header says, with ':complete' after it, is the API of a node."""
    run_id = await detached(live, taken)
    path = taken.seen[0]["Horae-Callback-Url"].removeprefix("http://127.0.0.1:8101")
    async with TestServer(build_app(live.service, node="n1")) as server, ClientSession() as session:
        body = {"fence_token": 1, "outcome": "succeeded"}
        async with session.post(server.make_url(f"{path}:complete"), json=body) as answer:
            assert (answer.status, (await answer.json())["run_id"]) == (200, run_id)


@pytest.mark.parametrize("url", ["https://horae.example", "http://10.0.0.1:8101/horae", "http://[::1]:8101"])
def test_targets_may_be_told_another_address(url: str, tmp_path: Path) -> None:
    config = NodeConfig(node="n1", http="0.0.0.0:8101", raft="127.0.0.1:7101", callback_url=url)
    config.validate()
    assert config.api_url == url


@pytest.mark.parametrize("url", ["", "horae.example", "ftp://a", "http://a/", "http://a b", "http://a?b", "http://"])
def test_an_address_that_no_path_can_follow_is_refused(url: str) -> None:
    config = NodeConfig(node="n1", http="127.0.0.1:8101", raft="127.0.0.1:7101", callback_url=url)
    with pytest.raises(ConfigError, match="callback_url"):
        config.validate()
