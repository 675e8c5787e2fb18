"""The public surface: unions, `@every`, counting, bounds, caches, and what never happens to the order of ticks."""

from __future__ import annotations

import random
from calendar import isleap
from dataclasses import replace
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node import schedule as schedule_module
from node.interface import SCHEDULES_MAX
from node.schedule import InvalidSchedule, Schedule, ScheduleSpec, compile_schedule, instant_text, parse_run_at
from node.schedule_dates import SEARCH_YEARS_MAX
from node.schedule_gate import read_expression
from node.schedule_grammar import Cron
from node.schedule_hash import draw_for
from node.schedule_pattern import canonical, pattern_of
from node.schedule_search import CronTicks
from node.zones import LAST_S, zone, zone_names
from tests.node.schedule_oracle import EPOCH, random_sample

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
FAR_MS = LAST_S * 1000


def at(text: str) -> int:
    return parse_run_at(text, "UTC")


def schedule(*expressions: str, tz: str = "UTC", **choices: object) -> Schedule:
    return compile_schedule(ScheduleSpec(expressions=expressions, tz=tz, **choices), "job")  # type: ignore[arg-type]


def listed(ticks: Schedule, after: str, count: int) -> list[str]:
    return [instant_text(t) for t in ticks.between(at(after), FAR_MS, count)]


# --- one tick an instant, strictly after ------------------------------------------------------------------------------


def test_the_next_tick_is_strictly_after_by_a_millisecond() -> None:
    daily = schedule("0 0 * * *")
    midnight = at("2026-01-02T00:00:00Z")
    assert daily.next(midnight - 1) == midnight
    assert daily.next(midnight) == midnight + DAY_MS
    assert daily.next(midnight - 999) == midnight


def test_between_excludes_its_start_and_includes_its_end() -> None:
    hourly = schedule("@hourly")
    start, end = at("2026-01-01T00:00:00Z"), at("2026-01-01T02:00:00Z")
    assert [instant_text(t)[11:16] for t in hourly.between(start, end, 9)] == ["01:00", "02:00"]
    assert list(hourly.between(start, end - 1, 9)) == [start + 3_600_000]
    assert list(hourly.between(start, end, 1)) == [start + 3_600_000]
    assert list(hourly.between(start, end, 0)) == []
    assert list(hourly.between(end, start, 9)) == []


def test_a_list_is_a_union_with_one_tick_an_instant() -> None:
    both = schedule("*/30 * * * *", "0 */6 * * *", "@every 45m")
    assert [t[11:16] for t in listed(both, "2026-01-01T05:00:00Z", 6)] == [
        "05:15", "05:30", "06:00", "06:30", "06:45", "07:00"
    ]  # fmt: skip


def test_members_of_a_union_keep_their_own_kind_at_a_change() -> None:
    """The fixed-time member fires once at the gap's end, at which the wildcard member ticks anyway."""
    both = schedule("30 2 * * *", "*/30 * * * *", tz="Europe/Berlin")
    assert listed(both, "2026-03-29T00:31:00Z", 2) == ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
    assert both.count_between(at("2026-03-29T00:31:00Z"), at("2026-03-29T01:30:00Z")) == 2


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 10**9), members=st.integers(1, 4))
@pytest.mark.slow
def test_ticks_increase_and_every_way_of_asking_agrees(seed: int, members: int) -> None:
    rng = random.Random(seed)
    ticks = _random_union(rng, members)
    after_ms = rng.randint(at("1890-01-01T00:00:00Z"), at("2060-01-01T00:00:00Z"))
    until_ms = after_ms + rng.randint(0, 40 * DAY_MS)
    found = list(ticks.between(after_ms, until_ms, 10**6))
    assert all(earlier < later for earlier, later in pairwise(found))
    assert ticks.count_between(after_ms, until_ms) == len(found)
    assert ticks.last_between(after_ms, until_ms) == (found[-1] if found else None)
    iterated, step_ms = [], after_ms
    while len(iterated) < min(len(found), 40):
        following = ticks.next(step_ms)
        assert following is not None
        iterated.append(step_ms := following)
    assert iterated == found[:40]
    assert list(ticks.between(after_ms, until_ms, 3)) == found[:3]
    following = ticks.next(found[-1] if found else after_ms)
    assert following is None or following > until_ms


