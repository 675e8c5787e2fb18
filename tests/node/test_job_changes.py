"""Update, pause, resume and delete as their callers see them: computed from what is there, answered when effective."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from node.interface import Conflict, Invalid, JobDraft, NoopTarget, NotFound, PreconditionFailed, RunState, Unavailable
from node.work import rfc3339
from statemachine.codec import encode_command
from statemachine.commands import ExpireSession, Fire, FireItem, FireRun, OpenSession, PutJob, Withdraw
from statemachine.records import BUCKETS, Job, SkipReason
from tests.node.conftest import LiveNode
from tests.node.test_service import draft, session_of

HOUR_MS = 3_600_000


def jumped(idle: LiveNode, by_s: float) -> None:
    """So much later, as far as anybody knows."""
    idle.clock.ahead_s += by_s


async def skips_of(idle: LiveNode, job_id: str) -> list[tuple[str | None, int]]:
    page = await idle.service.runs_of_job(job_id, states=(RunState.SKIPPED,))
    return [(run.reason, run.count) for run in page.items]


async def test_a_paused_job_shows_it_and_stands_at_no_tick(idle: LiveNode) -> None:
    """(M4)"""
    job_id = (await idle.service.create_job(draft())).job_id
    changed = await idle.service.pause_job(job_id, reason="flood")
    assert changed.effective
    job = changed.view.job
    assert (changed.view.next_run_ms, job.pause_reason, job.version) == (None, "flood", 2)
    assert job.paused_ms is not None and abs(job.paused_ms - idle.clock.wall_ms()) < 60_000
    again = await idle.service.pause_job(job_id, reason="other")
    assert again.view.job == job
    with pytest.raises(PreconditionFailed):
        await idle.service.pause_job(job_id, expected_version=1)
    with pytest.raises(NotFound):
        await idle.service.pause_job("nothing")


async def test_a_resume_from_now_records_the_pause_as_one_skip(idle: LiveNode) -> None:
    """A per-second job paused for a year: one decision, one record, and no time to speak of (kubernetes#42649)."""
    job_id = (await idle.service.create_job(draft(schedule="@every 1s"))).job_id
    await idle.service.pause_job(job_id)
    jumped(idle, 365 * 24 * 3600)
    async with asyncio.timeout(2):
        changed = await idle.service.resume_job(job_id)
    now_ms = idle.clock.wall_ms()
    assert changed.effective and changed.view.job.paused_ms is None
    assert changed.view.next_run_ms is not None and now_ms - 5000 < changed.view.next_run_ms <= now_ms + 1000
    ((reason, count),) = await skips_of(idle, job_id)
    assert reason == SkipReason.PAUSED and abs(count - 365 * 24 * 3600) < 10
    again = await idle.service.resume_job(job_id)
    assert again.view.job == changed.view.job


async def test_a_resume_from_when_it_was_paused_leaves_the_pause_to_the_misfire_policy(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft(schedule="@every 1h"))
    await idle.service.pause_job(created.job_id)
    jumped(idle, 10 * 3600)
    changed = await idle.service.resume_job(created.job_id, since="paused_at")
    assert changed.view.next_run_ms == created.next_run_ms
    assert await skips_of(idle, created.job_id) == []


async def test_a_resume_stands_at_a_tick_that_was_made_ahead_and_whose_time_is_not_past(idle: LiveNode) -> None:
    """The run that the pause withdrew is made anew then."""
    created = await idle.service.create_job(draft(schedule="@every 1h"))
    due_ms = created.next_run_ms
    assert due_ms is not None
    fire_ahead(idle, created.job_id, due_ms)
    await idle.service.pause_job(created.job_id)
    for since in ("now", "paused_at"):
        changed = await idle.service.resume_job(created.job_id, since=since)
        assert changed.view.next_run_ms == due_ms
        paused = await idle.service.pause_job(created.job_id)
        assert paused.view.job.first_due_ms == due_ms


def fire_ahead(idle: LiveNode, job_id: str, due_ms: int) -> None:
    """The tick becomes a run of nobody's, whatever the clock."""
    from statemachine.commands import AssignBuckets, BucketMove

    now_ms = due_ms - 1000
    idle.log.apply([encode_command(session_of("n2", now_ms))])
    moves = tuple(BucketMove(bucket=bucket, expected_epoch=0, node="n2") for bucket in range(BUCKETS))
    run = FireRun(due_ms=due_ms, release_ms=due_ms)
    item = FireItem(job_id=job_id, expected_ms=due_ms, version=1, epoch=1, runs=(run,), next_ms=due_ms + HOUR_MS)
    idle.log.apply(
        [
            encode_command(AssignBuckets(now_ms=now_ms, moves=moves)),
            encode_command(Fire(now_ms=now_ms, node="n2", items=(item,))),
        ]
    )
    idle.log.apply([encode_command(ExpireSession(now_ms=now_ms, node="n2", incarnation=1, renewal=0))])
    jumped(idle, (now_ms - idle.clock.wall_ms()) / 1000)


async def test_a_change_waits_for_every_claim_however_long_it_has_waited(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node holds a run of the job that was due two days ago, and has not said that it will not start it."""
    monkeypatch.setattr("node.effective.SLICE_MAX", 1)
    held = await held_elsewhere(idle)
    jumped(idle, 2 * 24 * 3600)
    pause = asyncio.create_task(idle.service.pause_job(held.job_id))
    done, _ = await asyncio.wait({pause}, timeout=0.1)
    assert not done
    command = Withdraw(now_ms=idle.clock.wall_ms(), run_id=held.run_id, token=held.token, reason="superseded")
    idle.log.apply([encode_command(command)])
    changed = await asyncio.wait_for(pause, 5)
    assert changed.effective


@pytest.mark.parametrize("change", ["pause", "update", "delete"])
async def test_a_change_that_is_not_effective_in_time_says_so(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("node.effective.EFFECTIVE_TIMEOUT_S", 0.05)
    job_id = (await held_elsewhere(idle)).job_id
    if change == "delete":
        assert await idle.service.delete_job(job_id) is False
    elif change == "pause":
        assert (await idle.service.pause_job(job_id)).effective is False
        assert (await idle.service.pause_job(job_id)).effective is False, "nor is its repeat"
    else:
        assert (await idle.service.update_job(job_id, draft(args=1))).effective is False


async def test_claims_of_other_jobs_and_of_the_new_version_are_not_waited_for(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.effective.EFFECTIVE_TIMEOUT_S", 0.05)
    await held_elsewhere(idle)
    job_id = (await idle.service.create_job(draft("b"))).job_id
    await idle.service.pause_job(job_id)
    await idle.service.run_now(job_id)
    assert (await idle.service.pause_job(job_id)).effective


async def held_elsewhere(idle: LiveNode) -> Any:
    """A run that a node without anybody behind it holds."""
    idle.log.apply([encode_command(OpenSession(**{**as_fields(session_of("n2", idle.clock.wall_ms())), "slots": 3}))])
    job_id = (await idle.service.create_job(draft())).job_id
    run = await idle.service.run_now(job_id)
    found = (await idle.service.run(run.run_id))[0]
    assert found.state is RunState.CLAIMED
    return found


def as_fields(command: OpenSession) -> dict[str, Any]:
    return {name: getattr(command, name) for name in command.__struct_fields__}


async def test_an_update_replaces_the_definition_and_keeps_what_is_not_of_it(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft(args=1, labels={"a": "b"}))
    before = (await idle.service.job(created.job_id))[0].job
    changed = await idle.service.update_job(created.job_id, draft(schedule="@every 2h", args=2))
    job = changed.view.job
    assert changed.effective
    assert (job.version, job.expressions, job.args, job.labels) == (2, ("@every 2h",), b"2", {})
    assert (job.created_ms, job.job_id) == (before.created_ms, before.job_id)
    assert job.updated_ms >= before.updated_ms
    same = await idle.service.update_job(created.job_id, draft(schedule="@every 2h", args=2))
    assert same.view.job == job, "the same definition is no change"


async def test_an_update_is_a_compare_and_set_if_it_names_a_version(idle: LiveNode) -> None:
    job_id = (await idle.service.create_job(draft())).job_id
    await idle.service.update_job(job_id, draft(args=1), expected_version=1)
    with pytest.raises(PreconditionFailed):
        await idle.service.update_job(job_id, draft(args=2), expected_version=1)
    with pytest.raises(PreconditionFailed):
        await idle.service.resume_job(job_id, expected_version=1)


async def test_an_update_is_checked_as_a_create_is(idle: LiveNode) -> None:
    job_id = (await idle.service.create_job(draft())).job_id
    await idle.service.create_job(draft("b"))
    for body, path in (
        (draft(schedule="0 25 * * *", tz="UTC"), "schedule"),
        (draft(priority=11), "priority"),
        (draft(team="red"), "team"),
        (draft(idempotency_key="k"), "idempotency_key"),
        (draft(schedule=None, run_at="2020-01-01T00:00:00Z"), "run_at"),
    ):
        with pytest.raises(Invalid) as caught:
            await idle.service.update_job(job_id, body)
        assert [error.path for error in caught.value.errors] == [path]
    with pytest.raises(Conflict):
        await idle.service.update_job(job_id, draft("b"))
    with pytest.raises(NotFound):
        await idle.service.update_job("nothing", draft())


async def test_a_tick_that_was_due_and_not_fired_is_kept_by_an_update_or_recorded(idle: LiveNode) -> None:
    """I2: nobody fires here. Labels change: the tick keeps its turn. The schedule changes: its ticks are one skip."""
    created = await idle.service.create_job(draft(schedule="@every 1m"))
    jumped(idle, 300)
    kept = await idle.service.update_job(created.job_id, draft(schedule="@every 1m", labels={"a": "b"}))
    assert kept.view.next_run_ms == created.next_run_ms
    moved = await idle.service.update_job(created.job_id, draft(schedule="@every 1h"))
    assert moved.view.next_run_ms is not None and moved.view.next_run_ms > idle.clock.wall_ms()
    assert await skips_of(idle, created.job_id) == [(SkipReason.SUPERSEDED, 5)]


async def test_a_one_off_that_is_over_can_still_be_changed(idle: LiveNode) -> None:
    once: JobDraft = draft(schedule=None, run_at=rfc3339(idle.clock.wall_ms() + 60_000))
    created = await idle.service.create_job(once)
    jumped(idle, 3600)
    changed = await idle.service.update_job(
        created.job_id, JobDraft(name="a", run_at=once.run_at, target=NoopTarget(), labels={"a": "b"})
    )
    assert changed.view.next_run_ms == created.next_run_ms, "it was not fired: it keeps its turn"


async def test_a_paused_job_stays_paused_when_it_is_updated(idle: LiveNode) -> None:
    job_id = (await idle.service.create_job(draft())).job_id
    await idle.service.pause_job(job_id, reason="x")
    jumped(idle, 3 * 3600)
    changed = await idle.service.update_job(job_id, draft(schedule="@every 30m"))
    assert (changed.view.job.pause_reason, changed.view.next_run_ms) == ("x", None)
    await idle.service.resume_job(job_id)
    ((reason, count),) = await skips_of(idle, job_id)
    assert (reason, count) in ((SkipReason.PAUSED, 6), (SkipReason.PAUSED, 7)), "of the new definition"


async def test_the_same_key_pauses_once(idle: LiveNode) -> None:
    job_id = (await idle.service.create_job(draft())).job_id
    await idle.service.pause_job(job_id, idempotency_key="k")
    await idle.service.resume_job(job_id, idempotency_key="l")
    again = await idle.service.pause_job(job_id, idempotency_key="k")
    assert again.view.job.paused_ms is None, "a late repeat of the first call"
    with pytest.raises(Conflict):
        await idle.service.pause_job(job_id, reason="else", idempotency_key="k")


async def test_a_job_that_moves_under_every_try_is_left_alone(idle: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = (await idle.service.create_job(draft())).job_id
    await idle.service.create_job(draft("b"))
    monkeypatch.setattr("node.job_changes.MOVED", ("name_taken",))
    with pytest.raises(Unavailable):
        await idle.service.update_job(job_id, draft("b"))


async def test_a_running_node_withdraws_what_it_made_ahead(live: LiveNode) -> None:
    """I8 (M4): the ticks of the coming seconds have runs already; after the pause none of them starts."""
    job_id = (await live.service.create_job(draft(schedule="@every 1s"))).job_id
    await live.wait_for_runs(job_id, (RunState.SUCCEEDED,), 1)
    changed = await live.service.pause_job(job_id)
    assert changed.effective
    ((paused_ms,),) = [[changed.view.job.paused_ms]]
    page = await live.service.runs_of_job(job_id, limit=500)
    states = {run.state for run in page.items}
    assert states <= {RunState.SUCCEEDED, RunState.SKIPPED}
    ahead = [run for run in page.items if run.due_ms > (paused_ms or 0) + 100]
    assert ahead and all(run.reason == SkipReason.PAUSED for run in ahead)
    await live.service.resume_job(job_id)
    again = await live.wait_for_runs(job_id, (RunState.SUCCEEDED,), len(page.items) - len(ahead) + 1)
    assert again[0].due_ms > (paused_ms or 0)


async def test_missed_ticks_are_caught_up_one_after_another(live: LiveNode) -> None:
    """(M19) In order, each with its own due time, in more slices than one; newer ticks come behind them."""
    await live.wait_for_session()
    now_ms = live.clock.wall_ms()
    first_ms = now_ms // 10_000 * 10_000 - 600_000
    job = Job(
        job_id="01JDAAAAAAAAAAAAAAAAAAAAAA",
        name="a",
        team="default",
        expressions=("@every 10s",),
        target=NoopTarget(),
        misfire_policy="catch_up",
        created_ms=now_ms,
        updated_ms=now_ms,
        first_due_ms=first_ms,
    )
    live.log.apply([encode_command(PutJob(now_ms=now_ms, job=job))])
    runs = await live.wait_for_runs(job.job_id, (RunState.SUCCEEDED,), 50)
    caught_up = sorted((run for run in runs if run.catch_up), key=lambda run: run.due_ms)
    assert [run.due_ms for run in caught_up] == [first_ms + 10_000 * number for number in range(len(caught_up))]
    started = [run.started_ms or 0 for run in caught_up]
    assert started == sorted(started) and len(caught_up) > 40
