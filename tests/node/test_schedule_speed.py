"""Order of magnitude: a tick costs microseconds, however rare it is, and a shared schedule next to nothing.

Bounds are some ten times what is needed (`pytest -s` prints the figures) and in processor time, so that they break only
when an algorithm does."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from node.schedule import ScheduleSpec, compile_schedule, parse_run_at

pytestmark = pytest.mark.slow
START_MS = parse_run_at("2026-01-01T00:00:00Z", "UTC")
LATE_MS = parse_run_at("5000-01-01T00:00:00Z", "UTC")


def microseconds(work: Callable[[], object], count: int) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    work()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_utime - before) * 1e6 / count


@pytest.mark.parametrize(
    ("expression", "most_us"),
    [
        ("* * * * *", 40),
        ("*/5 * * * *", 40),
        ("30 2 * * *", 50),
        ("0 9 * * 1-5", 50),
        ("0 0 L * *", 60),
        ("15 10 15W * *", 60),
        ("0 12 * * 1#1", 60),
        ("0 0 29 2 *", 120),
        ("0 0 29 2 */7", 250),
        ("0 0 * 2 1#5", 250),
        ("@every 90s", 20),
    ],
)
def test_a_tick_costs_microseconds(expression: str, most_us: float) -> None:
    schedule = compile_schedule(ScheduleSpec(expressions=(expression,), tz="Europe/Berlin"), "job")

    def walk() -> None:
        at_ms = START_MS
        for _ in range(3000):
            following = schedule.next(at_ms)
            assert following is not None
            at_ms = following if following < LATE_MS else START_MS

    walk()
    cost_us = microseconds(walk, 3000)
    print(f"{expression:16} {cost_us:6.1f} us a tick")
    assert cost_us < most_us


@pytest.mark.parametrize("count", [1, 16])
def test_a_search_for_what_never_comes_is_bounded(count: int) -> None:
    """Clock changes of decades, each of which removes the only time of the year; even a whole list of such expressions
    must not hold up an event loop."""
    expressions = tuple(f"*/{number} 2 * 3 0#2" for number in range(1, count + 1))
    schedule = compile_schedule(ScheduleSpec(expressions=expressions, tz="America/New_York"), "job")
    assert schedule.next(START_MS) is None
    assert microseconds(lambda: [schedule.next(START_MS) for _ in range(20)], 20) < 3_000 * count


def test_many_jobs_of_few_schedules_are_cheap() -> None:
    specs = [ScheduleSpec(expressions=(f"*/{n} * * * *",), tz="Europe/Berlin") for n in (2, 3, 5, 10)]
    jobs = 100_000

    def fire_all() -> None:
        for number in range(jobs):
            assert compile_schedule(specs[number % 4], str(number)).next(START_MS) is not None

    cost_us = microseconds(fire_all, jobs)
    print(f"{cost_us:.1f} us a job of a shared schedule")
    assert cost_us < 15


def test_a_year_without_anyone_is_counted_in_milliseconds() -> None:
    schedule = compile_schedule(ScheduleSpec(expressions=("* * * * *",), tz="Europe/Berlin"), "job")
    year_ms = 365 * 86_400_000
    assert microseconds(lambda: schedule.count_between(START_MS, START_MS + year_ms), 1) < 50_000
    assert microseconds(lambda: schedule.last_between(START_MS, START_MS + year_ms), 1) < 5_000
