"""The expected ticks: at instants that can be looked up, and as the product has them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from chaos.calendar_ticks import ticks_of
from node.schedule import ScheduleSpec, compile_schedule

HOUR_MS = 3_600_000
SPRING, AUTUMN = "2026-03-29T01:00", "2026-10-25T01:00"
"""When the clocks of Berlin change, in UTC."""
LEAP_DAY, NEW_YEAR = "2028-02-29T00:00", "2026-01-01T00:00"

EXPRESSIONS = ("* * * * *", "*/7 2 * * *", "0,30 1,2,3 * * *", "1 3 * * *", "@daily", "@hourly")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("expression", "tz", "around", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", SPRING, [SPRING]),
        ("0 3 * * *", "Europe/Berlin", SPRING, [SPRING]),
        ("0 4 * * *", "Europe/Berlin", SPRING, ["2026-03-29T02:00"]),
        ("30 2 * * *", "Europe/Berlin", AUTUMN, ["2026-10-25T00:30"]),
        ("30 * * * *", "Europe/Berlin", AUTUMN, ["2026-10-25T00:30", "2026-10-25T01:30"]),
        ("0 0 29 2 *", "UTC", LEAP_DAY, [LEAP_DAY]),
        ("@yearly", "UTC", NEW_YEAR, [NEW_YEAR]),
        ("@monthly", "UTC", LEAP_DAY, []),
        ("@every 7200s", "UTC", NEW_YEAR, [NEW_YEAR]),
    ],
)
def test_instants_that_can_be_looked_up(expression: str, tz: str, around: str, expected: list[str]) -> None:
    at_ms = ms(around)
    found = ticks_of([expression], tz, at_ms - HOUR_MS + 1, at_ms + HOUR_MS)
    assert sorted(found) == [ms(tick) for tick in expected]


@pytest.mark.parametrize("around", [SPRING, AUTUMN, LEAP_DAY, NEW_YEAR])
@pytest.mark.parametrize(
    "expression", ["* * * * *", "*/7 2 * * *", "0,30 1,2,3 * * *", "1 3 * * *", "@daily", "@hourly"]
)
def test_the_product_agrees(expression: str, around: str) -> None:
    from_ms, until_ms = ms(around) - 5 * HOUR_MS, ms(around) + 5 * HOUR_MS
    schedule = compile_schedule(ScheduleSpec(expressions=(expression,), tz="Europe/Berlin"), "job")
    found = ticks_of([expression], "Europe/Berlin", from_ms + 1, until_ms)
    assert sorted(found) == list(schedule.between(from_ms, until_ms, 10_000))
