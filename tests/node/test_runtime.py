"""A whole node without a network: jobs in, runs out, and what becomes of them when things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from node import duties
from node.admission import admit
from node.interface import AttemptOutcome, Conflict, HttpTarget, JobDraft, NoopTarget, NotFound, RunState
from node.work import rfc3339
from raftlog.errors import LogClosed, OutcomeUnknown
from statemachine.codec import decode_command, encode_command
from statemachine.commands import AssignBuckets, BucketMove, ExpireSession, Finish, Fire, PutJob, RenewSession
from statemachine.records import FINAL_STATES
from tests.node.conftest import LiveNode

pytestmark = pytest.mark.slow


class Sink:
    """A target over real HTTP: answers what it is told, when it is told."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.seen: list[dict[str, str]] = []
        self.arrived = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(dict(request.headers))
        self.arrived.set()
        await request.read()
        await self.may_answer.wait()
        return web.Response(status=self.status, headers=self.headers, text="done")

    def draft(self, name: str = "a", **fields: object) -> JobDraft:
        body = {"name": name, "schedule": "@every 1h", "target": HttpTarget(url=self.url)} | fields
        return JobDraft(**body)  # type: ignore[arg-type]


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    made = Sink()
    app = web.Application()
    app.router.add_post("/hook", made.handle)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/hook"))
        yield made
        made.may_answer.set()


async def test_a_job_of_every_second_runs_at_its_ticks(live: LiveNode) -> None:
    created = await live.service.create_job(JobDraft(name="a", schedule="@every 1s", target=NoopTarget()))
    runs = await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 3)
    assert created.next_run_ms is not None
    dues = [run.due_ms for run in reversed(runs)]
    assert dues == [created.next_run_ms + 1000 * number for number in range(len(dues))]
    for run in runs:
        assert run.attempts[0].started_ms is not None
        assert 0 <= run.attempts[0].started_ms - run.release_ms < 1000
    assert live.service.ready() is None


async def test_the_target_is_told_what_it_needs_to_drop_repeats(live: LiveNode, sink: Sink) -> None:
    created = await live.service.create_job(sink.draft(args={"a": 1}))
    run = await live.wait_for_run(await live.service.run_now(created.job_id, args={"a": 2}), RunState.SUCCEEDED)
    (headers,) = sink.seen
    assert headers["Horae-Run-Id"] == headers["Idempotency-Key"] == run.run_id
    assert headers["Horae-Job-Id"] == run.job_id
    assert (headers["Horae-Attempt"], headers["Horae-Fence-Token"]) == ("1", "1")
    assert headers["Horae-Due-At"] == rfc3339(run.due_ms)
    log = await live.service.run_log(run.run_id)
    assert (log.attempt, log.output, log.cut_bytes) == (1, b"done", 0)
    assert run.log_bytes == 4
    with pytest.raises(NotFound, match="attempt 2"):
        await live.service.run_log(run.run_id, attempt=2)


async def test_a_failed_attempt_is_tried_again_after_its_back_off_until_none_is_left(
    live: LiveNode, sink: Sink
) -> None:
    sink.status = 500
    created = await live.service.create_job(sink.draft(max_retries=2, backoff_base_s=0.1, backoff_multiplier=1.0))
    run = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.DEAD)
    assert [(one.attempt, one.outcome, one.status) for one in run.attempts] == [
        (number, AttemptOutcome.FAILED, 500) for number in (1, 2, 3)
    ]
    starts = [one.started_ms for one in run.attempts]
    assert all(later - earlier >= 100 for earlier, later in pairwise(starts))
    assert [headers["Horae-Fence-Token"] for headers in sink.seen] == ["1", "2", "3"]


