"""What is inside the grammar, what each field means, and what is refused in whose name."""

from __future__ import annotations

import random

import pytest

from node.schedule import InvalidSchedule, ScheduleSpec, compile_schedule, instant_text, parse_run_at
from node.schedule_gate import read_expression
from node.schedule_grammar import EXPRESSION_CHARACTERS_MAX, Cron, Every
from node.schedule_hash import draw_for
from node.schedule_pattern import Pattern, canonical, pattern_of
from tests.node.schedule_oracle import random_sample


def pattern(text: str) -> Pattern:
    cron = read_expression(text)
    assert isinstance(cron, Cron)
    return pattern_of(canonical(cron, draw_for("job")))


def refusal(text: str, tz: str = "UTC") -> InvalidSchedule:
    with pytest.raises(InvalidSchedule) as refused:
        compile_schedule(ScheduleSpec(expressions=(text,), tz=tz), "job")
    return refused.value


def days(text: str, month: str, tz: str = "UTC") -> list[int]:
    """The days of one month on which the schedule ticks."""
    start_ms = parse_run_at(f"{month}-01T00:00:00Z", tz)
    schedule = compile_schedule(ScheduleSpec(expressions=(text,), tz=tz), "job")
    texts = [instant_text(t) for t in schedule.between(start_ms - 1, start_ms + 31 * 86_400_000, 10_000)]
    return sorted({int(t[8:10]) for t in texts if t.startswith(month)})


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("*", range(60)),
        ("5", [5]),
        ("05", [5]),
        ("5-8", range(5, 9)),
        ("7-7", [7]),
        ("1,5-7,6", [1, 5, 6, 7]),
        ("*/20", [0, 20, 40]),
        ("*/59", [0, 59]),
        ("10-30/10", [10, 20, 30]),
        ("10-12/2", [10, 12]),
        ("50/3", [50, 53, 56, 59]),
        ("5,*", range(60)),
        ("*/40,3", [0, 3, 40]),
    ],
)
def test_the_values_of_a_minute_field(field: str, minutes: list[int]) -> None:
    assert list(pattern(f"{field} * * * *").minute_values) == list(minutes)


@pytest.mark.parametrize(
    ("field", "weekdays"),
    [
        ("fri-sun", [0, 5, 6]),
        ("Fri-SUN", [0, 5, 6]),
        ("5-7", [0, 5, 6]),
        ("sun-tue", [0, 1, 2]),
        ("sun-sat", range(7)),
        ("sun-7", range(7)),
        ("sun-sun", [0]),
        ("7-sun", [0]),
        ("7", [0]),
        ("mon-sun", range(7)),
        ("1-7/3", [0, 1, 4]),
        ("fri-sun/2", [0, 5]),
        ("1/3", [0, 1, 4]),
        ("*/7", [0]),
        ("*/4", [0, 4]),
        ("0-7/7", [0]),
    ],
)
def test_the_values_of_a_day_of_week_field(field: str, weekdays: list[int]) -> None:
    assert list(pattern(f"0 0 * * {field}").weekday_values) == list(weekdays)


def test_names_of_months_in_any_case() -> None:
    assert pattern("0 0 1 jan,FEB-Apr,12 *").month_values == (1, 2, 3, 4, 12)


def test_blanks_and_tabs_separate_and_surround() -> None:
    assert pattern(" \t5  4\t* * 1\t ").canonical == pattern("5 4 * * 1").canonical


@pytest.mark.slow
def test_random_fields_have_the_values_that_they_say() -> None:
    """Ours through croniter, against sets that the generator worked out itself."""
    rng = random.Random(1)
    for _ in range(3000):
        sample = random_sample(rng, picks=False)
        try:
            found = pattern(sample.text)
        except InvalidSchedule as refused:
            assert "never comes" in refused.reason
            continue
        assert set(found.minute_values) == sample.minutes, sample.text
        assert set(found.hour_values) == sample.hours, sample.text
        assert set(found.day_values) == sample.days, sample.text
        assert set(found.month_values) == sample.months, sample.text
        assert set(found.weekday_values) == sample.weekdays, sample.text
        assert found.wildcard == sample.wildcard, sample.text


