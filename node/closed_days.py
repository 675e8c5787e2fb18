"""The days of calendars as instants: when a job's ticks are skipped. Pure."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from zoneinfo import ZoneInfo

from statemachine.limits import DAY_MAX, TIME_MS_MAX
from statemachine.policy_records import Calendar

COMPILED_KEPT_MAX = 1024


class ClosedDays:
    """When at least one of some calendars says that its day is no day to run."""

    def __init__(self, calendars: Sequence[Calendar], tz: str) -> None:
        """`tz` is whose days they are where a calendar does not say."""
        self._calendars = [(ZoneInfo(calendar.tz or tz), calendar.spans) for calendar in calendars]

    def closed_from(self, at_ms: int) -> int | None:
        """The beginning of the closed days that an instant falls into; None: it is open."""
        return self._edge(at_ms, first=True)

    def closed_until(self, at_ms: int) -> int | None:
        """The first instant after the closed days that one falls into; None: it is open."""
        return self._edge(at_ms, first=False)

    def spans(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        """What of a range is closed, in order: the begin of each part, and the first instant after it."""
        edges = sorted(
            (_begin_ms(first, zone), _begin_ms(last + 1, zone))
            for zone, spans in self._calendars
            for first, last in spans
        )
        at_ms = from_ms
        for begin_ms, end_ms in edges:
            if at_ms < end_ms and begin_ms < to_ms:
                yield max(begin_ms, at_ms), min(end_ms, to_ms)
                at_ms = end_ms

    def _edge(self, at_ms: int, *, first: bool) -> int | None:
        """Spans of several calendars may touch or overlap: from one edge on, until an edge is open."""
        found = None
        edge_ms = at_ms
        while (next_ms := self._span_edge(edge_ms, first)) is not None:
            found = next_ms
            edge_ms = found - 1 if first else found
        return found

    def _span_edge(self, at_ms: int, first: bool) -> int | None:
        for zone, spans in self._calendars:
            day = datetime.datetime.fromtimestamp(at_ms / 1000, zone).toordinal()
            place = bisect_right(spans, (day, DAY_MAX)) - 1
            if place >= 0 and spans[place][0] <= day <= spans[place][1]:
                return _begin_ms(spans[place][0] if first else spans[place][1] + 1, zone)
        return None


@lru_cache(maxsize=COMPILED_KEPT_MAX)
def closed_days(calendars: tuple[Calendar, ...], tz: str) -> ClosedDays:
    """Shared by all jobs that name the same calendars: what they share is computed once."""
    return ClosedDays(calendars, tz)


def _begin_ms(day: int, zone: ZoneInfo) -> int:
    """The first instant of a day. One that begins in a gap begins with the clock change."""
    if day > datetime.date.max.toordinal():
        return TIME_MS_MAX
    moment = datetime.datetime.combine(datetime.date.fromordinal(day), datetime.time(), zone)
    return round(moment.timestamp() * 1000)