async def test_dead_runs_are_tried_anew_by_the_jobs_definition_as_it_is_now(live: LiveNode, sink: Sink) -> None:
    """(M18) What died of a target that was down: one by one, or all of a job."""
    sink.status = 500
    created = await live.service.create_job(sink.draft(max_retries=0))
    runs = [await live.wait_for_run(await live.service.run_now(created.job_id), RunState.DEAD) for _ in range(3)]
    listed = (await live.service.dead_runs(team="default", limit=2)).items
    assert [run.run_id for run in listed] == [run.run_id for run in reversed(runs)][:2]
    assert 'horae_dead_runs_total{team="default"} 3.0' in live.service.metrics_text()[0].decode()
    sink.status = 200
    again = await live.wait_for_run(await live.service.redrive_run(runs[0].run_id), RunState.SUCCEEDED)
    assert [(one.attempt, one.outcome) for one in again.attempts] == [
        (1, AttemptOutcome.FAILED),
        (2, AttemptOutcome.SUCCEEDED),
    ]
    assert again.token == 2
    done = await live.service.redrive_dead(job_id=created.job_id)
    assert (done.redriven, done.refused, done.remaining) == (2, 0, False)
    await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 3)
    with pytest.raises(Conflict):
        await live.service.redrive_run(runs[0].run_id)
    with pytest.raises(NotFound):
        await live.service.redrive_run("nonsense")
    with pytest.raises(NotFound):
        await live.service.redrive_dead(job_id="nonsense")
    assert (await live.service.dead_runs()).items == []


async def test_a_retry_after_is_obeyed(live: LiveNode, sink: Sink) -> None:
    sink.status, sink.headers = 503, {"Retry-After": "1"}
    created = await live.service.create_job(sink.draft(backoff_base_s=0.0))
    run = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.RETRYING)
    sink.status = 200
    run = await live.wait_for_run(run, RunState.SUCCEEDED)
    first, second = run.attempts
    assert second.started_ms - first.finished_ms >= 1000


async def test_a_run_that_takes_too_long_is_killed_and_dead_whatever_attempts_are_left(
    live: LiveNode, sink: Sink
) -> None:
    """The attempt's own timeout is cut to what is left of the run's, and no retry goes beyond it."""
    sink.may_answer.clear()
    created = await live.service.create_job(sink.draft(timeout_s=60.0, run_timeout_s=0.5))
    run = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.DEAD)
    assert (run.reason, len(run.attempts), run.attempts_max) == ("run_timeout", 1, 4)
    assert len(live.node.runtime.worker.attempts) == 0


async def test_a_run_that_has_not_begun_by_its_deadline_is_skipped(live: LiveNode, sink: Sink) -> None:
    """The owner of its bucket sees the deadline pass; another run of the job holds it back meanwhile."""
    created = await live.service.create_job(sink.draft(overlap_policy="queue_all", start_deadline_s=0.5))
    sink.may_answer.clear()
    first = await live.service.run_now(created.job_id)
    await live.wait_for_run(first, RunState.CLAIMED, RunState.RUNNING)
    parked = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.SKIPPED)
    assert (parked.reason, parked.parked) == ("deadline", False)
    sink.may_answer.set()
    await live.wait_for_run(first, RunState.SUCCEEDED)


@pytest.mark.parametrize("events_lost", [False, True])
async def test_a_cancelled_run_is_killed_within_two_seconds_and_not_retried(
    live: LiveNode, sink: Sink, events_lost: bool
) -> None:
    """(M4, I8) Also when its holder is not told: it finds the request when it compares its claims with the state."""
    sink.may_answer.clear()
    created = await live.service.create_job(sink.draft())
    run = await live.service.run_now(created.job_id)
    await sink.arrived.wait()
    live.log.events_lost = events_lost
    began_s = live.clock.monotonic()
    cancelled = await live.service.cancel_run(run.run_id, reason="enough")
    assert cancelled.effective and live.clock.monotonic() - began_s < 2.0
    assert (cancelled.run.state, cancelled.run.reason) == (RunState.CANCELLED, "cancelled: enough")
    assert [one.outcome for one in cancelled.run.attempts] == [AttemptOutcome.CANCELLED]
    assert (await live.service.cancel_run(run.run_id)).run == cancelled.run
    assert len(live.node.runtime.worker.attempts) == 0


async def test_a_run_that_is_cancelled_ahead_of_its_time_is_withdrawn_by_its_holder(live: LiveNode, sink: Sink) -> None:
    created = await live.service.create_job(sink.draft(schedule="@every 1s"))
    run = (await live.wait_for_runs(created.job_id, (RunState.CLAIMED,), 3))[0]
    cancelled = await live.service.cancel_run(run.run_id)
    assert (cancelled.run.state, cancelled.run.token, cancelled.run.attempts) == (RunState.CANCELLED, 1, ())
    await live.service.delete_job(created.job_id)


