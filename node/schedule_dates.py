"""Which dates an expression means, as one bit mask for each of the fourteen kinds of year.

A kind is the weekday of 1 January and whether the year is a leap year. Every kind comes again within 40 years (after 12
or 28, but for the years around 2100). So a date that no kind of year holds never comes, and the next date is a few
shifts away.
"""

from __future__ import annotations

from calendar import isleap
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date

from node.schedule_fields import DayPick

SEARCH_YEARS_MAX = 42
"""Every kind of year, between any neighbours that it can have, begins and ends within so many years."""
YEAR_MAX = 9998
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_MONTH_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EVERY_SEVENTH_DAY = 0b1_0000001_0000001_0000001_0000001


class Dates:
    """The dates of one expression. Days are counted from 1970-01-01 (day 0), by the wall calendar."""

    def __init__(
        self,
        *,
        months: Collection[int],
        days: Collection[int],
        weekdays: Collection[int],
        picks: Collection[DayPick],
        week_picks: Collection[DayPick],
        both: bool,
    ) -> None:
        self._months = months
        self._day_mask = sum(1 << (day - 1) for day in days)
        self._weekdays = weekdays
        self._picks = picks
        self._week_picks = week_picks
        self._both = both
        self._kinds: dict[tuple[int, bool], int] = {}
        self._year = (0, 0, 0)

    def comes(self) -> bool:
        """Whether any date of the calendar is meant."""
        return any(self._mask(weekday, leap) for leap in (False, True) for weekday in range(7))

    def has(self, day: int) -> bool:
        """Whether this day is meant."""
        start, end, mask = self._year
        if not start <= day < end:
            start, end, mask = self._enter(date.fromordinal(day + EPOCH_ORDINAL).year)
        return bool(mask >> (day - start) & 1)

    def first_from(self, day: int) -> int | None:
        """The first meant day that is `day` or later; None when there is none before the year 9999."""
        start, end, mask = self._year
        if not start <= day < end:
            start, end, mask = self._enter(date.fromordinal(day + EPOCH_ORDINAL).year)
        rest = mask >> (day - start)
        if rest:
            return day + (rest & -rest).bit_length() - 1
        year = date.fromordinal(start + EPOCH_ORDINAL).year
        for later in range(year + 1, min(year + SEARCH_YEARS_MAX, YEAR_MAX) + 1):
            leap = isleap(later)
            start, end = end, end + 365 + leap
            mask = self._mask((start + 4) % 7, leap)
            if mask:
                self._year = (start, end, mask)
                return start + (mask & -mask).bit_length() - 1
        return None

    def _enter(self, year: int) -> tuple[int, int, int]:
        start = date(year, 1, 1).toordinal() - EPOCH_ORDINAL
        leap = isleap(year)
        entered = self._year = (start, start + 365 + leap, self._mask((start + 4) % 7, leap))
        return entered

    def _mask(self, weekday: int, leap: bool) -> int:
        mask = self._kinds.get((weekday, leap))
        if mask is None:
            mask = self._kinds[weekday, leap] = self._year_mask(weekday, leap)
        return mask

    def _year_mask(self, weekday: int, leap: bool) -> int:
        mask = passed = 0
        for month in range(1, 13):
            length = _MONTH_DAYS[month] + (leap and month == 2)
            if month in self._months:
                mask |= self._month_mask((weekday + passed) % 7, length) << passed
            passed += length
        return mask

    def _month_mask(self, first: int, length: int) -> int:
        """The meant days of a month that begins on weekday `first` (Sunday = 0); bit 0 is the 1st."""
        day_mask = self._day_mask | _picked(self._picks, first, length)
        week_mask = _picked(self._week_picks, first, length)
        for weekday in self._weekdays:
            week_mask |= _EVERY_SEVENTH_DAY << (weekday - first) % 7
        return (day_mask & week_mask if self._both else day_mask | week_mask) & ((1 << length) - 1)


def _picked(picks: Iterable[DayPick], first: int, length: int) -> int:
    mask = 0
    for pick in picks:
        day = _PICK[pick.kind](pick, first, length)
        if 1 <= day <= length:
            mask |= 1 << (day - 1)
    return mask


def _last(pick: DayPick, first: int, length: int) -> int:
    return length - pick.day


def _last_weekday(pick: DayPick, first: int, length: int) -> int:
    return _towards_weekday(length, first, length)


def _nearest(pick: DayPick, first: int, length: int) -> int:
    # A month without the day has no weekday near it either, as plain `31` skips April.
    return _towards_weekday(pick.day, first, length) if pick.day <= length else 0


def _nth(pick: DayPick, first: int, length: int) -> int:
    return 1 + (pick.day - first) % 7 + 7 * (pick.nth - 1)


def _last_of(pick: DayPick, first: int, length: int) -> int:
    return length - (first + length - 1 - pick.day) % 7


def _towards_weekday(day: int, first: int, length: int) -> int:
    """The weekday (Monday to Friday) nearest to `day`, never leaving the month."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


_PICK: Mapping[str, Callable[[DayPick, int, int], int]] = {
    "last": _last,
    "last_weekday": _last_weekday,
    "nearest": _nearest,
    "nth": _nth,
    "last_of": _last_of,
}