def _random_union(rng: random.Random, members: int) -> Schedule:
    while True:
        texts = [
            random_sample(rng).text if rng.random() < 0.7 else f"@every {rng.choice([7, 30, 45, 90, 600, 5400])}s"
            for _ in range(members)
        ]
        spec = ScheduleSpec(
            expressions=tuple(texts),
            tz=rng.choice(sorted(zone_names())),
            dst_gap=rng.choice(["after", "skip"]),
            dst_fold=rng.choice(["default", "first", "both", "last"]),
        )
        try:
            return compile_schedule(spec, "job")
        except InvalidSchedule:
            continue


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
@pytest.mark.slow
def test_each_tick_matches_its_fields_where_no_clock_changes(seed: int) -> None:
    rng = random.Random(seed)
    sample = random_sample(rng)
    try:
        ticks = schedule(sample.text)
    except InvalidSchedule:
        return
    for tick_ms in ticks.between(rng.randint(0, 2 * 10**12), FAR_MS, 20):
        day, minute = divmod(tick_ms // 60_000, 1440)
        assert tick_ms % 60_000 == 0
        assert sample.has_date(EPOCH.fromordinal(EPOCH.toordinal() + day))
        assert sample.has_minute(minute)


# --- @every -----------------------------------------------------------------------------------------------------------


def test_every_is_aligned_to_the_epoch_in_every_zone() -> None:
    for tz in ("UTC", "Asia/Kathmandu"):
        assert listed(schedule("@every 90s", tz=tz), "1970-01-01T00:00:01Z", 2) == [
            "1970-01-01T00:01:30Z",
            "1970-01-01T00:03:00Z",
        ]
    assert schedule("@every 7s").next(-8000) == -7000


def test_a_year_of_seconds_is_one_decision() -> None:
    """Not one tick is made: the whole year is a range, a count and a last tick."""
    each_second = schedule("@every 1s")
    start = at("2025-01-01T00:00:00Z")
    ticks = each_second.between(start, start + YEAR_MS, 10**9)
    assert isinstance(ticks, range)
    assert len(ticks) == each_second.count_between(start, start + YEAR_MS) == 365 * 86_400
    assert each_second.last_between(start, start + YEAR_MS) == start + YEAR_MS == ticks[-1]


def test_a_year_of_minutes_is_counted_by_days() -> None:
    start = at("2025-01-01T00:00:00Z")
    each_minute = schedule("* * * * *", tz="Europe/Berlin")
    assert each_minute.count_between(start, start + YEAR_MS) == 365 * 1440
    fixed = schedule("0-59 0-23 * * *", tz="Europe/Berlin")
    assert fixed.count_between(start, start + YEAR_MS) == 365 * 1440 - 60  # the fold's second pass is not run again


@pytest.mark.parametrize(
    "periods",
    [("@every 6s", "@every 4s"), ("@every 90s", "@every 60s", "@every 45s"), ("@every 7s", "@every 14s", "@every 11s")],
)
def test_the_union_of_periods_is_counted_without_listing_it(periods: tuple[str, ...]) -> None:
    union = schedule(*periods)
    start = at("2026-01-01T00:00:03Z")
    assert union.count_between(start, start + DAY_MS) == len(union.between(start, start + DAY_MS, 10**6))


def test_many_unlike_periods_are_counted_cheaply() -> None:
    periods = [f"@every {seconds}s" for seconds in (32, 33, 35, 37, 39, 41, 43, 47, 49, 51, 53, 55, 58, 59, 61, 62)]
    union = schedule(*periods)
    start = at("2026-01-01T00:00:03Z")
    assert union.count_between(start, start + DAY_MS) == len(union.between(start, start + DAY_MS, 10**6))
    assert union.count_between(start, start + 40 * YEAR_MS) > 40 * 365 * 86_400 // 4


# --- one-offs, starts_at, ends_at -------------------------------------------------------------------------------------


def test_a_one_off_ticks_once_to_the_millisecond() -> None:
    """(M1)"""
    once = compile_schedule(ScheduleSpec(run_at_ms=1234567, tz="UTC"), "job")
    assert once.next(1234566) == 1234567
    assert once.next(1234567) is None
    assert list(once.between(0, 1234567, 5)) == [1234567]
    assert list(once.between(0, 1234566, 5)) == []
    assert list(once.between(0, 1234567, 0)) == []
    assert (once.count_between(0, 1234567), once.last_between(0, 9**9)) == (1, 1234567)
    assert once.special(0, FAR_MS) == []
    assert once.describe() == "once at 1970-01-01 00:20:34, UTC"


def test_starts_at_and_ends_at_are_both_part_of_the_stretch() -> None:
    bounded = schedule("@hourly", starts_at_ms=at("2026-01-01T10:00:00Z"), ends_at_ms=at("2026-01-01T12:00:00Z"))
    ticks = ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z"]
    assert listed(bounded, "2020-01-01T00:00:00Z", 9) == ticks
    assert bounded.next(0) == at(ticks[0])
    assert bounded.next(at(ticks[2])) is None
    assert bounded.count_between(0, FAR_MS) == 3
    assert bounded.last_between(0, FAR_MS) == at(ticks[2])
    assert bounded.describe().endswith("; not before 2026-01-01T10:00:00Z; not after 2026-01-01T12:00:00Z")


def test_an_end_at_the_end_of_written_time_is_no_end() -> None:
    ends_ms = parse_run_at("9999-12-31T23:59:59Z", "UTC")
    ticks = schedule("@daily", tz="Pacific/Kiritimati", ends_at_ms=ends_ms)
    assert ticks.next(0) is not None
    assert "9999" in ticks.describe()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ScheduleSpec(tz="UTC"), "schedule"),
        (ScheduleSpec(tz="UTC", expressions=("@daily",), run_at_ms=0), "schedule"),
        (ScheduleSpec(tz="UTC", expressions=("@daily",) * (SCHEDULES_MAX + 1)), "schedule"),
        (ScheduleSpec(tz="", run_at_ms=0), "tz"),
        (ScheduleSpec(tz="UTC", expressions=("@daily",), starts_at_ms=1, ends_at_ms=0), "ends_at"),
        (ScheduleSpec(tz="UTC", run_at_ms=FAR_MS + 1), "run_at"),
        (ScheduleSpec(tz="UTC", run_at_ms=-(10**17)), "run_at"),
        (ScheduleSpec(tz="UTC", expressions=("@daily",), starts_at_ms=10**17), "starts_at"),
        (ScheduleSpec(tz="UTC", expressions=("@daily",), dst_gap="before"), "dst_gap"),  # type: ignore[arg-type]
        (ScheduleSpec(tz="UTC", expressions=("@daily",), dst_fold="never"), "dst_fold"),  # type: ignore[arg-type]
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(spec: ScheduleSpec, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        compile_schedule(spec, "job")
    assert refused.value.field == field
    assert refused.value.remedy


# --- sparse schedules and the end of time -----------------------------------------------------------------------------


def test_sparse_schedules_find_their_rare_dates() -> None:
    assert listed(schedule("0 0 * 2 1#5"), "2026-01-01T00:00:00Z", 3) == [
        "2044-02-29T00:00:00Z",
        "2072-02-29T00:00:00Z",
        "2112-02-29T00:00:00Z",  # forty years: 2100 is no leap year
    ]


@pytest.mark.parametrize(
    ("text", "choices"),
    [("*/30 2 * 3 0#2", {}), ("30 2 * 3 *,0#2", {}), ("30 2 ? 3 0#2", {"dst_gap": "skip"})],
)
def test_a_time_that_every_clock_change_removes_ends_the_search(text: str, choices: dict[str, object]) -> None:
    """02:30 on the second Sunday of March has not existed in New York since 2007, and the search says so."""
    ticks = schedule(text, tz="America/New_York", **choices)
    if "*,0#2" in text:
        assert ticks.next(at("2026-01-01T00:00:00Z")) is not None
        return
    assert ticks.next(at("2026-01-01T00:00:00Z")) is None
    assert list(ticks.between(at("2026-01-01T00:00:00Z"), FAR_MS, 3)) == []
    assert ticks.next(at("2000-01-01T00:00:00Z")) == at("2000-03-12T07:30:00Z") - (30 * 60_000 if text[0] == "*" else 0)


def test_every_kind_of_year_comes_again_within_the_search() -> None:
    """With any neighbours that it can have: what the search's bound stands on."""
    kinds = {year: (date(year, 1, 1).weekday(), isleap(year)) for year in range(1999, 2403)}
    last_seen: dict[object, int] = {}
    for year in range(2000, 2402):
        around = kinds[year - 1], kinds[year], kinds[year + 1]
        assert year - last_seen.get(around, year) + 2 <= SEARCH_YEARS_MAX
        last_seen[around] = year


@pytest.mark.slow
@pytest.mark.parametrize("tz", ["America/New_York", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_a_bounded_search_finds_what_an_endless_one_finds(tz: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(tz)
    zone_read = zone(tz)
    assert zone_read is not None
    for _ in range(60):
        day, month, weekday = rng.choice(["?", "29", "8-14"]), rng.randint(2, 4), f"0#{rng.randint(1, 5)}"
        text = f"*/{rng.randint(1, 59)} {rng.randint(1, 3)} {day} {month} {weekday}"
        from_s = rng.randrange(0, 6_000_000_000)
        expression = read_expression(text)
        assert isinstance(expression, Cron)
        ticks = CronTicks(pattern_of(canonical(expression, draw_for(""))), zone_read, gap="after", fold="default")
        bounded = ticks.next(from_s), ticks.between(from_s, from_s * 3, 3)
        with monkeypatch.context() as patched:
            patched.setattr("node.schedule_search.SEARCH_S_MAX", 10**11)
            assert (ticks.next(from_s), ticks.between(from_s, from_s * 3, 3)) == bounded, (text, from_s)


@pytest.mark.parametrize("text", ["* * * * *", "0 0 1 1 *", "@every 1h", "0 0 29 2 1"])
def test_time_has_two_ends(text: str) -> None:
    ticks = schedule(text, tz="Pacific/Kiritimati")
    assert ticks.next(10**18) is None
    assert ticks.next(FAR_MS) is None
    first = ticks.next(-(10**18))
    assert first is not None
    assert instant_text(first) < "0030"
    assert list(ticks.between(10**18, 2 * 10**18, 5)) == []
    assert ticks.count_between(FAR_MS, 10**18) == 0
    assert ticks.special(10**17, 10**18) == []


# --- caches -----------------------------------------------------------------------------------------------------------


def test_jobs_share_what_they_have_in_common() -> None:
    spec = ScheduleSpec(expressions=("*/5 * * * *",), tz="Europe/Berlin")
    assert compile_schedule(spec, "a") is compile_schedule(replace(spec), "b")
    ours = compile_schedule(replace(spec, starts_at_ms=5), "a")
    assert ours._ticks is compile_schedule(spec, "b")._ticks


def test_a_shared_schedule_is_searched_once_for_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = schedule("17 3 * * 2", tz="Asia/Tokyo")
    first = ticks.next(0)
    calls = []
    cron = ticks._ticks._members[0]  # type: ignore[attr-defined]
    monkeypatch.setattr(cron, "next", lambda after_s: calls.append(after_s))
    assert first is not None
    assert [ticks.next(after_ms) for after_ms in (0, 5, first - 1)] == [first] * 3
    assert calls == []


def test_a_refusal_is_not_remembered_as_something_else() -> None:
    for _ in range(2):
        with pytest.raises(InvalidSchedule):
            schedule("61 * * * *")


def test_the_surface_that_others_rely_on() -> None:
    assert set(schedule_module.__all__) >= {
        "InvalidSchedule", "Schedule", "ScheduleSpec", "compile_schedule", "parse_run_at", "pin_tzdata",
        "stable_jitter_ms",
    }  # fmt: skip
