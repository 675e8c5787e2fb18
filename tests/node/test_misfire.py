"""I2, the part that a node decides: every tick has exactly one run or is inside exactly one recorded skip."""

from __future__ import annotations

import datetime
import time
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.admission import make_plan
from node.closed_days import ClosedDays, closed_days
from node.misfire import CATCH_UP_SLICE_MAX, Account, account_ticks
from node.schedule import Schedule, ScheduleSpec, compile_schedule
from statemachine.commands import FIRE_RUNS_MAX, FireRun, FireSkip
from statemachine.policy_records import Calendar
from statemachine.records import Job, MisfirePolicy, NoopTarget, SkipReason

BEGIN_MS = 1_796_004_000_000
"""A full hour, so that the ticks of every period used here begin at it."""
HOUR_MS = 3_600_000


def job_of(
    *expressions: str,
    misfire: MisfirePolicy = "skip",
    grace_s: float = 60.0,
    jitter_s: float = 0.0,
    tz: str = "UTC",
    run_at_ms: int | None = None,
    window_s: float | None = None,
) -> Job:
    return Job(
        job_id="01JDAAAAAAAAAAAAAAAAAAAAAA",
        name="a",
        team="default",
        expressions=expressions,
        run_at_ms=run_at_ms,
        tz=tz,
        target=NoopTarget(),
        misfire_policy=misfire,
        misfire_grace_s=grace_s,
        misfire_window_s=window_s,
        jitter_s=jitter_s,
        created_ms=0,
        updated_ms=0,
    )


def account(
    job: Job,
    *,
    expected_ms: int,
    now_ms: int,
    until_ms: int,
    runs_max: int = FIRE_RUNS_MAX,
    closed: ClosedDays | None = None,
) -> Account:
    plan = make_plan(job)
    return account_ticks(
        plan.ticks,
        job,
        expected_ms=expected_ms,
        now_ms=now_ms,
        until_ms=until_ms,
        jitter_ms=plan.jitter_ms,
        runs_max=runs_max,
        closed=closed,
    )


def seconds(*instants: int) -> tuple[FireRun, ...]:
    return tuple(FireRun(due_ms=BEGIN_MS + at * 1000, release_ms=BEGIN_MS + at * 1000) for at in instants)


def test_ticks_within_the_look_ahead_become_runs_and_the_next_one_waits() -> None:
    given_ = account(job_of("@every 2s"), expected_ms=BEGIN_MS, now_ms=BEGIN_MS, until_ms=BEGIN_MS + 5000)
    assert given_ == Account(runs=seconds(0, 2, 4), skips=(), next_ms=BEGIN_MS + 6000)


def test_skip_records_one_range_and_runs_what_is_within_the_grace() -> None:
    """(M19)"""
    job = job_of("@every 10s", grace_s=20)
    given_ = account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 100_000, until_ms=BEGIN_MS + 105_000)
    assert given_.skips == (FireSkip(from_ms=BEGIN_MS, until_ms=BEGIN_MS + 70_000, count=8, reason=SkipReason.MISFIRE),)
    assert given_.runs == seconds(80, 90, 100)


def test_a_tick_exactly_as_old_as_the_grace_still_runs() -> None:
    job = job_of("@every 1h", grace_s=60)
    assert account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 60_000, until_ms=BEGIN_MS + 65_000).skips == ()
    assert account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 60_001, until_ms=BEGIN_MS + 65_000).runs == ()


def test_run_once_runs_the_latest_missed_tick_and_records_the_others() -> None:
    """(M19, river#791)"""
    job = job_of("@every 10s", misfire="run_once", grace_s=20)
    given_ = account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 100_000, until_ms=BEGIN_MS + 105_000)
    (skip,) = given_.skips
    assert (skip.from_ms, skip.until_ms, skip.count) == (BEGIN_MS, BEGIN_MS + 60_000, 7)
    assert skip.reason.startswith(SkipReason.MISFIRE)
    assert given_.runs == seconds(70, 80, 90, 100)


def test_run_once_of_a_single_missed_tick_skips_nothing() -> None:
    job = job_of("@every 1h", misfire="run_once")
    given_ = account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 10 * 60_000, until_ms=BEGIN_MS + 10 * 60_000)
    assert (given_.skips, given_.runs) == ((), seconds(0))