@pytest.mark.parametrize(
    ("text", "month", "expected"),
    [
        ("0 0 13 * 5", "2026-02", [6, 13, 20, 27]),
        ("0 0 1,2 * 0", "2026-02", [1, 2, 8, 15, 22]),
        ("0 0 */2 * 0", "2026-02", [1, 15]),
        ("0 0 */13 * *", "2026-02", [1, 14, 27]),
        ("0 0 13 * */5", "2026-02", [13]),
        ("0 0 ? * 5", "2026-02", [6, 13, 20, 27]),
        ("0 0 13 * ?", "2026-02", [13]),
        ("0 0 *,13 * 5", "2026-02", [6, 13, 20, 27]),
        ("0 0 13,* * 5", "2026-02", list(range(1, 29))),
        ("0 0 L * *", "2024-02", [29]),
        ("0 0 l * *", "2026-02", [28]),
        ("0 0 L-0 * *", "2026-02", [28]),
        ("0 0 L-2 * *", "2026-02", [26]),
        ("0 0 L-30 * *", "2026-03", [1]),
        ("0 0 L-30 * *", "2026-04", []),
        ("0 0 LW * *", "2026-02", [27]),
        ("0 0 LW * *", "2026-05", [29]),
        ("0 0 lw * *", "2026-07", [31]),
        ("0 0 1W * *", "2026-02", [2]),
        ("0 0 1W * *", "2026-08", [3]),
        ("0 0 28W * *", "2026-02", [27]),
        ("0 0 31W * *", "2026-05", [29]),
        ("0 0 31W * *", "2026-04", []),
        ("0 0 15W * *", "2026-02", [16]),
        ("0 0 14W * *", "2026-02", [13]),
        ("0 0 16W * *", "2026-02", [16]),
        ("0 0 1,15W,L * *", "2026-02", [1, 16, 28]),
        ("0 0 * * 1#1", "2026-02", [2]),
        ("0 0 * * mon#2", "2026-02", [9]),
        ("0 0 * * 1#5", "2026-03", [30]),
        ("0 0 * * 1#5", "2026-02", []),
        ("0 0 * * 7#1", "2026-02", [1]),
        ("0 0 * * 5L", "2026-02", [27]),
        ("0 0 * * friL", "2026-02", [27]),
        ("0 0 * * 1#1,5L,3", "2026-02", [2, 4, 11, 18, 25, 27]),
        ("0 0 1 * 1#1", "2026-02", [1, 2]),
        ("0 0 */7 * 1#3", "2026-02", []),
        ("0 0 */7 * 1#3", "2026-06", [15]),
        ("0 0 L * 5", "2026-02", [6, 13, 20, 27, 28]),
        ("0 0 L * */6", "2026-02", [28]),
        ("0 0 L * */6", "2026-03", []),
    ],
)
def test_the_days_of_a_month(text: str, month: str, expected: list[int]) -> None:
    assert days(text, month) == expected


