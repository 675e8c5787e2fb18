"""The ticker: every tick of its buckets becomes one run (or part of one skip), whatever is lost, late or refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.admission import make_plan
from node.config import COVER_MS, ClusterSettings
from node.look_ahead import LookAhead
from node.plans import PlanCache
from node.schedule import ScheduleSpec, compile_schedule
from node.ticker import (
    RETRY_MS,
    SETTLE_MS,
    Appeared,
    DueTick,
    Fired,
    Moved,
    Released,
    Ticker,
    TickerStep,
    TimerDue,
)
from statemachine.commands import FIRE_ITEMS_MAX, Fire, FireRun, FireSkip
from statemachine.limits import CLOCK_OFF_MS
from statemachine.policy_records import Calendar
from statemachine.records import Job, NoopTarget

CLUSTER = ClusterSettings()
BEGIN_MS = 1_796_004_000_000
AHEAD_MS = round(CLUSTER.look_ahead_s * 1000)


def job_of(job_id: str, expression: str, *, version: int = 1, grace_s: float = 60.0) -> Job:
    return Job(
        job_id=job_id,
        name=job_id,
        team="default",
        expressions=(expression,),
        target=NoopTarget(),
        misfire_grace_s=grace_s,
        version=version,
        created_ms=0,
        updated_ms=0,
    )


class State:
    """The due index, the timers and the jobs, as the state machine keeps them."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.calendars: dict[str, Calendar] = {}
        self.due: dict[str, DueTick] = {}
        self.timers: list[TimerDue] = []
        self.epochs: dict[int, int] = {0: 1, 1: 1}
        self.runs: dict[str, list[FireRun]] = {}
        self.skips: dict[str, list[FireSkip]] = {}
        self.reads = 0
        self.clock: int | None = None

    def clock_ms(self) -> int | None:
        return self.clock

    def add(self, job: Job, first_ms: int, bucket: int = 0) -> None:
        self.jobs[job.job_id] = job
        self.due[job.job_id] = DueTick(first_ms, bucket, job.job_id, job.version)

    def job(self, job_id: str) -> Job | None:
        return self.jobs.get(job_id)

    def calendar(self, name: str) -> Calendar | None:
        return self.calendars.get(name)

    def due_ticks(self, after: DueTick | None, until_ms: int) -> Iterator[DueTick]:
        for tick in sorted(self.due.values()):
            if tick.due_ms <= until_ms and (after is None or tick[:3] > after[:3]):
                self.reads += 1
                yield tick

    def timers_until(self, until_ms: int) -> Iterable[TimerDue]:
        return [timer for timer in sorted(self.timers) if timer.at_ms <= until_ms]

    def due_counts(self, from_ms: int, until_ms: int, *, window_ms: int, instants_max: int) -> dict[int, int]:
        counts: dict[int, int] = {}
        for tick in self.due.values():
            if from_ms <= tick.due_ms <= until_ms:
                window = tick.due_ms - tick.due_ms % window_ms
                counts[window] = counts.get(window, 0) + 1
        return counts

    def apply(self, fire: Fire) -> list[str]:
        return [self._apply_item(item) for item in fire.items]

    def _apply_item(self, item) -> str:  # type: ignore[no-untyped-def]
        tick = self.due.get(item.job_id)
        if tick is None or tick.due_ms != item.expected_ms:
            return "not_due"
        if item.version != self.jobs[item.job_id].version:
            return "stale_version"
        if item.epoch != self.epochs[tick.bucket]:
            return "stale_epoch"
        self.runs.setdefault(item.job_id, []).extend(item.runs)
        self.skips.setdefault(item.job_id, []).extend(item.skips)
        if item.next_ms is None:
            del self.due[item.job_id]
        else:
            self.due[item.job_id] = tick._replace(due_ms=item.next_ms)
        return "ok"


def ticker() -> Ticker:
    return Ticker(
        node="n1",
        plans=PlanCache(make_plan),
        look_ahead=LookAhead(CLUSTER),
        fires_max=8,
        releases_max=16,
        rescan_every_ms=1000,
    )


def items_of(step: TickerStep) -> list[tuple[str, int]]:
    return [(item.job_id, item.expected_ms) for fire in step.fires for item in fire.items]


def answered(state: State, step: TickerStep) -> list[Fired]:
    return [Fired(fire=fire, codes=state.apply(fire)) for fire in step.fires]


@pytest.fixture
def state() -> State:
    """A job of every second and one of every hour, both due at the beginning."""
    made = State()
    made.add(job_of("a", "@every 1s"), BEGIN_MS)
    made.add(job_of("b", "@every 1h"), BEGIN_MS)
    return made