def test_a_one_off_that_nobody_fired_runs_late_by_default_and_is_skipped_on_request() -> None:
    """dkron#256, dkron#460: one-shots that were due while everything was down, lost for ever."""
    late_ms = BEGIN_MS + HOUR_MS
    once = job_of(misfire="run_once", run_at_ms=BEGIN_MS)
    assert account(once, expected_ms=BEGIN_MS, now_ms=late_ms, until_ms=late_ms) == Account(
        runs=seconds(0), skips=(), next_ms=None
    )
    never = msgspec.structs.replace(once, misfire_policy="skip")
    given_ = account(never, expected_ms=BEGIN_MS, now_ms=late_ms, until_ms=late_ms)
    assert (given_.runs, given_.next_ms, given_.skips[0].count) == ((), None, 1)


def test_the_year_of_a_job_of_every_second_is_one_record() -> None:
    """(kubernetes#42649)"""
    now_ms = BEGIN_MS + 365 * 24 * HOUR_MS
    given_ = account(job_of("@every 1s", grace_s=0), expected_ms=BEGIN_MS, now_ms=now_ms, until_ms=now_ms)
    (skip,) = given_.skips
    assert skip.count == 365 * 24 * 3600
    assert given_.runs == (FireRun(due_ms=now_ms, release_ms=now_ms),)


def test_missed_ticks_are_caught_up_in_order_slice_by_slice() -> None:
    """(M19) Each with its own due time; what is not late yet is made behind them."""
    job = job_of("@every 1m", misfire="catch_up")
    now_ms = BEGIN_MS + HOUR_MS
    first = account(job, expected_ms=BEGIN_MS, now_ms=now_ms, until_ms=now_ms)
    assert [run.due_ms for run in first.runs] == [BEGIN_MS + 60_000 * number for number in range(CATCH_UP_SLICE_MAX)]
    assert all(run.catch_up for run in first.runs) and first.skips == ()
    assert first.next_ms is not None
    second = account(job, expected_ms=first.next_ms, now_ms=now_ms, until_ms=now_ms)
    assert [run.catch_up for run in second.runs] == [True] * (59 - CATCH_UP_SLICE_MAX) + [False, False]
    assert second.next_ms == now_ms + 60_000


def test_what_is_too_old_to_catch_up_is_one_record() -> None:
    job = job_of("@every 1m", misfire="catch_up", window_s=600)
    now_ms = BEGIN_MS + HOUR_MS
    given_ = account(job, expected_ms=BEGIN_MS, now_ms=now_ms, until_ms=now_ms)
    (skip,) = given_.skips
    assert (skip.count, skip.reason) == (50, "misfire: older than misfire_window_s")
    assert [run.catch_up for run in given_.runs] == [True] * 9 + [False, False]
    later_ms = BEGIN_MS + 100 * HOUR_MS
    old = account(job, expected_ms=BEGIN_MS, now_ms=later_ms, until_ms=later_ms)
    assert old.runs[0].due_ms == later_ms - 600_000


def test_excluded_days_are_not_caught_up() -> None:
    job, now_ms = job_of("@every 6h", misfire="catch_up"), BEGIN_MS + 3 * DAY_MS
    given_ = account(job, expected_ms=BEGIN_MS + 4 * HOUR_MS, now_ms=now_ms, until_ms=now_ms, closed=closed_on((1, 1)))
    assert [skip.reason for skip in given_.skips] == [SkipReason.CALENDAR]
    assert all(run.catch_up for run in given_.runs[:-1])


def test_what_is_older_than_the_misfire_window_never_runs() -> None:
    """(M19) A job that is down for a day has nothing to say about yesterday; one that is down for an hour has."""
    job = job_of("@every 1h", misfire="run_once", window_s=7200)
    short = account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 7200_000, until_ms=BEGIN_MS + 7200_000)
    assert [run.due_ms - BEGIN_MS for run in short.runs] == [HOUR_MS, 2 * HOUR_MS]
    once = job_of(misfire="run_once", run_at_ms=BEGIN_MS, window_s=7200)
    late = account(once, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 7200_000, until_ms=BEGIN_MS + 7200_000)
    assert (late.runs, late.skips) == (seconds(0), ())
    later = account(once, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + 7200_001, until_ms=BEGIN_MS + 7200_001)
    assert (later.runs, later.skips[0].reason) == ((), SkipReason.MISFIRE)