async def test_an_attempt_that_lasts_is_shown_as_running_and_a_timeout_kills_it(live: LiveNode, sink: Sink) -> None:
    sink.may_answer.clear()
    created = await live.service.create_job(sink.draft(timeout_s=1.5, max_retries=0))
    run = await live.wait_for_run(await live.service.run_now(created.job_id), RunState.RUNNING)
    assert run.started_ms is not None
    run = await live.wait_for_run(run, RunState.DEAD)
    assert run.attempts[0].outcome is AttemptOutcome.TIMED_OUT


async def test_after_a_delete_was_answered_nothing_of_the_job_starts(live: LiveNode, sink: Sink) -> None:
    created = await live.service.create_job(sink.draft(schedule="@every 1s"))
    await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 1)
    await live.service.delete_job(created.job_id)
    seen = len(sink.seen)
    other = await live.service.create_job(JobDraft(name="b", schedule="@every 1s", target=NoopTarget()))
    await live.wait_for_runs(other.job_id, (RunState.SUCCEEDED,), 2)
    assert len(sink.seen) == seen
    page = await live.service.runs_of_job(created.job_id)
    assert {run.state for run in page.items} == {RunState.SUCCEEDED, RunState.SKIPPED}
    assert {run.reason for run in page.items if run.state is RunState.SKIPPED} == {"superseded"}


async def test_overlap_skip_records_the_tick_that_found_another_run(live: LiveNode, sink: Sink) -> None:
    sink.may_answer.clear()
    created = await live.service.create_job(sink.draft(schedule="@every 1s", overlap_policy="skip"))
    (skipped, *_) = await live.wait_for_runs(created.job_id, (RunState.SKIPPED,), 1)
    assert skipped.reason is not None and skipped.reason.startswith("overlap: ")
    assert len(sink.seen) == 1
    sink.may_answer.set()
    await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 2)


async def test_a_late_one_off_within_its_grace_runs_at_once(live: LiveNode) -> None:
    run_at = rfc3339(live.clock.wall_ms() - 30_000)
    created = await live.service.create_job(JobDraft(name="a", run_at=run_at, target=NoopTarget()))
    await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 1)
    view, _ = await live.service.job(created.job_id)
    assert view.next_run_ms is None


async def test_a_node_that_was_paused_reopens_and_the_results_it_still_reports_are_refused(
    live: LiveNode, sink: Sink
) -> None:
    """The cluster ended the session meanwhile, and the target's answer came during the pause."""
    await live.wait_for_session()
    sink.may_answer.clear()
    created = await live.service.create_job(sink.draft())
    run = await live.service.run_now(created.job_id)
    await sink.arrived.wait()
    with live.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None
    # What the leader does in a pause of 30 s, and what this node cannot hear meanwhile.
    expired = ExpireSession(
        now_ms=live.clock.wall_ms(), node="n1", incarnation=session.incarnation, renewal=session.renewal + 10
    )
    live.log.events_lost = True
    live.log.apply([encode_command(expired)])
    live.log.events_lost = False
    live.clock.ahead_s = 30.0
    sink.may_answer.set()
    run = await live.wait_for_run(run, RunState.SUCCEEDED)
    assert [one.outcome for one in run.attempts] == [AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED]
    assert run.token == 2
    with live.snapshot() as snapshot:
        assert snapshot.counters().fenced_writes == 1


async def test_claims_whose_events_were_lost_are_found_in_the_state(live: LiveNode) -> None:
    await live.wait_for_session()
    live.log.events_lost = True
    created = await live.service.create_job(JobDraft(name="a", schedule="@every 1h", target=NoopTarget()))
    run = await live.service.run_now(created.job_id)
    assert (await live.wait_for_run(run, RunState.SUCCEEDED)).attempt == 1


async def test_a_leader_hears_that_buckets_moved(monkeypatch: pytest.MonkeyPatch, live: LiveNode) -> None:
    """It does not have to look for it."""
    monkeypatch.setattr(duties, "BALANCED_AGAIN_AFTER_S", 1e9)

    def given() -> bool | None:
        with live.snapshot() as snapshot:
            return {owner.node for owner in snapshot.buckets()} == {"n1"} or None

    def renewed() -> bool | None:
        with live.snapshot() as snapshot:
            session = snapshot.session("n1")
        return (session is not None and session.renewal > 0) or None

    await live.wait_until(given)
    await live.wait_until(renewed)  # by then the leader has seen several times that all is well
    take = AssignBuckets(now_ms=live.clock.wall_ms(), moves=(BucketMove(bucket=0, expected_epoch=1, node=None),))
    live.log.apply([encode_command(take)])
    assert given() is None
    await live.wait_until(given)


