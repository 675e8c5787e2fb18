"""Calendars: what the transcript does not show."""

from __future__ import annotations

import pytest

from statemachine import limits
from statemachine.commands import PutCalendar
from statemachine.policy_records import Calendar
from tests.statemachine.driver import NOW_MS, Driver


def put(driver: Driver, name: str = "x", **fields: object) -> object:
    return driver.apply(PutCalendar(now_ms=NOW_MS, calendar=Calendar(name=name, **fields))).reply  # type: ignore[arg-type]


def test_there_are_so_many_calendars_and_no_more(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.calendars.CALENDARS_MAX", 2)
    assert [put(driver, name).code for name in "abc"] == ["ok", "ok", "calendars_limit"]  # type: ignore[attr-defined]
    assert put(driver, "a", spans=((1, 1),)).version == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a\0b"},
        {"name": "x" * (limits.CALENDAR_NAME_LENGTH_MAX + 1)},
        {"tz": "x" * (limits.WORD_LENGTH_MAX + 1)},
        {"spans": ((1, limits.DAY_MAX + 1),)},
        {"spans": tuple((day, day) for day in range(1, limits.CALENDAR_SPANS_MAX + 2))},
    ],
)
def test_each_limit_is_refused(driver: Driver, fields: dict[str, object]) -> None:
    assert put(driver, **fields).code == "malformed"  # type: ignore[arg-type, attr-defined]


def test_calendars_are_read_by_name_and_in_order(driver: Driver) -> None:
    for name in ("b", "a", "c"):
        put(driver, name, spans=((7, 8),))
    with driver.snapshot() as snapshot:
        found = snapshot.calendar("b")
        assert found is not None and (found.spans, found.version) == (((7, 8),), 1)
        assert snapshot.calendar("z") is None and snapshot.calendar("") is None
        assert [calendar.name for calendar in snapshot.calendars()] == ["a", "b", "c"]
        assert [calendar.name for calendar in snapshot.calendars("a")] == ["b", "c"]
