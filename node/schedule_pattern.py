"""What one expression means on a wall clock, in no zone: the matching wall minutes.

The value sets come from croniter, which only sees text that passed the gate and was then written anew, so that it reads
every range, weekday and hashed value as we do. Days that depend on the month, and how day fields combine, are ours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from croniter import croniter

from node.schedule_dates import Dates
from node.schedule_errors import quoted
from node.schedule_fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, DayPick, Field, FieldKind, Hashed, Refused, Span
from node.schedule_grammar import Cron

MINUTES_A_DAY = 1440
PATTERNS_KEPT_MAX = 8192
Draw = Callable[[FieldKind, Hashed], int]
"""Chooses the first value of a hashed item, from the job's id."""


class CanonicalCron(NamedTuple):
    """A resolved expression in the spelling that croniter reads as we do; equal schedules share one pattern."""

    text: str
    days: bool
    """The day-of-month field names days of its own (text), besides its picks."""
    weekdays: bool
    picks: tuple[DayPick, ...]
    week_picks: tuple[DayPick, ...]
    both_days: bool
    wildcard: bool


class Pattern:
    """The matching wall minutes of one expression, counted from 1970-01-01T00:00 of whatever wall clock."""

    def __init__(self, canonical: CanonicalCron) -> None:
        values = _value_sets(canonical.text)
        self.canonical = canonical
        self.wildcard = canonical.wildcard
        self.minute_values, self.hour_values, self.month_values = values[0], values[1], values[3]
        self.day_values = values[2] if canonical.days else ()
        self.weekday_values = values[4] if canonical.weekdays else ()
        self.minute_mask = sum(1 << (60 * hour + minute) for hour in values[1] for minute in values[0])
        self.dates = Dates(
            months=values[3],
            days=self.day_values,
            weekdays=self.weekday_values,
            picks=canonical.picks,
            week_picks=canonical.week_picks,
            both=canonical.both_days,
        )
        self._first_of_day = 60 * values[1][0] + values[0][0]
        self._free = (0, -1)

    def first_from(self, minute: int) -> int | None:
        """The first matching wall minute that is `minute` or later; None when there is none before the year 9999."""
        low, found = self._free
        if low <= minute <= found:  # nothing matches in between, so the last answer is this one's too
            return found
        answer = self._search(minute)
        if answer is not None:
            self._free = (minute, answer)
        return answer

    def matches(self, low: int, high: int, limit: int) -> list[int]:
        """The first `limit` matching wall minutes m with low <= m < high, in order."""
        found: list[int] = []
        minutes = _minutes_of_day(self.hour_values, self.minute_values)
        minute = self.first_from(low)
        while minute is not None and minute < high and len(found) < limit:
            start = minute - minute % MINUTES_A_DAY
            index = bisect_left(minutes, minute - start)
            end = bisect_left(minutes, min(high - start, MINUTES_A_DAY), index)
            found += [start + m for m in minutes[index : min(end, index + limit - len(found))]]
            minute = self._search(start + MINUTES_A_DAY)
        return found

    def day_mask(self, day: int, low: int, high: int) -> int:
        """The matching wall minutes of one day as bits 0-1439, without those outside low <= m < high."""
        if not self.dates.has(day):
            return 0
        start = day * MINUTES_A_DAY
        mask = self.minute_mask
        if low > start:
            mask = mask >> (low - start) << (low - start)
        if high < start + MINUTES_A_DAY:
            mask &= (1 << max(high - start, 0)) - 1
        return mask

    def _search(self, minute: int) -> int | None:
        day, of_day = divmod(minute, MINUTES_A_DAY)
        matching = self.dates.first_from(day)
        if matching == day:
            rest = self.minute_mask >> of_day
            if rest:
                return minute + (rest & -rest).bit_length() - 1
            matching = self.dates.first_from(day + 1)
        return None if matching is None else matching * MINUTES_A_DAY + self._first_of_day


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def pattern_of(canonical: CanonicalCron) -> Pattern:
    """The pattern of a resolved expression; shared by all jobs that mean the same."""
    return Pattern(canonical)


@lru_cache(maxsize=256)
def _minutes_of_day(hours: tuple[int, ...], minutes: tuple[int, ...]) -> tuple[int, ...]:
    """In order. Kept apart from the patterns: a dense one is 50 kB, and most are only asked for their next tick."""
    return tuple(60 * hour + minute for hour in hours for minute in minutes)


def canonical(cron: Cron, draw: Draw) -> CanonicalCron:
    """Resolves the hashed items and writes the expression for croniter."""
    spans = [_spans(kind, field, draw) for kind, field in zip((MINUTE, HOUR, DAY, MONTH, WEEKDAY), cron, strict=True)]
    texts = [_text(kind, spans[i]) for i, kind in enumerate((MINUTE, HOUR, DAY, MONTH))]
    return CanonicalCron(
        text=" ".join([*texts, _weekday_text(spans[4])]),
        days=bool(spans[2]),
        weekdays=bool(spans[4]),
        picks=_picks(cron.day),
        week_picks=_picks(cron.weekday),
        both_days=cron.both_days,
        wildcard=cron.wildcard,
    )


def _spans(kind: FieldKind, field: Field, draw: Draw) -> tuple[Span, ...]:
    found = []
    for item in field.items:
        if isinstance(item, Hashed):
            first = draw(kind, item)
            found.append(Span(first, first if item.step is None else item.last, item.step or 1))
        elif isinstance(item, Span):
            found.append(item)
    return tuple(found)


def _picks(field: Field) -> tuple[DayPick, ...]:
    return tuple(sorted({item for item in field.items if isinstance(item, DayPick)}))


def _text(kind: FieldKind, spans: Iterable[Span]) -> str:
    texts = [_span_text(kind, span) for span in spans]
    return ",".join(texts) if texts and "*" not in texts else "*"  # in a list, croniter keeps "*" beside the numbers


def _span_text(kind: FieldKind, span: Span) -> str:
    if span.first + span.step > span.last:  # one value: croniter reads a-a as the whole field
        return str(span.first)
    low_high = "*" if (span.first, span.last) == (kind.first, kind.last) else f"{span.first}-{span.last}"
    return low_high if span.step == 1 else f"{low_high}/{span.step}"


def _weekday_text(spans: Iterable[Span]) -> str:
    """Plain numbers: croniter turns ranges that end with 7 around, and gets their steps wrong."""
    values = {day % 7 for span in spans for day in range(span.first, span.last + 1, span.step)}
    return ",".join(map(str, sorted(values))) if 0 < len(values) < 7 else "*"


def _value_sets(text: str) -> list[tuple[int, ...]]:
    try:
        fields, _ = croniter.expand(text)
    except ValueError:  # another version of croniter than the one that the tests know
        raise Refused(f"croniter does not read {quoted(text)}") from None
    bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
    return [_numbers(values, low, high) for values, (low, high) in zip(fields, bounds, strict=True)]


def _numbers(values: Iterable[object], low: int, high: int) -> tuple[int, ...]:
    if list(values) == ["*"]:
        return tuple(range(low, high + 1))
    return tuple(sorted(value for value in values if isinstance(value, int)))