async def test_lost_answers_make_no_second_run(live: LiveNode) -> None:
    await live.wait_for_session()
    created = await live.service.create_job(JobDraft(name="a", schedule="@every 1s", target=NoopTarget()))
    live.log.lose_answers = OutcomeUnknown("lost")
    await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 2)
    live.log.lose_answers = None
    runs = await live.wait_for_runs(created.job_id, (RunState.SUCCEEDED,), 4)
    assert all(len(run.attempts) == 1 for run in runs)
    assert len({run.due_ms for run in runs}) == len(runs)


async def test_a_burst_of_noops_starts_together(live: LiveNode) -> None:
    """(dkron#1177)"""
    await live.wait_for_session()
    at_ms = live.clock.wall_ms() + 1500
    drafts = [JobDraft(name=f"j{number}", run_at=rfc3339(at_ms), target=NoopTarget()) for number in range(100)]
    now_ms = live.clock.wall_ms()
    jobs = [admit(draft, job_id=f"J{number}", now_ms=now_ms) for number, draft in enumerate(drafts)]
    live.log.apply([encode_command(PutJob(now_ms=now_ms, job=job)) for job in jobs])

    def all_done() -> bool | None:
        with live.snapshot() as snapshot:
            return True if snapshot.counters().runs_succeeded == 100 else None

    await live.wait_until(all_done)
    fires = [command for command in map(decode_command, live.log.commands) if isinstance(command, Fire)]
    assert sum(len(fire.items) for fire in fires) == 100
    finishes = [command for command in map(decode_command, live.log.commands) if isinstance(command, Finish)]
    assert max(finish.started_ms for finish in finishes) < at_ms + 1000
    assert min(finish.started_ms for finish in finishes) >= at_ms


async def test_leaving_gives_everything_back_and_ends_the_session(live: LiveNode, sink: Sink) -> None:
    await live.wait_for_session()
    sink.may_answer.clear()
    ahead = await live.service.create_job(JobDraft(name="b", schedule="@every 3s", target=NoopTarget()))
    created = await live.service.create_job(sink.draft())
    held = await live.service.run_now(created.job_id)
    await sink.arrived.wait()
    await live.wait_for_runs(ahead.job_id, (RunState.CLAIMED,), 1)
    live.node.runtime.stop()
    assert live.service.ready() == "this node is leaving"
    asyncio.get_running_loop().call_later(0.3, sink.may_answer.set)
    run = await live.wait_for_run(held, *FINAL_STATES)
    assert run.state is RunState.SUCCEEDED, "what was running may end"

    def ended() -> bool | None:
        with live.snapshot() as snapshot:
            session = snapshot.session("n1")
        return True if session is not None and not session.live else None

    await live.wait_until(ended)
    with live.snapshot() as snapshot:
        states = {run.state for run in snapshot.runs_of_job(ahead.job_id, limit=100).items}
    assert RunState.CLAIMED not in states and RunState.QUEUED in states
    renewals = [command for command in map(decode_command, live.log.commands) if isinstance(command, RenewSession)]
    assert renewals[-1].draining


async def test_a_leaving_node_hands_the_leadership_over_last(idle: LiveNode) -> None:
    """Until its session is over, the leader's duties are its own."""
    work = asyncio.create_task(idle.node.runtime.run())
    await idle.wait_for_session()
    assert idle.log.transfers == []
    idle.node.runtime.stop()
    await work
    assert idle.log.transfers == [idle.log.index]
    with idle.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None and not session.live


async def test_a_leadership_that_cannot_be_handed_over_keeps_nobody_from_leaving(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(*, timeout_s: float) -> bool:
        raise LogClosed

    monkeypatch.setattr(idle.log, "transfer_leadership", closed)
    work = asyncio.create_task(idle.node.runtime.run())
    await idle.wait_for_session()
    idle.node.runtime.stop()
    await work