OWNED = {0: 1}


def test_it_fires_what_is_due_within_the_look_ahead_and_nothing_before(state: State) -> None:
    one = ticker()
    assert items_of(one.step(BEGIN_MS - AHEAD_MS - 1, state, OWNED)) == []
    step = one.step(BEGIN_MS - AHEAD_MS, state, OWNED)
    assert items_of(step) == [("a", BEGIN_MS), ("b", BEGIN_MS)]
    runs = step.fires[0].items[0].runs
    assert [run.due_ms for run in runs] == [BEGIN_MS + 1000 * number for number in range(COVER_MS // 1000 + 1)]


def test_nothing_is_proposed_twice_while_it_is_under_way(state: State) -> None:
    one = ticker()
    step = one.step(BEGIN_MS, state, OWNED)
    for later_ms in (0, 1500, 3000, 60_000):
        assert items_of(one.step(BEGIN_MS + later_ms, state, OWNED)) == []
    assert items_of(one.step(BEGIN_MS + 60_001, state, OWNED, answered(state, step))) == [("a", BEGIN_MS + 8000)]


def test_an_accepted_tick_that_a_lagging_state_still_shows_is_left_alone_for_a_while(state: State) -> None:
    one = ticker()
    step = one.step(BEGIN_MS, state, OWNED)
    ok = Fired(fire=step.fires[0], codes=("ok", "ok"))
    assert items_of(one.step(BEGIN_MS + 10, state, OWNED, [ok])) == []
    assert items_of(one.step(BEGIN_MS + 10 + SETTLE_MS - 1, state, OWNED)) == []
    assert items_of(one.step(BEGIN_MS + 10 + SETTLE_MS + 1000, state, OWNED)) == [("a", BEGIN_MS), ("b", BEGIN_MS)]


@pytest.mark.parametrize("codes", [("stale_epoch", "not_due"), ("stale_version", "stale_version"), None])
def test_what_is_refused_or_lost_is_read_again_soon(state: State, codes: tuple[str, str] | None) -> None:
    one = ticker()
    step = one.step(BEGIN_MS, state, OWNED)
    assert items_of(one.step(BEGIN_MS + 10, state, OWNED, [Fired(fire=step.fires[0], codes=codes)])) == []
    again = one.step(BEGIN_MS + 10 + RETRY_MS, state, OWNED)
    assert items_of(again) == [("a", BEGIN_MS), ("b", BEGIN_MS)]


def test_buckets_of_others_are_passed_over_until_they_are_ours(state: State) -> None:
    state.add(job_of("c", "@every 1h"), BEGIN_MS, bucket=1)
    one = ticker()
    assert ("c", BEGIN_MS) not in items_of(one.step(BEGIN_MS, state, OWNED))
    assert items_of(one.step(BEGIN_MS + 1, state, {0: 1, 1: 1}, [Moved()])) == [("c", BEGIN_MS)]


def test_without_buckets_it_does_nothing(state: State) -> None:
    step = ticker().step(BEGIN_MS, state, {})
    assert (step.fires, step.more) == ([], False)


def test_a_job_that_appears_behind_the_reading_is_found_at_once_or_with_the_next_full_reading(state: State) -> None:
    """(dkron#605)"""
    state.add(job_of("d", "@every 1h"), BEGIN_MS + 4000)
    for events in ([Appeared(at_ms=BEGIN_MS + 100)], []):
        one = ticker()
        one.step(BEGIN_MS, state, OWNED)
        state.add(job_of("c", "@every 1h"), BEGIN_MS + 100)
        found = items_of(one.step(BEGIN_MS + 200, state, OWNED, events))
        assert found == ([("c", BEGIN_MS + 100)] if events else [])
        if not events:
            assert ("c", BEGIN_MS + 100) in items_of(one.step(BEGIN_MS + 1200, state, OWNED))
        del state.due["c"]


def test_the_cost_of_a_step_follows_what_is_due(state: State) -> None:
    """(M22)"""
    for number in range(2000):
        state.add(job_of(f"far{number}", "@every 1h"), BEGIN_MS + 3_600_000)
    one = ticker()
    one.step(BEGIN_MS, state, OWNED)
    state.reads = 0
    for later_ms in range(0, 900, 100):
        one.step(BEGIN_MS + later_ms, state, OWNED)
    assert state.reads == 0


def test_a_burst_is_packed_into_bounded_commands_a_few_at_a_time() -> None:
    """(quartz#432, dkron#1322)"""
    state = State()
    for number in range(10 * FIRE_ITEMS_MAX):
        state.add(job_of(f"j{number:05}", "@every 1h"), BEGIN_MS)
    one = ticker()
    fires: list[Fire] = []
    step = one.step(BEGIN_MS, state, OWNED)
    while step.fires:
        assert all(len(fire.items) <= FIRE_ITEMS_MAX for fire in step.fires)
        fires += step.fires
        step = one.step(BEGIN_MS, state, OWNED)
    assert len(fires) == 8 and not step.more
    assert one.step(BEGIN_MS, state, OWNED, [Fired(fire=fires[0], codes=state.apply(fires[0]))]).fires


def test_a_schedule_that_cannot_be_computed_costs_the_others_nothing(
    state: State, caplog: pytest.LogCaptureFixture
) -> None:
    state.add(job_of("a0", "this is no schedule"), BEGIN_MS)
    one = ticker()
    assert items_of(one.step(BEGIN_MS, state, OWNED)) == [("a", BEGIN_MS), ("b", BEGIN_MS)]
    assert "job a0: its schedule cannot be computed" in caplog.text


def test_a_clock_that_is_set_back_stalls_nothing(state: State) -> None:
    """(pg_cron#105)"""
    one = ticker()
    step = one.step(BEGIN_MS, state, OWNED)
    one.step(BEGIN_MS + 10, state, OWNED, [Fired(fire=step.fires[0], codes=("stale_epoch", "stale_epoch"))])
    back_ms = BEGIN_MS - 3_600_000
    state.add(job_of("c", "@every 1h"), back_ms)
    assert items_of(one.step(back_ms, state, OWNED)) == [("c", back_ms)]
    later = one.step(back_ms + 3_600_000, state, OWNED)
    assert {job_id for job_id, _ in items_of(later)} >= {"a", "b"}


@pytest.mark.parametrize("off_ms", [CLOCK_OFF_MS + 1, -CLOCK_OFF_MS - 1, 31_536_000_000])
def test_a_clock_that_is_off_proposes_nothing_and_waits(state: State, off_ms: int) -> None:
    """It would be refused, again and again."""
    state.timers = [TimerDue(BEGIN_MS, 0, "r1", 1)]
    one = ticker()
    for passed_ms in range(0, 2000, 100):
        state.clock = BEGIN_MS + passed_ms
        step = one.step(BEGIN_MS + off_ms + passed_ms, state, OWNED)
        assert (step.fires, step.releases, step.wake_ms, step.more) == ((), (), None, False)
    state.clock = BEGIN_MS + 2000
    step = one.step(BEGIN_MS + 2000, state, OWNED)
    assert items_of(step) == [("a", BEGIN_MS), ("b", BEGIN_MS)]
    assert [release.run_id for release in step.releases] == ["r1"]


def test_no_clock_alone_calls_a_tick_missed() -> None:
    """Neither this node's, nor the others', which may not have been heard for a while."""
    for own_ms, cluster_ms in ((10_000, 4_000), (4_000, 10_000)):
        state = State()
        state.add(job_of("a", "@every 1s", grace_s=0.0), BEGIN_MS)
        state.clock = BEGIN_MS + cluster_ms
        ((fire,), *_) = (ticker().step(BEGIN_MS + own_ms, state, OWNED).fires,)
        (skip,) = fire.items[0].skips
        assert skip.until_ms == BEGIN_MS + 3_000
        assert fire.items[0].runs[0].due_ms == BEGIN_MS + 4_000


def test_what_was_refused_for_the_clock_is_proposed_again_soon(state: State) -> None:
    """The others have not been heard since an outage: they will be, in a moment."""
    one = ticker()
    (refused,) = one.step(BEGIN_MS, state, OWNED).fires
    assert items_of(one.step(BEGIN_MS + 1, state, OWNED, [Fired(fire=refused, codes=("clock_off", "clock_off"))])) == []
    assert items_of(one.step(BEGIN_MS + 1 + RETRY_MS, state, OWNED)) == [("a", BEGIN_MS), ("b", BEGIN_MS)]


def test_timers_are_released_at_their_time_and_once() -> None:
    state = State()
    state.timers = [
        TimerDue(BEGIN_MS, 0, "r1", 1),
        TimerDue(BEGIN_MS, 7, "other", 1),
        TimerDue(BEGIN_MS + 150, 0, "r2", 0),
    ]
    one = ticker()
    early = one.step(BEGIN_MS - 100, state, OWNED)
    assert (early.releases, early.wake_ms) == ([], BEGIN_MS)
    step = one.step(BEGIN_MS, state, OWNED)
    assert [(release.run_id, release.token) for release in step.releases] == [("r1", 1)]
    assert step.wake_ms == BEGIN_MS + 150
    assert one.step(BEGIN_MS + 5000, state, {}).releases == []
    again = one.step(BEGIN_MS + 6000, state, OWNED, [Released(run_id="r1", token=1, answered=False)])
    assert [release.run_id for release in again.releases] == ["r2"]
    assert [release.run_id for release in one.step(BEGIN_MS + 6000 + RETRY_MS, state, OWNED).releases] == ["r1"]


def test_releases_under_way_are_bounded() -> None:
    state = State()
    state.timers = [TimerDue(BEGIN_MS, 0, f"r{number:03}", 1) for number in range(100)]
    one = ticker()
    assert len(one.step(BEGIN_MS, state, OWNED).releases) == 16
    assert len(one.step(BEGIN_MS, state, OWNED).releases) == 0
    freed = [Released(run_id="r000", token=1, answered=True)]
    assert [release.run_id for release in one.step(BEGIN_MS, state, OWNED, freed).releases] == ["r016"]


@pytest.mark.parametrize(("burst", "expected_s"), [(10, 5.0), (10_000, 5.5), (100_000, 32.5), (1_000_000, 60.0)])
def test_the_look_ahead_stretches_with_what_is_coming(burst: int, expected_s: float) -> None:
    """(M16)"""

    class Coming:
        def due_counts(self, from_ms: int, until_ms: int, *, window_ms: int, instants_max: int) -> dict[int, int]:
            return {BEGIN_MS + 30_000: burst}

    assert LookAhead(CLUSTER).reach_ms(BEGIN_MS, Coming()) == expected_s * 1000


class Outages(RuleBasedStateMachine):
    """Two tickers that both own everything, on a state that may lag; answers are lost, late or refused; time jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = BEGIN_MS
        self.state = State()
        for job_id, expression, grace_s in (("a", "@every 1s", 60), ("b", "@every 7s", 0), ("c", "*/2 * * * *", 5)):
            job = job_of(job_id, expression, grace_s=grace_s)
            first_ms = self.schedule(job).next(BEGIN_MS)
            assert first_ms is not None
            self.state.add(job, first_ms)
        self.first = {job_id: tick.due_ms for job_id, tick in self.state.due.items()}
        self.tickers = [ticker(), ticker()]
        self.under_way: list[tuple[int, Fire]] = []

    @staticmethod
    def schedule(job: Job):  # type: ignore[no-untyped-def]
        return compile_schedule(ScheduleSpec(expressions=job.expressions, tz="UTC"), job.job_id)

    @rule(which=st.integers(0, 1), ms=st.sampled_from((0, 50, 300, 1000, 2500)))
    def step(self, which: int, ms: int) -> None:
        self.now_ms += ms
        step = self.tickers[which].step(self.now_ms, self.state, OWNED)
        self.under_way += [(which, fire) for fire in step.fires]

    @rule(data=st.data(), fate=st.sampled_from(("answered", "applied and lost", "lost")))
    def resolve(self, data: st.DataObject, fate: str) -> None:
        if not self.under_way:
            return
        which, fire = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        codes = self.state.apply(fire) if fate != "lost" else None
        fired = Fired(fire=fire, codes=codes if fate == "answered" else None)
        step = self.tickers[which].step(self.now_ms, self.state, OWNED, [fired])
        self.under_way += [(which, fire) for fire in step.fires]

    @rule(s=st.integers(5, 7200))
    def outage(self, s: int) -> None:
        self.now_ms += s * 1000

    @invariant()
    def every_tick_up_to_the_next_is_accounted_for_once(self) -> None:
        for job_id, job in self.state.jobs.items():
            schedule = self.schedule(job)
            covered = [run.due_ms for run in self.state.runs.get(job_id, [])]
            for skip in self.state.skips.get(job_id, []):
                covered += schedule.between(skip.from_ms - 1, skip.until_ms, 10**9)
            ticks = schedule.between(self.first[job_id] - 1, self.state.due[job_id].due_ms - 1, 10**9)
            assert sorted(covered) == list(ticks)

    def teardown(self) -> None:
        """When everything works again, no job is left behind."""
        for _ in range(100):
            self.now_ms += 100
            for which, one in enumerate(self.tickers):
                fires = [fire for owner, fire in self.under_way if owner == which]
                fired = [Fired(fire=fire, codes=self.state.apply(fire)) for fire in fires]
                self.under_way = [(owner, fire) for owner, fire in self.under_way if owner != which]
                self.under_way += [(which, fire) for fire in one.step(self.now_ms, self.state, OWNED, fired).fires]
        assert min(tick.due_ms for tick in self.state.due.values()) > self.now_ms + AHEAD_MS - 200


TestOutages = pytest.mark.slow(Outages.TestCase)
TestOutages.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
