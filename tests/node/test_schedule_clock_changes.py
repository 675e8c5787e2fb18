"""Gaps and folds by example: the two kinds of job, the choices of dst_gap and dst_fold, and what a preview says."""

from __future__ import annotations

import pytest

from node.schedule import Schedule, ScheduleSpec, compile_schedule, instant_text, parse_run_at

DAY_MS = 86_400_000
GAP = ("Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z")  # 02:00+01 -> 03:00+02 at 01:00Z
FOLD = ("Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z")  # 03:00+02 -> 02:00+01 at 01:00Z


def schedule(*expressions: str, tz: str = "Europe/Berlin", **choices: str) -> Schedule:
    return compile_schedule(ScheduleSpec(expressions=expressions, tz=tz, **choices), "job")  # type: ignore[arg-type]


def times(stretch: tuple[str, str, str], expression: str, **choices: str) -> list[str]:
    """The ticks of a stretch as UTC times of day."""
    tz, start, end = stretch
    ticks = schedule(expression, tz=tz, **choices)
    return [instant_text(t)[11:16] for t in ticks.between(parse_run_at(start, tz), parse_run_at(end, tz), 100)]


@pytest.mark.parametrize(
    ("expression", "choices", "expected"),
    [
        ("30 2 * * *", {}, ["01:00"]),
        ("30 2 * * *", {"dst_gap": "skip"}, []),
        ("10,20,30 2 * * *", {}, ["01:00"]),
        ("0 3 * * *", {}, ["01:00"]),
        ("0 2,3 * * *", {}, ["01:00"]),
        ("30 2,3 * * *", {}, ["01:00", "01:30"]),
        ("*/30 2 * * *", {}, []),
        ("*/30 2,3 * * *", {}, ["01:00", "01:30"]),
        ("30 * * * *", {}, ["00:30", "01:30", "02:30"]),
        ("0 * * * *", {"dst_gap": "skip"}, ["01:00", "02:00", "03:00"]),
    ],
)
def test_a_gap(expression: str, choices: dict[str, str], expected: list[str]) -> None:
    assert times(GAP, expression, **choices) == expected


@pytest.mark.parametrize(
    ("expression", "choices", "expected"),
    [
        ("30 2 * * *", {}, ["00:30"]),
        ("30 2 * * *", {"dst_fold": "first"}, ["00:30"]),
        ("30 2 * * *", {"dst_fold": "both"}, ["00:30", "01:30"]),
        ("30 2 * * *", {"dst_fold": "last"}, ["01:30"]),
        ("0 3 * * *", {"dst_fold": "last"}, ["02:00"]),
        ("30 1,2,3 * * *", {"dst_fold": "last"}, ["23:30", "01:30", "02:30"]),
        ("30 * * * *", {}, ["23:30", "00:30", "01:30", "02:30"]),
        ("30 * * * *", {"dst_fold": "first"}, ["23:30", "00:30", "02:30"]),
        ("30 * * * *", {"dst_fold": "last"}, ["23:30", "01:30", "02:30"]),
        ("*/30 2 * * *", {}, ["00:00", "00:30", "01:00", "01:30"]),
        ("0-59/30 2 * * *", {}, ["00:00", "00:30"]),
    ],
)
def test_a_fold(expression: str, choices: dict[str, str], expected: list[str]) -> None:
    """(kubernetes#121594, quartz#81)"""
    assert times(FOLD, expression, **choices) == expected


def test_a_start_inside_the_second_pass_gets_nothing_from_it() -> None:
    second_pass = parse_run_at("2026-10-25T01:10:00Z", "UTC")
    following = schedule("30 2 * * *").next(second_pass)
    assert following == parse_run_at("2026-10-26T01:30:00Z", "UTC")
    assert schedule("30 2 * * *", dst_fold="last").next(second_pass) == parse_run_at("2026-10-25T01:30:00Z", "UTC")


def test_a_lost_day_is_made_up_for_once() -> None:
    lost_friday = schedule("0 9 * * 5", tz="Pacific/Apia")
    start = parse_run_at("2011-12-29T00:00:00Z", "UTC")
    assert [instant_text(t) for t in lost_friday.between(start, start + 9 * DAY_MS, 9)] == [
        "2011-12-30T10:00:00Z",
        "2012-01-05T19:00:00Z",
    ]


