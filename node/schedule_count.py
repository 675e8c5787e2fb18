"""How many ticks a stretch of time holds, without listing them: a year of seconds must be one decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm

from node.schedule_pattern import MINUTES_A_DAY
from node.schedule_search import CronTicks, EveryTicks, minute_from
from node.zones import FIRST_S, LAST_S, Segment


def count_union(crons: Sequence[CronTicks], everies: Sequence[EveryTicks], after_s: int, until_s: int) -> int:
    """The number of different instants t, after_s < t <= until_s, at which any of these ticks.

    Costs a microsecond or two for each day on which `crons` (all in one zone) tick, nothing for `everies`."""
    after_s, until_s = max(after_s, FIRST_S - 1), min(until_s, LAST_S)
    if until_s <= after_s:
        return 0
    periods = _independent(every.period_s for every in everies)
    counted = _count_periods(periods, after_s, until_s)
    for segment in _segments(crons, after_s, until_s):
        counted += sum(_count_days(crons, periods, segment, after_s + 1, until_s + 1))
    return counted


def _segments(crons: Sequence[CronTicks], after_s: int, until_s: int) -> Iterator[Segment]:
    at_s = after_s + 1
    while crons and at_s <= until_s:
        segment = crons[0].zone.segment_at(at_s)
        yield segment
        at_s = segment.end_s


def _count_days(
    crons: Sequence[CronTicks], periods: Sequence[int], segment: Segment, at_s: int, end_s: int
) -> Iterator[int]:
    """For each day of the segment that may have ticks: how many minutes tick and are on no period's grid."""
    windows = [(cron.pattern, *cron.window(segment, at_s, end_s)) for cron in crons]
    gap_minute = _gap_minute(crons, segment, at_s, end_s)
    first = minute_from(max(segment.start_s, at_s) + segment.offset_s)
    last = minute_from(min(segment.end_s, end_s) + segment.offset_s) - 1
    day: int | None = first // MINUTES_A_DAY
    while day is not None and day <= last // MINUTES_A_DAY:
        mask = 0
        for pattern, low, high in windows:
            mask |= pattern.day_mask(day, low, high)
        if gap_minute is not None and gap_minute // MINUTES_A_DAY == day:
            mask |= 1 << gap_minute % MINUTES_A_DAY
        for period_s in periods:
            mask &= ~_grid(period_s, segment.offset_s, day)
        yield mask.bit_count()
        following = [pattern.dates.first_from(day + 1) for pattern, _, _ in windows]
        day = min((found for found in following if found is not None), default=None)


def _gap_minute(crons: Iterable[CronTicks], segment: Segment, at_s: int, end_s: int) -> int | None:
    for cron in crons:
        tick_s = cron.gap_tick(segment)
        if tick_s is not None and at_s <= tick_s < end_s:
            return (tick_s + segment.offset_s) // 60
    return None


def _independent(periods: Iterable[int]) -> list[int]:
    """Without those whose ticks are all ticks of another."""
    distinct = sorted(set(periods))
    return [period for i, period in enumerate(distinct) if all(period % smaller for smaller in distinct[:i])]


def _count_periods(periods: Sequence[int], after_s: int, until_s: int, common: int = 1) -> int:
    """The multiples of `common` that are multiples of any period: inclusion and exclusion over common multiples.

    A branch ends where the stretch holds no common multiple, so long lists of unlike periods stay cheap."""
    total = 0
    for index, period_s in enumerate(periods):
        multiple = lcm(common, period_s)
        count = until_s // multiple - after_s // multiple
        if count:
            total += count - _count_periods(periods[index + 1 :], after_s, until_s, multiple)
    return total


def _grid(period_s: int, offset_s: int, day: int) -> int:
    """The wall minutes of a day, as bits 0-1439, that fall on multiples of the period at this offset."""
    shared = gcd(60, period_s)
    if offset_s % shared:
        return 0
    every = period_s // shared  # of the minutes m with 60 m = offset (mod period), one in so many is on the grid
    residue = offset_s // shared * pow(60 // shared, -1, every) % every if every > 1 else 0
    return _every_nth(every) << (residue - day * MINUTES_A_DAY) % every & ((1 << MINUTES_A_DAY) - 1)


@lru_cache(maxsize=1024)
def _every_nth(every: int) -> int:
    return sum(1 << minute for minute in range(0, MINUTES_A_DAY, every))
