"""`H` and jitter: a job's own values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.schedule import InvalidSchedule, ScheduleSpec, compile_schedule, stable_jitter_ms
from node.schedule_fields import DAY, HOUR, MINUTE
from node.schedule_gate import read_expression
from node.schedule_grammar import Cron
from node.schedule_hash import draw_for
from node.schedule_pattern import Pattern, canonical, pattern_of

JOBS = [f"01JD{number:022}" for number in range(30_000)]


def pattern(text: str, job_id: str) -> Pattern:
    cron = read_expression(text)
    assert isinstance(cron, Cron)
    return pattern_of(canonical(cron, draw_for(job_id)))


def test_the_values_of_a_job_never_change() -> None:
    """Written down, because a change would move every H job of every cluster. (M16)"""
    drawn = pattern("H H H H H", "01JD0000000000000000000000")
    values = (drawn.minute_values, drawn.hour_values, drawn.day_values, drawn.month_values, drawn.weekday_values)
    assert values == EXPECTED_VALUES
    assert stable_jitter_ms("01JD0000000000000000000000", 60) == EXPECTED_JITTER_MS


EXPECTED_VALUES = ((6,), (12,), (18,), (12,), (3,))
EXPECTED_JITTER_MS = 18_940


@pytest.mark.slow
def test_every_minute_of_the_day_is_some_jobs_slot() -> None:
    minute, hour = read_expression("H H * * *")[:2]  # type: ignore[index]
    slots = set()
    for job_id in JOBS:
        draw = draw_for(job_id)
        slots.add((draw(HOUR, hour.items[0]), draw(MINUTE, minute.items[0])))
    assert len(slots) == 1440


@pytest.mark.parametrize(
    ("text", "field", "slots"),
    [
        ("H * * * *", "minute_values", {(m,) for m in range(60)}),
        ("H(10-14) * * * *", "minute_values", {(m,) for m in range(10, 15)}),
        ("h(7-7) * * * *", "minute_values", {(7,)}),
        ("H/20 * * * *", "minute_values", {(m, m + 20, m + 40) for m in range(20)}),
        ("H/45 * * * *", "minute_values", {(m, m + 45) if m < 15 else (m,) for m in range(45)}),
        ("H(0-29)/10 * * * *", "minute_values", {(m, m + 10, m + 20) for m in range(10)}),
        ("0 0 H * *", "day_values", {(d,) for d in range(1, 29)}),
        ("0 0 H(1-31) * *", "day_values", {(d,) for d in range(1, 32)}),
        ("0 0 H/10 * *", "day_values", {(1, 11, 21, 31)} | {(d, d + 10, d + 20) for d in range(2, 11)}),
        ("0 0 1 H *", "month_values", {(m,) for m in range(1, 13)}),
        ("0 0 * * H", "weekday_values", {(d,) for d in range(7)}),
        ("0 0 * * H(mon-fri)", "weekday_values", {(d,) for d in range(1, 6)}),
        ("0 0 * * H(fri-sun)", "weekday_values", {(0,), (5,), (6,)}),
        ("H(1-2),30 * * * *", "minute_values", {(1, 30), (2, 30)}),
    ],
)
def test_all_slots_are_reached_and_no_others(text: str, field: str, slots: set[tuple[int, ...]]) -> None:
    assert {getattr(pattern(text, job_id), field) for job_id in JOBS[:900]} == slots


@pytest.mark.slow
def test_fields_are_drawn_independently() -> None:
    """Jobs that share a minute are spread over all the hours."""
    drawn = [(p.minute_values[0], p.hour_values[0]) for p in (pattern("H H * * *", job_id) for job_id in JOBS[:6000])]
    assert len({hour for minute, hour in drawn if minute == drawn[0][0]}) == 24


def test_a_monthly_job_of_its_own_day_comes_in_february() -> None:
    assert DAY.hashed_last == 28
    for job_id in JOBS[:60]:
        spec = ScheduleSpec(expressions=("0 0 H * *",), tz="UTC")
        assert compile_schedule(spec, job_id).count_between(0, 365 * 86_400_000) >= 11


def test_the_job_matters_only_where_h_is_used() -> None:
    plain = ScheduleSpec(expressions=("0 3 * * thu",), tz="UTC")
    hashed = ScheduleSpec(expressions=("H 3 * * thu",), tz="UTC")
    assert compile_schedule(plain, "a").next(0) == compile_schedule(plain, "b").next(0)
    assert len({compile_schedule(hashed, job_id).next(0) for job_id in JOBS[:200]}) > 40
    assert compile_schedule(hashed, "a").next(0) == compile_schedule(hashed, "a").next(0)


@pytest.mark.slow
@given(st.text(), st.floats(0, 86_400))
def test_jitter_is_stable_and_within_its_bounds(job_id: str, jitter_s: float) -> None:
    """(M16)"""
    jitter_ms = stable_jitter_ms(job_id, jitter_s)
    assert 0 <= jitter_ms <= jitter_s * 1000
    assert jitter_ms == stable_jitter_ms(job_id, jitter_s)


def test_jitter_reaches_its_whole_stretch() -> None:
    assert {stable_jitter_ms(job_id, 0.009) for job_id in JOBS[:300]} == set(range(10))
    assert stable_jitter_ms("a", 0) == 0


@pytest.mark.parametrize("jitter_s", [-1, float("nan"), float("inf"), 86_401])
def test_a_jitter_out_of_bounds_is_refused(jitter_s: float) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        stable_jitter_ms("a", jitter_s)
    assert refused.value.field == "jitter_s"
    assert 0 <= float(refused.value.remedy) <= 86_400
