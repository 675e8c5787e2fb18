"""A time zone as its stretches of constant offset, from the pinned tz database (never the machine's).

Only the sign of an offset change counts: some zones call winter their daylight saving time, so `dst()` is not asked.
Each zone-year is worked out once and kept.
"""

from __future__ import annotations

import zoneinfo
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

import tzdata  # type: ignore[import-untyped]  # one constant of it is used

from node.zones_file import DAY_S, YearlyRule, ZoneFile, read_zone_file, zone_names

FIRST_S = int(datetime(1, 1, 3, tzinfo=UTC).timestamp())
LAST_S = int(datetime(9990, 1, 1, tzinfo=UTC).timestamp())
"""Instants outside are not scheduled: the calendar needs some room before and after them, in every zone."""
RULE_YEARS_KEPT_MAX = 1024
Change = tuple[int, int]
"""(unix seconds, offset after it in seconds)"""
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Segment(NamedTuple):
    """A stretch of time in which a zone's offset does not change: unix seconds, start included, end not."""

    start_s: int
    end_s: int
    offset_s: int
    before_s: int
    """The offset until `start_s`. Smaller than `offset_s`: the change is a gap; larger: a fold."""
    after_s: int
    """The offset from `end_s` on."""


class Zone:
    """The segments of one zone, for all time between `FIRST_S` and `LAST_S`."""

    def __init__(self, name: str, file: ZoneFile) -> None:
        self.name = name
        self._rule = file.rule
        following = None if file.rule is None else _first_rule_change(file.rule, file)
        self._listed = _segments(file.first_offset_s, FIRST_S, file.changes, following)
        self._starts = [segment.start_s for segment in self._listed]
        self._rule_from_s = self._listed[-1].end_s
        self.regular_from_s = self._listed[-1].start_s if file.rule is None else self._rule_from_s
        """From here on the zone's years are all alike: one rule, or no change at all."""
        self._rule_years: dict[int, tuple[Segment, ...]] = {}
        self._latest = self._listed[-1]

    def segment_at(self, at_s: int) -> Segment:
        """The segment that holds this instant; instants before `FIRST_S` belong to the first one."""
        latest = self._latest
        if not latest.start_s <= at_s < latest.end_s:
            self._latest = latest = self._find(at_s)
        return latest

    def local(self, at_s: int) -> datetime:
        """The naive wall clock of an instant."""
        return _EPOCH.replace(tzinfo=None) + timedelta(seconds=at_s + self.segment_at(at_s).offset_s)

    def local_text(self, at_s: int) -> str:
        """The wall clock of an instant with its weekday and offset: "Sun 2026-03-29 03:00:00 +02:00"."""
        wall = self.local(at_s).replace(tzinfo=timezone(timedelta(seconds=self.segment_at(at_s).offset_s)))
        return f"{_WEEKDAYS[wall.weekday()]} {wall.isoformat(sep=' ')[:19]} {wall.isoformat()[19:]}"

    def _find(self, at_s: int) -> Segment:
        if at_s < self._rule_from_s or self._rule is None:
            return self._listed[max(bisect_right(self._starts, at_s) - 1, 0)]
        year = min(year_at(at_s), year_at(LAST_S))
        # A rule speaks of local years: the newest change so far may belong to the UTC year before or after.
        for candidate in (year + 1, year, year - 1):
            for segment in reversed(self._rule_year(candidate, self._rule)):
                if segment.start_s <= at_s:
                    return segment
        raise AssertionError(f"{self.name} has no offset at {at_s}")

    def _rule_year(self, year: int, rule: YearlyRule) -> tuple[Segment, ...]:
        found = self._rule_years.get(year)
        if found is None:
            if len(self._rule_years) >= RULE_YEARS_KEPT_MAX:
                self._rule_years.clear()
            before_s = rule.changes(year - 1)[-1][1]
            segments = _segments(before_s, None, rule.changes(year), rule.changes(year + 1)[0])
            found = tuple(segment for segment in segments if segment.start_s >= self._rule_from_s)
            self._rule_years[year] = found
        return found


def zone(name: str) -> Zone | None:
    """The zone of this exact IANA name, or None. Read once and kept."""
    return _read_zone(name) if name in zone_names() else None


def pin_tzdata() -> str:
    """Makes `zoneinfo` read the installed tzdata package as this module does, and returns its version ("2026f").

    Machines of one cluster have different system databases; nodes compare this version when they join."""
    zoneinfo.reset_tzpath([])
    zoneinfo.ZoneInfo.clear_cache()
    return tzdata_version()


def tzdata_version() -> str:
    """The version of the tz database that all schedules are computed with, as IANA names it."""
    return str(tzdata.IANA_VERSION)


def year_at(at_s: int) -> int:
    """The UTC calendar year of an instant."""
    return (_EPOCH + timedelta(seconds=at_s)).year


@lru_cache(maxsize=1024)
def _read_zone(name: str) -> Zone:
    return Zone(name, read_zone_file(name))


def _first_rule_change(rule: YearlyRule, file: ZoneFile) -> Change:
    """The first real change that the rule makes after the listed ones."""
    listed_until_s = FIRST_S if file.listed_until_s is None else file.listed_until_s
    offset_s = file.changes[-1][1] if file.changes else file.first_offset_s
    year = year_at(listed_until_s)
    changes = [change for y in range(year - 1, year + 3) for change in rule.changes(max(y, 1))]
    return next(change for change in changes if change[0] > listed_until_s and change[1] != offset_s)


def _segments(
    before_s: int, first_s: int | None, changes: tuple[Change, ...], following: Change | None
) -> list[Segment]:
    """The segments that begin at each change (and at `first_s`); `following` tells how the last of them ends."""
    begins = list(changes) if first_s is None else [(first_s, before_s), *changes]
    ends = [*begins[1:], following or (LAST_S + 2 * DAY_S, begins[-1][1])]
    segments = []
    for (start_s, offset_s), (end_s, after_s) in zip(begins, ends, strict=True):
        segments.append(Segment(start_s, end_s, offset_s, before_s, after_s))
        before_s = offset_s
    return segments