def test_a_decision_about_a_year_of_seconds_takes_no_time() -> None:
    """kubernetes#42649: more than 100 missed starts, and never again. Here they are one decision."""
    year_ms = 365 * 24 * HOUR_MS
    for text in ("@every 1s", "* * * * *"):
        job = job_of(text, misfire="run_once")
        began_s = time.perf_counter()
        given_ = account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + year_ms, until_ms=BEGIN_MS + year_ms)
        assert time.perf_counter() - began_s < 2
        assert len(given_.skips) == 1 and given_.runs


DAY_MS = 24 * HOUR_MS
FIRST_DAY = datetime.date(2026, 11, 30).toordinal()
"""The day that BEGIN_MS is on, at two in the morning (UTC)."""


def closed_on(*spans: tuple[int, int], tz: str = "UTC") -> ClosedDays:
    """Closed from so many days after the first to so many."""
    days = tuple((FIRST_DAY + first, FIRST_DAY + last) for first, last in spans)
    return closed_days((Calendar(name="x", spans=days),), tz)


def test_a_tick_on_an_excluded_day_is_a_recorded_skip() -> None:
    job = job_of("@every 6h")
    given_ = account(
        job,
        expected_ms=BEGIN_MS + 4 * HOUR_MS,
        now_ms=BEGIN_MS,
        until_ms=BEGIN_MS + 3 * DAY_MS,
        closed=closed_on((1, 1)),
    )
    (skip,) = given_.skips
    tomorrow_ms = BEGIN_MS + 22 * HOUR_MS
    assert (skip.from_ms, skip.until_ms, skip.count) == (tomorrow_ms, tomorrow_ms + 18 * HOUR_MS, 4)
    assert skip.reason == SkipReason.CALENDAR
    assert [run.due_ms for run in given_.runs][2:4] == [BEGIN_MS + 16 * HOUR_MS, tomorrow_ms + DAY_MS]


@pytest.mark.parametrize(
    ("spans", "ran_days_ago", "reasons"),
    [
        ((), 1, ["misfire: the latest of them runs"]),
        (((9, 9),), 2, ["misfire: the latest of them runs", "calendar"]),
        (((2, 5), (6, 9)), 9, ["misfire: the latest of them runs", "calendar"]),
        (((1, 9),), 10, ["calendar"]),
        (((0, 20),), None, ["calendar"]),
    ],
)
def test_of_missed_ticks_the_latest_on_an_open_day_runs(
    spans: tuple[tuple[int, int], ...], ran_days_ago: int | None, reasons: list[str]
) -> None:
    job = job_of("@every 24h", misfire="run_once")
    first_ms = BEGIN_MS - 2 * HOUR_MS
    now_ms = first_ms + 10 * DAY_MS + HOUR_MS
    given_ = account(job, expected_ms=first_ms, now_ms=now_ms - DAY_MS, until_ms=first_ms, closed=closed_on(*spans))
    ran = None if ran_days_ago is None else first_ms + (10 - ran_days_ago) * DAY_MS
    assert [run.due_ms for run in given_.runs] == ([] if ran is None else [ran])
    assert [skip.reason for skip in given_.skips] == reasons
    assert sum(skip.count for skip in given_.skips) + len(given_.runs) == 10


def test_missed_ticks_of_which_some_were_excluded_are_one_record() -> None:
    given_ = account(
        job_of("@every 1h"),
        expected_ms=BEGIN_MS,
        now_ms=BEGIN_MS + 3 * DAY_MS,
        until_ms=BEGIN_MS,
        closed=closed_on((1, 1)),
    )
    assert [skip.reason for skip in given_.skips] == [SkipReason.MISFIRE]


def test_jitter_moves_the_release_and_with_it_what_late_means() -> None:
    job = job_of("@every 1h", grace_s=0, jitter_s=600)
    jitter_ms = make_plan(job).jitter_ms
    assert jitter_ms > 0
    given_ = account(job, expected_ms=BEGIN_MS, now_ms=BEGIN_MS + jitter_ms, until_ms=BEGIN_MS + jitter_ms)
    assert given_.runs == (FireRun(due_ms=BEGIN_MS, release_ms=BEGIN_MS + jitter_ms),)


