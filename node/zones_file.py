"""Reads a zone of the pinned tz database: its changes of offset, and the rule that goes on after the last of them.

`zoneinfo` reads the same files but shows only the offset at one instant; the search needs the instants of the changes.
Formats: RFC 8536 (TZif, 64-bit block) and the POSIX TZ string of its footer.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib.resources import files

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
DAY_S = 86_400
_HEADER = struct.Struct(">4sc15x6l")
_TYPE = struct.Struct(">lbb")
_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"[+-]?\d+(?::\d+){0,2}"
_POSIX = re.compile(rf"{_NAME}({_TIME})(?:{_NAME}({_TIME})?,([^,]+),([^,]+))?", re.ASCII)
_DAY = re.compile(rf"(?:M(\d+)\.(\d)\.(\d)|J(\d+)|(\d+))(?:/({_TIME}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class DayRule:
    """One day of a year and a wall time on it (seconds; may be negative or beyond 24 h), as POSIX TZ writes it."""

    month: int = 0
    week: int = 0
    weekday: int = 0
    """`Mm.w.d`: Sunday = 0, week 5 = the last. month 0: `day` counts instead."""
    day: int = 0
    """Days after 1 January; when `leap_counts` is False, 29 February is never counted (`Jn`)."""
    leap_counts: bool = True
    time_s: int = 7200

    def wall_s(self, year: int) -> int:
        """The wall time of the change in that year, in seconds since 1970-01-01T00:00 of the same wall clock."""
        return self._day_number(year) * DAY_S + self.time_s

    def _day_number(self, year: int) -> int:
        first = date(year, self.month or 1, 1).toordinal() - EPOCH_ORDINAL
        if not self.month:
            skips_leap_day = not self.leap_counts and self.day >= 59 and _is_leap(year)
            return first + self.day + skips_leap_day
        day = first + (self.weekday - _weekday(first)) % 7 + 7 * (self.week - 1)
        return day if day < _next_month(year, self.month) else day - 7


@dataclass(frozen=True, kw_only=True, slots=True)
class YearlyRule:
    """Two changes each year for ever. Which of the two offsets is called daylight saving does not matter here."""

    standard_s: int
    other_s: int
    to_other: DayRule
    to_standard: DayRule

    def changes(self, year: int) -> tuple[tuple[int, int], ...]:
        """The year's changes in order: (unix seconds, offset after it in seconds)."""
        starts = self.to_other.wall_s(year) - self.standard_s
        ends = self.to_standard.wall_s(year) - self.other_s
        return tuple(sorted([(starts, self.other_s), (ends, self.standard_s)]))


@dataclass(frozen=True, kw_only=True, slots=True)
class ZoneFile:
    first_offset_s: int
    changes: tuple[tuple[int, int], ...]
    """(unix seconds, offset after it), strictly increasing; only changes of the offset, not of a name."""
    listed_until_s: int | None
    """The last entry of the file, even if it only renames the offset: the rule holds after it."""
    rule: YearlyRule | None


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every zone of the pinned database, spelled as IANA spells it."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


def read_zone_file(name: str) -> ZoneFile:
    """Reads a zone of `zone_names()`. A broken installation raises OSError, ValueError or struct.error."""
    content = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return parse_zone_file(content)


def parse_zone_file(content: bytes) -> ZoneFile:
    """Reads the 64-bit block and the footer of a TZif file."""
    start = _block_bytes(content, 0, instant_bytes=4)
    _, _, _, _, leaps, changes, types, _ = _HEADER.unpack_from(content, start)
    if leaps:
        raise ValueError("zone files with leap seconds are not unix time")
    at = start + _HEADER.size
    instants = struct.unpack_from(f">{changes}q", content, at)
    kinds = content[at + 8 * changes : at + 9 * changes]
    at += 9 * changes
    offsets = [_TYPE.unpack_from(content, at + _TYPE.size * kind)[0] for kind in range(types)]
    footer = content[start + _block_bytes(content, start, instant_bytes=8) :].decode("ascii").strip()
    moves = _without_renames(offsets[0], zip(instants, (offsets[kind] for kind in kinds), strict=True))
    return ZoneFile(
        first_offset_s=offsets[0],
        changes=moves,
        listed_until_s=instants[-1] if instants else None,
        rule=parse_posix_rule(footer),
    )


def parse_posix_rule(text: str) -> YearlyRule | None:
    """The rule of a POSIX TZ string such as `EST5EDT,M3.2.0,M11.1.0`; None when the offset never changes again."""
    if not text:
        return None
    found = _POSIX.fullmatch(text)
    if found is None:
        raise ValueError(f"not a POSIX time zone: {text!r}")
    standard, other, to_other, to_standard = found.groups()
    if to_other is None:
        return None
    standard_s = -_seconds(standard)
    rule = YearlyRule(
        standard_s=standard_s,
        other_s=standard_s + 3600 if other is None else -_seconds(other),
        to_other=_day_rule(to_other),
        to_standard=_day_rule(to_standard),
    )
    # "EST5EDT,0/0,J365/25" is how a summer time that never ends is written: its changes fall on one instant.
    return rule if rule.changes(2001)[-1][0] < rule.changes(2002)[0][0] else None


def _block_bytes(content: bytes, at: int, *, instant_bytes: int) -> int:
    """The length of one header and its data block."""
    magic, _, utc_flags, wall_flags, leaps, changes, types, letters = _HEADER.unpack_from(content, at)
    if magic != b"TZif":
        raise ValueError("not a TZif file")
    data = changes * (instant_bytes + 1) + types * _TYPE.size + letters + leaps * (instant_bytes + 4)
    return int(_HEADER.size + data + utc_flags + wall_flags)


def _without_renames(offset_s: int, changes: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    moves: list[tuple[int, int]] = []
    for instant_s, after_s in changes:
        if after_s != offset_s:
            moves.append((instant_s, after_s))
        offset_s = after_s
    return tuple(moves)


def _day_rule(text: str) -> DayRule:
    found = _DAY.fullmatch(text)
    if found is None:
        raise ValueError(f"not a day of a POSIX time zone: {text!r}")
    month, week, weekday, julian, ordinal, time = found.groups()
    time_s = 7200 if time is None else _seconds(time)
    if month is not None:
        return DayRule(month=int(month), week=int(week), weekday=int(weekday), time_s=time_s)
    if julian is not None:
        return DayRule(day=int(julian) - 1, leap_counts=False, time_s=time_s)
    return DayRule(day=int(ordinal), time_s=time_s)


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))


def _weekday(day_number: int) -> int:
    return (day_number + 4) % 7  # 1970-01-01 was a Thursday; Sunday = 0


def _next_month(year: int, month: int) -> int:
    return date(year + month // 12, month % 12 + 1, 1).toordinal() - EPOCH_ORDINAL


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
