"""Schedules in words."""

from __future__ import annotations

import pytest

from node.schedule import ScheduleSpec, compile_schedule


def described(*expressions: str, tz: str = "Europe/Berlin", **choices: str) -> str:
    return compile_schedule(ScheduleSpec(expressions=expressions, tz=tz, **choices), "job").describe()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 2 * * 1-5", "at 02:00 on weekdays"),
        ("0 2 * * *", "at 02:00 every day"),
        ("0,30 2,14 * * *", "at 02:00, 02:30, 14:00 and 14:30 every day"),
        ("* * * * *", "every minute"),
        ("*/10 * * * *", "every 10 minutes"),
        ("*/35 * * * *", "every hour at minutes 00 and 35"),
        ("0 * * * *", "every hour on the hour"),
        ("5 * * * *", "every hour at minute 05"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on weekdays"),
        ("* 9,11-12 * * *", "every minute from 09:00 to 09:59 and from 11:00 to 12:59"),
        ("5 */2 * * *", "every 2 hours from 00:00 on, at minute 05"),
        ("5,10-20 1-5,9 * * *", "at minutes 05 and 10-20 of the hours 01-05 and 09 every day"),
        ("0 0 * * 0,6", "at 00:00 on weekends"),
        ("0 0 * * fri-sun", "at 00:00 on Sundays, Fridays and Saturdays"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and the 15th of the month"),
        ("0 0 2-3,11-13,21-23 * *", "at 00:00 on the 2nd-3rd, the 11th-13th and the 21st-23rd of the month"),
        ("0 0 13 * 5", "at 00:00 on the 13th of the month, and also on Fridays"),
        ("0 0 13 1-3 5", "on the 13th of the month, and also on Fridays, both only in January to March,"),
        ("0 0 13 1 */5", "at 00:00 on the 13th of the month if that is a Sunday or a Friday in January"),
        ("0 0 13 * */5", "at 00:00 on the 13th of the month if that is a Sunday or a Friday"),
        ("0 0 */2 * 1#1", "at 00:00 on"),
        ("0 0 13 * 1-7", "at 00:00 every day"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 L-3,LW,15W * *", "the day 3 before the last, the last weekday and the weekday nearest to the 15th"),
        ("0 0 * * 1#1,5L", "at 00:00 on the last Friday of the month and the first Monday of the month"),
        ("0 0 1 jan,mar-may *", "at 00:00 on the 1st of the month in January and March to May"),
        ("*/5 * * 12 *", "every 5 minutes in December"),
    ],
)
def test_an_expression_in_words(expression: str, words: str) -> None:
    assert words in described(expression)
    assert described(expression).endswith(", Europe/Berlin")


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ("@every 1s", "every second"),
        ("@every 90s", "every 1 minute 30 seconds"),
        ("@every 2h", "every 2 hours"),
        ("@every 1d", "every day"),
    ],
)
def test_a_period_in_words_has_no_zone(period: str, words: str) -> None:
    assert described(period) == words


def test_a_union_in_words() -> None:
    assert described("0 2 * * *", "0 12 * * 0", "@every 3h") == (
        "at 02:00 every day; at 12:00 on Sundays, Europe/Berlin; every 3 hours"
    )


def test_choices_that_are_not_the_default_are_told() -> None:
    assert described("30 2 * * *", dst_gap="skip", dst_fold="last") == (
        "at 02:30 every day, Europe/Berlin; left out when a clock change removes the time; "
        "the last time only when clocks go back"
    )
