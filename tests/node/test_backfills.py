"""Backfills: which runs are made next, and what comes of it on a node at work."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import pytest

from node.admission import make_plan
from node.backfill_steps import BACKLOG_MS, LOOK_EVERY_MS, POISON_MS, BackfillSteps, Stepped
from node.interface import CalendarDraft, Conflict, Invalid, RunKind, RunState
from node.plans import PlanCache
from statemachine.keys import bucket_of
from statemachine.limits import BACKFILL_OUTSTANDING_MAX
from statemachine.policy_records import Backfill, Calendar
from statemachine.records import Job, NoopTarget
from tests.node.conftest import LiveNode
from tests.node.test_service import draft

NOW_MS = 1_796_004_000_000
HOUR_MS = 3_600_000


class State:
    """What a stepper reads."""

    def __init__(self, **fields: object) -> None:
        usual = {"name": "a", "team": "t", "target": NoopTarget(), "created_ms": 0, "updated_ms": 0}
        self.known: Job | None = Job(job_id="A", **(usual | {"expressions": ("@every 1h",)} | fields))  # type: ignore[arg-type]
        range_ = {"from_ms": 0, "to_ms": 100 * HOUR_MS, "next_ms": 0}
        self.backfills = [Backfill(backfill_id="b", job_id="A", team="t", created_ms=0, **range_)]
        self.outstanding = 0

    def job(self, job_id: str) -> Job | None:
        return self.known

    def calendar(self, name: str) -> Calendar | None:
        return Calendar(name=name, tz="UTC", spans=((datetime.date(1970, 1, 1).toordinal(),) * 2,))

    def active_backfills(self) -> Iterable[Backfill]:
        return self.backfills

    def backfill_outstanding(self, backfill_id: str) -> int:
        return self.outstanding


OWNED = {bucket_of("A"): 7}


def steps() -> BackfillSteps:
    return BackfillSteps(node="n1", plans=PlanCache(make_plan))


def test_the_next_ticks_are_made_as_far_as_there_is_room() -> None:
    state = State()
    (step,) = steps().step(NOW_MS, state, OWNED)
    assert (step.node, step.epoch, step.backfill_id, step.job_version, step.expected_ms) == ("n1", 7, "b", 1, 0)
    assert step.due_ms == tuple(number * HOUR_MS for number in range(BACKFILL_OUTSTANDING_MAX))
    assert step.next_ms == BACKFILL_OUTSTANDING_MAX * HOUR_MS
    state.outstanding = BACKFILL_OUTSTANDING_MAX - 2
    assert len(steps().step(NOW_MS, state, OWNED)[0].due_ms) == 2
    state.outstanding = BACKFILL_OUTSTANDING_MAX
    assert steps().step(NOW_MS, state, OWNED) == []
    assert steps().step(NOW_MS, state, {}) == []


def test_ticks_of_excluded_days_are_not_made() -> None:
    state = State(exclude_calendars=("x",))
    assert steps().step(NOW_MS, state, OWNED)[0].due_ms[0] == 24 * HOUR_MS


def test_a_backfill_that_made_all_waits_for_the_last_to_be_over() -> None:
    state = State()
    state.backfills = [Backfill(backfill_id="b", job_id="A", team="t", from_ms=0, to_ms=9, next_ms=None, created_ms=0)]
    state.outstanding = 1
    assert steps().step(NOW_MS, state, OWNED) == []
    state.outstanding = 0
    (step,) = steps().step(NOW_MS, state, OWNED)
    assert (step.expected_ms, step.due_ms, step.next_ms) == (None, (), None)


def test_a_backfill_of_a_job_that_is_gone_is_ended() -> None:
    state = State()
    state.known = None
    (step,) = steps().step(NOW_MS, state, OWNED)
    assert (step.expected_ms, step.due_ms, step.next_ms) == (0, (), None)


def test_one_step_at_a_time_and_a_refused_one_not_at_once() -> None:
    state, stepper = State(), steps()
    now_ms = NOW_MS
    assert len(stepper.step(now_ms, state, OWNED)) == 1
    now_ms += LOOK_EVERY_MS
    assert stepper.step(now_ms, state, OWNED) == []
    now_ms += LOOK_EVERY_MS
    assert len(stepper.step(now_ms, state, OWNED, [Stepped(backfill_id="b", code="ok")])) == 1
    now_ms += LOOK_EVERY_MS
    for code in ("backlog", None):
        assert stepper.step(now_ms, state, OWNED, [Stepped(backfill_id="b", code=code)]) == []
        now_ms += BACKLOG_MS + LOOK_EVERY_MS
        assert len(stepper.step(now_ms, state, OWNED)) == 1
        now_ms += LOOK_EVERY_MS
    assert stepper.step(now_ms, state, OWNED, [Stepped(backfill_id="b", code="backlog")]) == []
    assert len(stepper.step(now_ms - 10**9, state, OWNED)) == 1, "the clock was set back"


def test_ticks_that_cannot_be_computed_are_left_alone_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    state, stepper = State(expressions=("nonsense",)), steps()
    assert stepper.step(NOW_MS, state, OWNED) == []
    assert "cannot be computed" in caplog.text
    state.known = State().known
    assert stepper.step(NOW_MS + LOOK_EVERY_MS, state, OWNED) == []
    assert len(stepper.step(NOW_MS + POISON_MS + LOOK_EVERY_MS, state, OWNED)) == 1


async def test_each_tick_of_a_range_gets_one_run(live: LiveNode) -> None:
    """From inclusive, to exclusive; slice by slice; counted in history as backfill."""
    to_ms = live.clock.wall_ms() // 60_000 * 60_000
    from_ms = to_ms - 150 * 60_000
    job_id = (await live.service.create_job(draft(schedule="@every 1m", args={"a": 1}))).job_id
    plan = await live.service.plan_backfill(job_id, from_ms=from_ms, to_ms=to_ms)
    assert (plan.count, plan.first_ms, plan.last_ms) == (150, from_ms, to_ms - 60_000)
    started = await live.service.start_backfill(job_id, from_ms=from_ms, to_ms=to_ms, args={"b": 2})
    assert started.backfill.state == "running"

    def completed() -> Backfill | None:
        with live.snapshot() as snapshot:
            found = snapshot.backfill(started.backfill.backfill_id)
        return found if found is not None and found.state == "completed" else None

    done = await live.wait_until(completed)
    assert done.made == 150
    runs = [run for run in (await live.service.runs_of_job(job_id, limit=500)).items if run.kind is RunKind.BACKFILL]
    assert sorted(run.due_ms for run in runs) == list(range(from_ms, to_ms, 60_000))
    assert {(run.state, run.args) for run in runs} == {(RunState.SUCCEEDED, b'{"b":2}')}
    with pytest.raises(Conflict):
        await live.service.cancel_backfill(started.backfill.backfill_id)


async def test_a_dry_run_counts_the_days_that_are_excluded_out(idle: LiveNode) -> None:
    """However long the range, and however many calendars overlap."""
    day = datetime.date(2026, 1, 10)
    for name, days in (("x", ["2026-01-02", "2026-01-05/2026-01-06"]), ("y", ["2026-01-06/2026-01-08", "2025-12-31"])):
        await idle.service.put_calendar(name, CalendarDraft(days=days, tz="UTC"))
    job_id = (await idle.service.create_job(draft(schedule="@every 1s", exclude_calendars=["x", "y"]))).job_id
    from_ms = round(datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC).timestamp() * 1000)
    to_ms = round(datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp() * 1000)
    plan = await idle.service.plan_backfill(job_id, from_ms=from_ms, to_ms=to_ms)
    assert plan.count == 43_200 + (8 - 5) * 86_400
    assert (plan.first_ms, plan.last_ms) == (from_ms, to_ms - 1000)
    nothing = await idle.service.plan_backfill(job_id, from_ms=from_ms + 86_400_000, to_ms=from_ms + 86_401_000)
    assert (nothing.count, nothing.first_ms) == (0, None)


async def test_a_backfill_is_for_what_is_past(idle: LiveNode) -> None:
    job_id = (await idle.service.create_job(draft())).job_id
    now_ms = idle.clock.wall_ms()
    for from_ms, to_ms in ((now_ms - 5, now_ms + 60_000), (now_ms - 5, now_ms - 5)):
        with pytest.raises(Invalid):
            await idle.service.start_backfill(job_id, from_ms=from_ms, to_ms=to_ms)


async def test_so_many_backfills_run_at_once_and_no_more(idle: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.backfills.BACKFILLS_ACTIVE_MAX", 1)
    job_id = (await idle.service.create_job(draft())).job_id
    first = await idle.service.start_backfill(job_id, from_ms=0, to_ms=HOUR_MS)
    with pytest.raises(Conflict, match="running already"):
        await idle.service.start_backfill(job_id, from_ms=0, to_ms=HOUR_MS)
    await idle.service.cancel_backfill(first.backfill.backfill_id)
    await idle.service.start_backfill(job_id, from_ms=0, to_ms=HOUR_MS)