@pytest.mark.parametrize(
    ("nickname", "meaning"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_nicknames_in_any_case(nickname: str, meaning: str) -> None:
    assert pattern(nickname).canonical == pattern(meaning).canonical
    assert pattern(f" {nickname.upper()} ").canonical == pattern(meaning).canonical
    assert pattern(nickname).wildcard == (nickname == "@hourly")


@pytest.mark.parametrize(
    ("text", "period_s"),
    [("@every 90s", 90), ("@EVERY 1H30M", 5400), ("@every\t2d", 172_800), ("@every 1m1m", 120), ("@every 060s", 60)],
)
def test_every(text: str, period_s: int) -> None:
    assert read_expression(text) == Every(period_s)


@pytest.mark.parametrize(
    ("text", "is_wildcard"),
    [
        ("*/7 1 * * *", True),
        ("0 */2 * * *", True),
        ("*,5 1 * * *", True),
        ("0 *,5 * * *", True),
        ("5,* 1 * * *", False),
        ("0-59 0-23 * * *", False),
        ("0 0 * * *", False),
        ("H * * * *", True),
        ("H/5 3 * * *", False),
    ],
)
def test_the_first_character_of_minute_or_hour_makes_a_wildcard_job(text: str, is_wildcard: bool) -> None:
    assert pattern(text).wildcard == is_wildcard


REFUSED = [
    # expression, the field that is named, a word of the reason, what to write instead
    ("0 22-2 * * *", "hour", "backwards", "0 22-23,0-2 * * *"),
    ("0 0 * * fri-mon", "day-of-week", "backwards", "0 0 * * 5-6,0-1"),
    ("0 0 * * 7-1", "day-of-week", "backwards", "0 0 * * 0-1"),
    ("0 0 * * 5-0", "day-of-week", "backwards", "0 0 * * 5-7"),
    ("0 0 * nov-feb *", "month", "backwards", "0 0 * 11-12,1-2 *"),
    ("0 20-2/3 * * *", "hour", "backwards", "0 2,20,23 * * *"),
    ("H(30-10) * * * *", "minute", "backwards", "H * * * *"),
    ("*/60 * * * *", "minute", "step", "0 * * * *"),
    ("*/90 * * * *", "minute", "step", "@every 90m"),
    ("0 */24 * * *", "hour", "step", "0 0 * * *"),
    ("0 0 */31 * *", "day-of-month", "step", "0 0 1 * *"),
    ("0 0 1 */12 *", "month", "step", "0 0 1 1 *"),
    ("0 0 * * */8", "day-of-week", "step", "0 0 * * 0"),
    ("10-20/11 * * * *", "minute", "step", "10 * * * *"),
    ("59/1 * * * *", "minute", "step", "59 * * * *"),
    ("5-5/1 * * * *", "minute", "step", "5 * * * *"),
    ("*/0 * * * *", "minute", "step of 0", "* * * * *"),
    ("H/60 * * * *", "minute", "step", "H * * * *"),
    ("0 0 * * H/7", "day-of-week", "step", "0 0 * * H"),
    ("*/10 * * * * *", None, "seconds", "@every 10s"),
    ("* * * * * *", None, "seconds", "@every 1s"),
    ("0 */5 * * * *", None, "seconds", "@every 10s"),
    ("0 0 12 * * ?", None, "seconds", "0 12 * * ?"),
    ("0 0 12 * * ? *", None, "seconds", "0 12 * * ?"),
    ("0 2 * * * /usr/bin/report --all", None, "fields", "0 2 * * *"),
    ("30 2", None, "2 fields", "30 2 * * *"),
    ("whenever", None, "1 field;", "0 2 * * *"),
    ("", None, "no fields", "0 2 * * *"),
    ("daily", None, "1 field;", "@daily"),
    ("R * * * *", "minute", "H is stable", "H * * * *"),
    ("R/5 * * * *", "minute", "H is stable", "H/5 * * * *"),
    ("R(1-9) * * * *", "minute", "H is stable", "H(1-9) * * * *"),
    ("0~30 * * * *", "minute", "H is stable", "H(0-30) * * * *"),
    ("@reboot", None, "no meaning", "@hourly"),
    ("@fortnightly", None, "not a nickname", "@every 14d"),
    ("@dayly", None, "not a nickname", "@daily"),
    ("@every", None, "period", "@every 1h"),
    ("@every 0s", None, "period", "@every 1h"),
    ("@every 1.5h", None, "period", "@every 1h30m"),
    ("@every 5 minutes", None, "period", "@every 5m"),
    ("@every 1h 30m", None, "period", "@every 1h30m"),
    ("@every 99999d", None, "3660 days", "@every 3660d"),
    ("0 0 31 2 *", "day-of-month", "never comes", "0 0 L 2 *"),
    ("0 0 30,31 feb *", "day-of-month", "never comes", "0 0 L feb *"),
    ("0 0 15W * */6", "day-of-month", "never comes", "0 0 15W * *"),
    ("0 0 */15 * 1#2", "day-of-month", "never comes", "0 0 */15 * *"),
    ("0 0 L-30 2 *", "day-of-month", "never comes", "0 0 L 2 *"),
    ("0 0 H(29-31) 2 *", "day-of-month", "never comes", "0 0 L 2 *"),
    ("0 0 31 H *", "day-of-month", "never comes", "0 0 L H *"),
    ("0 0\n* * *", None, "one line", "0 0 * * *"),
    ("0 0 * * *\n", None, "one line", "0 0 * * *"),
    ("30 4\r\n1 * *", None, "one line", "30 4 1 * *"),
    ("\uff15 * * * *", None, "ASCII", "5 * * * *"),
    ("\u0663 * * * *", None, "ASCII", "3 * * * *"),
    ("0\u00a00 * * *", None, "ASCII", "0 0 * * *"),
    ("0 0 * * *\x00", None, "ASCII", "0 0 * * *"),
    ("TZ=Asia/Tokyo 0 5 * * *", None, "tz", "0 5 * * *"),
    ("60 * * * *", "minute", "0-59", "0 * * * *"),
    ("0 24 * * *", "hour", "0-23", "0 0 * * *"),
    ("0 0 0 * *", "day-of-month", "1-31", "0 0 1 * *"),
    ("0 0 1 13 *", "month", "1-12", "0 0 1 12 *"),
    ("0 0 * * 8", "day-of-week", "0-7", "0 0 * * 7"),
    ("0-60 * * * *", "minute", "0-59", "0-59 * * * *"),
    ("0 0 * * MONDAY-FRIDAY", "day-of-week", "MONDAY", "0 0 * * mon-fri"),
    ("0 0 * MON *", "month", "MON", "0 0 * * *"),
    ("jan * * * *", "minute", "not a number", "0 * * * *"),
    ("? * * * *", "minute", "day field", "0 * * * *"),
    ("0 0 L,? * *", "day-of-month", "day field", "0 0 L * *"),
    ("0 0 W15 * *", "day-of-month", "W15", "0 0 15W * *"),
    ("0 0 L-3W * *", "day-of-month", "L-3W", "0 0 L-3 * *"),
    ("0 0 L-31 * *", "day-of-month", "so many days", "0 0 L * *"),
    ("0 0 1-L * *", "day-of-month", "L", "0 0 1-31 * *"),
    ("0 0 * * L5", "day-of-week", "L5", "0 0 * * 5L"),
    ("0 0 * * L", "day-of-week", "5L", "0 0 * * 6L"),
    ("0 0 * * 1#6", "day-of-week", "five times", "0 0 * * 1L"),
    ("0 0 * * 1#0", "day-of-week", "five times", "0 0 * * 1#1"),
    ("0 0 * * 1-3#2", "day-of-week", "1-3#2", "0 0 * * 1#2,2#2,3#2"),
    ("0 0 15 * 5,,6", "day-of-week", "empty", "0 0 15 * 5,6"),
    ("5.0 * * * *", "minute", "5.0", "5 * * * *"),
    ("-5 * * * *", "minute", "-5", "5 * * * *"),
    ("1-2-3 * * * *", "minute", "1-2-3", "1-3 * * * *"),
    ("** * * * *", "minute", "**", "* * * * *"),
    ("*-5 * * * *", "minute", "*-5", "* * * * *"),
    ("5*/2 * * * *", "minute", "5*", "0 * * * *"),
    # what is offered must not be another time: digits stay apart, steps and fields are kept
    ("0 9\u201317 * * *", None, "ASCII", "0 9-17 * * *"),
    ("0 9\u221217 * * *", None, "ASCII", "0 9-17 * * *"),
    ("0 1\u00b2 * * *", None, "ASCII", "0 1 * * *"),
    ("0 1\u00ad2 * * *", None, "ASCII", "0 12 * * *"),
    ("1;2 * * * *", "minute", "1;2", "1,2 * * * *"),
    ("0,30 8:00 * * *", "hour", "8:00", "0,30 8 * * *"),
    ("09:30 * * * 1-5", "minute", "09:30", "30 9 * * 1-5"),
    ("0 9pm * * *", "hour", "9pm", "0 21 * * *"),
    ("0 12am * * *", "hour", "12am", "0 0 * * *"),
    ("17:05", None, "1 field;", "5 17 * * *"),
    ("0 0 1st,15th * *", "day-of-month", "1st", "0 0 1,15 * *"),
    ("0 0 L3 * *", "day-of-month", "L3", "0 0 L-3 * *"),
    ("~/10 * * * *", "minute", "H is stable", "H/10 * * * *"),
    ("0~29/10 * * * *", "minute", "H is stable", "H(0-29)/10 * * * *"),
    ("30~10 * * * *", "minute", "H is stable", "H * * * *"),
    ("0 0 * * fri#6", "day-of-week", "five times", "0 0 * * friL"),
    ("0 */36 * * *", "hour", "step", "@every 36h"),
    ("0 0 */45 * *", "day-of-month", "step", "@every 45d"),
    ("0 */36 * * 1", "hour", "step", "0 0 * * 1"),
    ("0 15 10 ? * 6L", None, "seconds", "15 10 ? * 6L"),
    ("0 15 10 ? * FRI#3", None, "seconds", "15 10 ? * FRI#3"),
    ("30 9 1 1 * 2027", None, "6 fields", "30 9 1 1 *"),
    ("0 30 9 1 1 ? 2027", None, "7 fields", "30 9 1 1 ?"),
    ("0 2 * * * # nightly", None, "fields", "0 2 * * *"),
    ("every 5 minutes", None, "3 fields", "@every 5m"),
    ("@every day", None, "period", "@every 1d"),
    ("@every month", None, "period", "@monthly"),
    ("@every 1mo", None, "period", "@every 30d"),
    ("@every 1y", None, "period", "@every 365d"),
    ("@every Monday", None, "period", "0 0 * * mon"),
]


@pytest.mark.parametrize(("text", "part", "reason", "remedy"), REFUSED, ids=lambda value: repr(value)[:30])
def test_a_refusal_names_the_field_the_reason_and_what_to_write(
    text: str, part: str | None, reason: str, remedy: str
) -> None:
    refused = refusal(text)
    assert (refused.field, refused.index, refused.part) == ("schedule", None, part)
    assert reason in refused.reason
    assert part is None or refused.reason.startswith(f"{part}: ")
    assert refused.remedy == remedy
    assert compile_schedule(ScheduleSpec(expressions=(remedy,), tz="UTC"), "job").next(0) is not None


@pytest.mark.parametrize("text", ["*/7", "fri-sun", "0-7/7", "sun/2", "1#1,2L,*", "H(mon-fri)"])
def test_what_stands_close_to_a_refusal_is_accepted(text: str) -> None:
    read_expression(f"0 0 * * {text}")


def test_a_text_of_the_greatest_length_is_read_and_a_longer_one_is_not() -> None:
    text = "0,1" + ",1" * 250
    longest = f"{text} * * * *".ljust(EXPRESSION_CHARACTERS_MAX)
    assert pattern(longest).minute_values == (0, 1)
    assert "512" in refusal(longest + " ").reason


@pytest.mark.parametrize(
    "tz", ["", "Mars/Olympus", "europe/berlin", "../../etc/passwd", "UTC\x00", "local", "A" * 9999]
)
def test_a_missing_or_unknown_zone_is_refused(tz: str) -> None:
    refused = refusal("0 0 * * *", tz)
    assert refused.field == "tz"
    compile_schedule(ScheduleSpec(expressions=("0 0 * * *",), tz=refused.remedy), "job")


@pytest.mark.parametrize(
    ("tz", "remedy"),
    [
        ("", "UTC"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Europe/Berlinn", "Europe/Berlin"),
        ("Europe/Barlin", "Europe/Berlin"),
        ("PST", "America/Los_Angeles"),
        ("utc", "UTC"),
        ("Nowhere", "UTC"),
        ("Europe-Berlin", "Europe/Berlin"),
        # the sign of Etc/GMT-2 is the other way round than everybody writes it
        ("UTC+2", "Etc/GMT-2"),
        ("GMT+2", "Etc/GMT-2"),
        ("GMT-03:00", "Etc/GMT+3"),
        ("+05:30", "Asia/Kolkata"),
        ("utc+5:45", "Asia/Kathmandu"),
        ("\u22125", "Etc/GMT+5"),
        ("UTC+00:00", "UTC"),
        ("UTC+15", "UTC"),
        ("etc/gmt+2", "Etc/GMT+2"),
        ("Etc/GMT+15", "UTC"),
        ("AEDT", "Australia/Sydney"),
        ("China", "Asia/Shanghai"),
    ],
)
def test_the_zone_that_was_meant_is_offered(tz: str, remedy: str) -> None:
    assert refusal("0 0 * * *", tz).remedy == remedy


def test_the_place_in_a_list_is_named() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        compile_schedule(ScheduleSpec(expressions=("0 0 * * *", "0 25 * * *"), tz="UTC"), "job")
    assert refused.value.index == 1
    assert str(refused.value).startswith('schedule[1]: hour: "25" is not in 0-23; write "')
