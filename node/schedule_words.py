"""Schedules in words: "at 02:00 on weekdays"."""

from __future__ import annotations

from collections.abc import Sequence

from node.schedule_fields import DayPick
from node.schedule_pattern import Pattern
from node.schedule_search import FoldPolicy, GapPolicy
from node.zones import Zone

TIMES_LISTED_MAX = 6
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_NTH = ("first", "second", "third", "fourth", "fifth")
_FOLD = {"first": "the first time only", "both": "both times", "last": "the last time only"}
_ALSO = ", and also "
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def schedule_words(
    patterns: Sequence[Pattern], periods: Sequence[int], tz: str, gap: GapPolicy, fold: FoldPolicy
) -> str:
    """A union of expressions in one zone: "at 02:00 on weekdays, Europe/Berlin"."""
    words = [cron_words(pattern) for pattern in patterns]
    if words:
        words[-1] += f", {tz}"
        words += ["left out when a clock change removes the time"] if gap == "skip" else []
        words += [] if fold == "default" else [f"{_FOLD[fold]} when clocks go back"]
    return "; ".join([*words, *(every_words(period_s) for period_s in periods)])


def once_words(zone: Zone, at_ms: int) -> str:
    """A single instant, on the zone's own clock."""
    return f"once at {zone.local(at_ms // 1000).isoformat(sep=' ')}, {zone.name}"


def cron_words(pattern: Pattern) -> str:
    """The times, days and months of one expression."""
    times = _times(pattern.hour_values, pattern.minute_values)
    days = _days(pattern)
    if not days:
        days = "" if times.startswith("every") else "every day"
    months = _months(pattern.month_values)
    if months and _ALSO in days:  # the months hold for either kind of day
        return f"{times} {days}, both only {months}"
    return " ".join(part for part in (times, days, months) if part)


def every_words(period_s: int) -> str:
    """A period in the largest units: "every 1 hour 30 minutes"."""
    rest, parts = period_s, []
    for unit, unit_s in _UNITS:
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return "every " + (parts[0].removeprefix("1 ") if len(parts) == 1 else " ".join(parts))


def joined(words: Sequence[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _times(hours: tuple[int, ...], minutes: tuple[int, ...]) -> str:
    if len(hours) == 24:
        return _minutes_of_every_hour(minutes)
    if len(hours) * len(minutes) <= TIMES_LISTED_MAX:
        return "at " + joined([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])
    every = _even_step(minutes, 60)
    if len(minutes) == 60 or every:
        often = "every minute" if len(minutes) == 60 else f"every {every} minutes"
        return f"{often} " + joined([f"from {a:02}:00 to {b:02}:{minutes[-1]:02}" for a, b in _ranges(hours)])
    hour_step = _even_step(hours, 24)
    if hour_step:
        return f"every {hour_step} hours from 00:00 on, {_past(minutes)}"
    return f"{_past(minutes)} of the hours {joined([_range_words(a, b, '02') for a, b in _ranges(hours)])}"


def _minutes_of_every_hour(minutes: tuple[int, ...]) -> str:
    if len(minutes) == 60:
        return "every minute"
    every = _even_step(minutes, 60)
    if every:
        return f"every {every} minutes"
    return "every hour on the hour" if minutes == (0,) else f"every hour {_past(minutes)}"


def _past(minutes: tuple[int, ...]) -> str:
    plural = "" if len(minutes) == 1 else "s"
    return f"at minute{plural} " + joined([_range_words(a, b, "02") for a, b in _ranges(minutes)])


def _even_step(values: tuple[int, ...], size: int) -> int:
    """n when the values are 0, n, 2n, … and n divides the size; else 0."""
    if len(values) < 2 or size % len(values):
        return 0
    step = size // len(values)
    return step if values == tuple(range(0, size, step)) and step > 1 else 0


def _ranges(values: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for value in values:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def _range_words(first: int, last: int, width: str) -> str:
    return format(first, width) if first == last else f"{format(first, width)}-{format(last, width)}"


def _days(pattern: Pattern) -> str:
    all_days, all_weekdays = len(pattern.day_values) == 31, len(pattern.weekday_values) == 7
    both = pattern.canonical.both_days
    if (all_days and all_weekdays) or (not both and (all_days or all_weekdays)):
        return ""
    if all_weekdays:
        return _on_days(pattern)
    if all_days:
        return _on_weekdays(pattern)
    if both:
        return f"{_on_days(pattern)} if that is {_weekday_alternatives(pattern)}"
    return f"{_on_days(pattern)}{_ALSO}{_on_weekdays(pattern)}"


def _on_days(pattern: Pattern) -> str:
    numbers = [_ordinal(a) if a == b else f"{_ordinal(a)}-{_ordinal(b)}" for a, b in _ranges(pattern.day_values)]
    picks = [_pick_words(pick) for pick in pattern.canonical.picks]
    listed = [f"the {words}" for words in numbers] + picks
    return f"on {joined(listed)} of the month"


def _on_weekdays(pattern: Pattern) -> str:
    values = pattern.weekday_values
    plain = {(1, 2, 3, 4, 5): ["weekdays"], (0, 6): ["weekends"]}.get(values, [f"{_WEEKDAYS[v]}s" for v in values])
    picks = [f"{_pick_words(pick)} of the month" for pick in pattern.canonical.week_picks]
    return f"on {joined([*plain, *picks])}"


def _weekday_alternatives(pattern: Pattern) -> str:
    plain = [f"a {_WEEKDAYS[value]}" for value in pattern.weekday_values]
    return joined(plain + [_pick_words(pick) for pick in pattern.canonical.week_picks], "or")


def _pick_words(pick: DayPick) -> str:
    if pick.kind == "last":
        return "the last day" if not pick.day else f"the day {pick.day} before the last"
    if pick.kind == "last_weekday":
        return "the last weekday"
    if pick.kind == "nearest":
        return f"the weekday nearest to the {_ordinal(pick.day)}"
    which = "last" if pick.kind == "last_of" else _NTH[pick.nth - 1]
    return f"the {which} {_WEEKDAYS[pick.day]}"


def _months(months: tuple[int, ...]) -> str:
    if len(months) == 12:
        return ""
    names = [_MONTHS[a - 1] if a == b else f"{_MONTHS[a - 1]} to {_MONTHS[b - 1]}" for a, b in _ranges(months)]
    return f"in {joined(names)}"


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
