"""No tick is missed, none invented, none doubled: against a walk over every minute around the changes of the zones."""

from __future__ import annotations

import random
from zoneinfo import ZoneInfo

import pytest

from node.schedule import InvalidSchedule, Schedule, ScheduleSpec, compile_schedule
from node.schedule_search import FoldPolicy, GapPolicy
from node.zones import pin_tzdata, zone
from node.zones_file import read_zone_file, zone_names
from tests.node.schedule_oracle import Sample, Walk, changes_of, random_sample, ticks_after, walk

DAY_S = 86_400
ODD_CHANGES = [
    ("Africa/Casablanca", 2025, "Ramadan, and a standard time that is the summer time"),
    ("Africa/Cairo", 2023, "24:00 to 23:00"),
    ("America/Caracas", 2007, "30 minutes back"),
    ("America/Santiago", 2026, "24:00 to 23:00"),
    ("America/Sao_Paulo", 2018, "a day without midnight"),
    ("America/Scoresbysund", 2024, "two hours' worth of changes at one moment"),
    ("America/St_Johns", 1988, "two hours, at 00:01"),
    ("America/St_Johns", 2006, "at 00:01, over midnight"),
    ("Antarctica/Casey", 2022, "three hours back over midnight"),
    ("Antarctica/Troll", 2025, "two hours"),
    ("Asia/Gaza", 2027, "around Ramadan"),
    ("Asia/Kathmandu", 1985, "15 minutes"),
    ("Asia/Pyongyang", 2018, "half an hour before midnight"),
    ("Asia/Singapore", 1981, "30 minutes at midnight"),
    ("Australia/Lord_Howe", 2026, "30 minutes"),
    ("Europe/Berlin", 2026, "the usual"),
    ("Europe/Dublin", 2026, "negative daylight saving time"),
    ("Pacific/Apia", 2011, "a Friday that never was"),
    ("Pacific/Chatham", 2026, "off the hour"),
    ("Pacific/Kwajalein", 1993, "a Saturday that never was"),
    ("Pacific/Norfolk", 2015, "half an hour back for good"),
    ("America/Guyana", 1975, "45 minutes or so"),
    ("Pacific/Kiritimati", 1994, "24 hours at New Year"),
    ("Africa/Juba", 2021, "back for good"),
]


@pytest.fixture(scope="module", autouse=True)
def _pinned() -> None:
    pin_tzdata()


def compiled(sample: Sample, tz: str, gap: GapPolicy, fold: FoldPolicy) -> Schedule | None:
    try:
        return compile_schedule(ScheduleSpec(expressions=(sample.text,), tz=tz, dst_gap=gap, dst_fold=fold), "job")
    except InvalidSchedule as refused:
        assert "never comes" in refused.reason
        return None


def around(tz: str, change_s: int) -> Walk:
    change_s -= change_s % 60
    return walk(ZoneInfo(tz), change_s - 3 * DAY_S, change_s + 3 * DAY_S)


def check(
    start_s: int,
    end_s: int,
    tz: str,
    minutes: Walk,
    sample: Sample,
    gap: GapPolicy = "after",
    fold: FoldPolicy = "default",
) -> None:
    schedule = compiled(sample, tz, gap, fold)
    if schedule is None:
        return
    expected = [tick_s * 1000 for tick_s in ticks_after(minutes.ticks(sample, gap=gap, fold=fold), start_s, end_s)]
    told = f"{sample.text!r} {tz} from {start_s} {gap} {fold}"
    assert list(schedule.between(start_s * 1000, end_s * 1000, 10_000)) == expected, told
    assert schedule.count_between(start_s * 1000, end_s * 1000) == len(expected), told
    assert schedule.last_between(start_s * 1000, end_s * 1000) == (expected[-1] if expected else None), told
    after_ms = start_s * 1000
    for tick_ms in expected[:50]:
        assert schedule.next(after_ms) == tick_ms, told
        after_ms = tick_ms


def near_the_change(rng: random.Random, minutes: Walk) -> Sample:
    """A fixed time within a few minutes of the wall clock's jump, every day: the samples that hurt."""
    jump = next(i for i in range(1, len(minutes.walls)) if minutes.walls[i] != minutes.walls[i - 1] + 1)
    wall = rng.choice([minutes.walls[jump], minutes.walls[jump - 1] + 1]) + rng.randint(-90, 90)
    minute, hour = wall % 60, wall // 60 % 24
    minute_text, minutes_of_hour = rng.choice(
        [(str(minute), {minute}), ("*", set(range(60))), ("*/7", set(range(0, 60, 7))), ("0-59", set(range(60)))]
    )
    return Sample(
        text=f"{minute_text} {hour} * * *",
        minutes=frozenset(minutes_of_hour),
        hours=frozenset({hour}),
        days=frozenset(range(1, 32)),
        months=frozenset(range(1, 13)),
        weekdays=frozenset(range(7)),
    )


def check_change(rng: random.Random, tz: str, change_s: int, samples: int) -> None:
    minutes = around(tz, change_s)
    end_s = change_s + 3 * DAY_S // 2
    for _ in range(samples):
        for sample in (near_the_change(rng, minutes), random_sample(rng)):
            check(end_s - rng.randint(1, 3 * DAY_S), end_s, tz, minutes, sample)
    gap: GapPolicy = rng.choice(["after", "skip"])
    fold: FoldPolicy = rng.choice(["first", "both", "last"])
    check(end_s - 3 * DAY_S, end_s, tz, minutes, near_the_change(rng, minutes), gap, fold)


@pytest.mark.slow
@pytest.mark.parametrize(("tz", "year", "why"), ODD_CHANGES, ids=lambda value: str(value).replace("/", "-"))
def test_no_tick_is_missed_around_odd_changes(tz: str, year: int, why: str) -> None:
    """(nomad#5410, celery#6438)"""
    rng = random.Random(f"{tz} {year}")
    changes = changes_of(ZoneInfo(tz), year, year + 1)
    assert changes, why
    for change_s in changes:
        check_change(rng, tz, change_s, samples=3)


@pytest.mark.slow
def test_no_tick_is_missed_around_changes_picked_at_random() -> None:
    rng = random.Random(20_26)
    for _ in range(12):
        tz = rng.choice(sorted(zone_names()))
        year = rng.randint(1973, 2037)
        for change_s in changes_of(ZoneInfo(tz), year, year + 1):
            check_change(rng, tz, change_s, samples=2)


def zones_that_differ() -> list[str]:
    """One name for each distinct history; the other names of the database are its aliases."""
    by_history: dict[object, str] = {}
    for name in sorted(zone_names()):
        by_history.setdefault(read_zone_file(name), name)
    return sorted(by_history.values())


@pytest.mark.long
@pytest.mark.parametrize("part", range(24))
def test_no_tick_is_missed_around_any_change_of_any_zone(part: int) -> None:
    for tz in zones_that_differ()[part::24]:
        rng = random.Random(tz)
        segments = zone(tz)
        assert segments is not None
        for change_s in changes_of(ZoneInfo(tz), 1973, 2038):
            assert segments.segment_at(change_s).start_s == change_s
            check_change(rng, tz, change_s, samples=2)