def special(*expressions: str, tz: str, start: str, **choices: str) -> list[str]:
    start_ms = parse_run_at(start, tz)
    return [c.words for c in schedule(*expressions, tz=tz, **choices).special(start_ms, start_ms + 365 * DAY_MS)]


def test_the_coming_changes_are_told_only_where_they_matter() -> None:
    assert special("0 12 * * *", tz="Europe/Berlin", start="2026-01-01T00:00:00") == []
    assert special("30 2 * * *", tz="Asia/Tokyo", start="2026-01-01T00:00:00") == []
    assert special("@every 1m", tz="Europe/Berlin", start="2026-01-01T00:00:00") == []
    assert special("30 2 * * *", tz="Europe/Berlin", start="2026-01-01T00:00:00") == [
        "2026-03-29: clocks go from 02:00 to 03:00; does not come: 02:30; runs once after, at 03:00",
        "2026-10-25: clocks go back from 03:00 to 02:00; comes twice: 02:30; runs the first time only",
    ]


@pytest.mark.parametrize(
    ("expression", "choices", "effects"),
    [
        ("30 2 * * *", {"dst_gap": "skip", "dst_fold": "last"}, ["02:30; left out", "02:30; runs the last time only"]),
        ("0,30 2 * * *", {"dst_fold": "both"}, ["02:00 and 1 more; runs once after", "1 more; runs both times"]),
        ("*/15 * * * *", {}, ["02:00 and 3 more; nothing is caught up", "02:00 and 3 more; runs both times"]),
    ],
)
def test_what_a_change_does_is_told_by_the_choices(
    expression: str, choices: dict[str, str], effects: list[str]
) -> None:
    told = special(expression, tz="Europe/Berlin", start="2026-01-01T00:00:00", **choices)
    assert len(told) == 2
    assert all(effect in words for effect, words in zip(effects, told, strict=True))


def test_a_change_over_midnight_and_one_of_a_whole_day_name_both_dates() -> None:
    assert special("0 9 * * *", tz="Pacific/Apia", start="2011-12-01T00:00:00")[0] == (
        "2011-12-30: clocks go from 00:00 to 2011-12-31 00:00; does not come: 09:00; runs once after, at 00:00"
    )
    assert special("30 23 * * *", tz="Asia/Beirut", start="2022-10-01T00:00:00")[0] == (
        "2022-10-30: clocks go back from 00:00 to 2022-10-29 23:00; comes twice: 23:30; runs the first time only"
    )


def test_a_change_that_leaves_seconds_over_names_the_minute_of_the_tick() -> None:
    start_ms = parse_run_at("1972-01-06T00:00:00Z", "UTC")
    ticks = schedule("30 0 * * 5", tz="Africa/Monrovia")
    assert instant_text(ticks.next(start_ms) or 0) == "1972-01-07T00:45:00Z"
    assert [change.words for change in ticks.special(start_ms, start_ms + 2 * DAY_MS)] == [
        "1972-01-07: clocks go from 00:00 to 00:45; does not come: 00:30; runs once after, at 00:45"
    ]


def test_a_change_carries_its_parts_for_programs() -> None:
    start_ms = parse_run_at("2026-01-01T00:00:00Z", "UTC")
    gap, fold = schedule("15,45 2 * * *").special(start_ms, start_ms + 365 * DAY_MS)
    assert (gap.kind, gap.minutes, gap.first_minute) == ("gap", 2, "2026-03-29T02:15")
    assert instant_text(gap.at_ms) == "2026-03-29T01:00:00Z"
    assert (fold.kind, fold.wall_before, fold.wall_after) == ("fold", "2026-10-25T03:00", "2026-10-25T02:00")


def test_equal_effects_of_a_union_are_told_once_and_other_ones_apart() -> None:
    assert len(special("30 2 * * *", "30 2 * * *", tz="Europe/Berlin", start="2026-01-01T00:00:00")) == 2
    assert len(special("30 2 * * *", "*/30 * * * *", tz="Europe/Berlin", start="2026-01-01T00:00:00")) == 4


def test_the_list_of_changes_is_bounded() -> None:
    start_ms = parse_run_at("1000-01-01T00:00:00Z", "UTC")
    assert len(schedule("* * * * *").special(start_ms, 10**15)) == 64
