"""From wall minutes to instants: one expression walked through the stretches of constant offset of a zone.

All in unix seconds. What a clock change means (docs/schedules.md):
- a wildcard job ticks at every real minute whose wall clock matches;
- a fixed-time job ticks when the wall clock shows a matching minute for the first time, and once at the first minute
  after a gap that removed a matching minute.
Changes of one zone are days apart (a test holds this against the database), so the neighbouring offset is all we need.
"""

from __future__ import annotations

from typing import Literal

from node.schedule_dates import SEARCH_YEARS_MAX
from node.schedule_pattern import Pattern
from node.zones import FIRST_S, LAST_S, Segment, Zone
from node.zones_file import DAY_S

GapPolicy = Literal["after", "skip"]
FoldPolicy = Literal["default", "first", "both", "last"]
SEARCH_S_MAX = SEARCH_YEARS_MAX * 31_556_952
"""How far a search goes without meeting a tick before it says that none comes: the cost bound of sparse schedules.

Counted from where the zone is regular: from there on a year's ticks depend only on which kind of year it is."""


class CronTicks:
    """The ticks of one expression in one zone."""

    def __init__(self, pattern: Pattern, zone: Zone, *, gap: GapPolicy, fold: FoldPolicy) -> None:
        self.pattern = pattern
        self.zone = zone
        self.catches_gaps = gap == "after" and not pattern.wildcard
        self.fold: FoldPolicy = fold if fold != "default" else "both" if pattern.wildcard else "first"

    def next(self, after_s: int) -> int | None:
        """The first tick later than `after_s`; None when none comes."""
        at_s = max(after_s + 1, FIRST_S)
        give_up_s = self._give_up_s(at_s)
        while at_s <= give_up_s:
            segment = self.zone.segment_at(at_s)
            gap_s = self.gap_tick(segment)
            if gap_s is not None and gap_s >= at_s:
                return gap_s
            low, high = self.window(segment, at_s, segment.end_s)
            minute = self.pattern.first_from(low)
            if minute is not None and minute < high:
                tick_s = minute * 60 - segment.offset_s
                return tick_s if tick_s <= LAST_S else None
            at_s = self._go_on(segment, low)
        return None

    def between(self, after_s: int, until_s: int, limit: int) -> list[int]:
        """The first `limit` ticks t with after_s < t <= until_s, in order."""
        found: list[int] = []
        at_s = max(after_s + 1, FIRST_S)
        end_s = min(until_s, LAST_S) + 1
        give_up_s = self._give_up_s(at_s)
        while at_s < end_s and at_s <= give_up_s and len(found) < limit:
            segment = self.zone.segment_at(at_s)
            low, high = self.window(segment, at_s, end_s)
            ticks = self._all_in(segment, at_s, end_s, limit - len(found))
            found += ticks
            at_s = self._go_on(segment, max(low, high))
            give_up_s = self._give_up_s(at_s) if ticks else give_up_s
        return found

    def _give_up_s(self, at_s: int) -> int:
        return min(max(at_s, self.zone.regular_from_s) + SEARCH_S_MAX, LAST_S)

    def _go_on(self, segment: Segment, low: int) -> int:
        """Where the search continues when this segment has no more ticks from the wall minute `low` on.

        Years without a matching minute are passed over, unless the clock is about to show earlier minutes again."""
        if low * 60 > segment.end_s + segment.after_s:
            return segment.end_s
        minute = self.pattern.first_from(low)
        return LAST_S + 1 if minute is None else max(segment.end_s, minute * 60 - 2 * DAY_S)

    def gap_tick(self, segment: Segment) -> int | None:
        """The tick at the first minute of a segment that stands for the matching minutes which its gap removed."""
        if not self.catches_gaps or segment.offset_s <= segment.before_s:
            return None
        removed = self.pattern.first_from(minute_from(segment.start_s + segment.before_s))
        if removed is None or removed * 60 >= segment.start_s + segment.offset_s:
            return None
        return minute_from(segment.start_s + segment.offset_s) * 60 - segment.offset_s

    def window(self, segment: Segment, at_s: int, end_s: int) -> tuple[int, int]:
        """The wall minutes m, low <= m < high, that tick in this segment from `at_s` on and before `end_s`."""
        low_s = max(segment.start_s, at_s) + segment.offset_s
        high_s = min(segment.end_s, end_s) + segment.offset_s
        if self.fold == "first":
            low_s = max(low_s, segment.start_s + segment.before_s)  # until there the clock had shown every minute
        elif self.fold == "last":
            high_s = min(high_s, segment.end_s + segment.after_s)  # from there it will show every minute again
        return minute_from(low_s), minute_from(high_s)

    def _all_in(self, segment: Segment, at_s: int, end_s: int, limit: int) -> list[int]:
        low, high = self.window(segment, at_s, end_s)
        offset_s = segment.offset_s
        ticks = [minute * 60 - offset_s for minute in self.pattern.matches(low, high, limit)]
        gap_s = self.gap_tick(segment)
        if gap_s is not None and at_s <= gap_s < end_s and ticks[:1] != [gap_s]:
            ticks = [gap_s, *ticks][:limit]
        return ticks


class EveryTicks:
    """The multiples of a period since the unix epoch."""

    def __init__(self, period_s: int) -> None:
        self.period_s = period_s

    def next(self, after_s: int) -> int | None:
        """The first tick later than `after_s`; None after the end of scheduled time."""
        tick_s = (max(after_s, FIRST_S) // self.period_s + 1) * self.period_s
        return tick_s if tick_s <= LAST_S else None

    def between(self, after_s: int, until_s: int, limit: int) -> range:
        """The first `limit` ticks t with after_s < t <= until_s, in order, however many they are."""
        first_s = (max(after_s, FIRST_S) // self.period_s + 1) * self.period_s
        return range(first_s, min(until_s, LAST_S) + 1, self.period_s)[: max(limit, 0)]


def minute_from(second: int) -> int:
    """The first whole minute that is not before this second."""
    return -(-second // 60)