def test_an_item_holds_a_bounded_number_of_runs_and_goes_on_behind_them() -> None:
    given_ = account(job_of("@every 1s"), expected_ms=BEGIN_MS, now_ms=BEGIN_MS, until_ms=BEGIN_MS + 60_000, runs_max=7)
    assert given_ == Account(runs=seconds(*range(7)), skips=(), next_ms=BEGIN_MS + 7000)


expressions = st.sampled_from(
    (
        ("@every 1s",),
        ("@every 7s",),
        ("@every 90s",),
        ("* * * * *",),
        ("*/5 * * * *",),
        ("17 3 * * *",),
        ("30 2 * * *",),
        ("0 0 29 2 *",),
        ("0 9 * * mon-fri", "30 18 * * *"),
        ("*/13 * * * *", "@every 8m"),
    )
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    texts=expressions,
    tz=st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")),
    misfire=st.sampled_from(("skip", "run_once", "catch_up")),
    grace_s=st.sampled_from((0.0, 1.0, 60.0, 3600.0)),
    begin_s=st.integers(0, 400 * 24 * 3600),
    jumps_s=st.lists(st.one_of(st.integers(0, 10), st.integers(0, 7200), st.integers(0, 40 * 24 * 3600)), max_size=8),
    ahead_s=st.sampled_from((0, 5, 60)),
    runs_max=st.sampled_from((1, 5, FIRE_RUNS_MAX)),
)
def test_every_tick_has_one_run_or_is_in_one_skip(
    texts: tuple[str, ...],
    tz: str,
    misfire: MisfirePolicy,
    grace_s: float,
    begin_s: int,
    jumps_s: list[int],
    ahead_s: int,
    runs_max: int,
) -> None:
    """Outages of any length, with the clock somewhere each time: what was accounted for joins up without gap or
    overlap. (M6, dkron#605)"""
    job = job_of(*texts, misfire=misfire, grace_s=grace_s, tz=tz)
    schedule = compile_schedule(ScheduleSpec(expressions=texts, tz=tz), job.job_id)
    now_ms = BEGIN_MS + begin_s * 1000
    expected_ms = schedule.next(now_ms)
    assert expected_ms is not None
    first_ms = expected_ms
    runs: list[FireRun] = []
    skips: list[FireSkip] = []
    for jump_s in jumps_s:
        now_ms += jump_s * 1000
        if expected_ms > now_ms + ahead_s * 1000:
            continue
        given_ = account(
            job, expected_ms=expected_ms, now_ms=now_ms, until_ms=now_ms + ahead_s * 1000, runs_max=runs_max
        )
        assert len(given_.runs) <= runs_max
        assert given_.next_ms is not None
        check_one(given_, schedule, expected_ms, now_ms, grace_s, misfire)
        runs += given_.runs
        skips += given_.skips
        expected_ms = given_.next_ms
    covered = [run.due_ms for run in runs]
    for skip in skips:
        inside = schedule.between(skip.from_ms - 1, skip.until_ms, 10**9)
        assert (inside[0], inside[-1], len(inside)) == (skip.from_ms, skip.until_ms, skip.count)
        covered += inside
    assert sorted(covered) == list(schedule.between(first_ms - 1, expected_ms - 1, 10**9))


def check_one(given_: Account, schedule: Schedule, expected_ms: int, now_ms: int, grace_s: float, misfire: str) -> None:
    """What the state machine asks of an item, and that only ticks beyond the grace are skipped."""
    parts = [(skip.from_ms, skip.until_ms) for skip in given_.skips] + [(run.due_ms, run.due_ms) for run in given_.runs]
    assert parts[0][0] == expected_ms
    assert all(before[1] < after[0] for before, after in pairwise(parts))
    assert given_.next_ms == schedule.next(parts[-1][1])
    late = [run for run in given_.runs if run.due_ms < now_ms - grace_s * 1000]
    assert misfire == "catch_up" or len(late) <= (misfire == "run_once")
    assert [run for run in given_.runs if run.catch_up] == (late if misfire == "catch_up" else [])
    assert all(skip.until_ms < now_ms - grace_s * 1000 for skip in given_.skips)
