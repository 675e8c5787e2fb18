"""Instants as users write and read them: RFC 3339 text, and the names of time zones."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from node.schedule_errors import InvalidSchedule, quoted
from node.zones import FIRST_S, LAST_S, Zone, zone
from node.zones_file import DAY_S, zone_names

INSTANT_CHARACTERS_MAX = 64
_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))?", re.ASCII
)
_DATE_AND_MORE = re.compile(
    r"\D*(\d{4})(?:\D(\d{1,2})\D(\d{1,2})|(\d\d)(\d\d))(?!\d)"
    r"(?:\D+(\d{1,2}):?(\d\d)(?::?(\d\d))?(?:[.,]\d*)?\s*(?:(Z|UTC|GMT)|([+-])(\d\d):?(\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNIX = re.compile(r"(\d{9,10})(?:\.\d*|\d{3})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)
_FIRST_TEXT_S = int(datetime.min.replace(tzinfo=UTC).timestamp())
LAST_TEXT_S = int(datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp())
EXAMPLE_INSTANT = "2030-01-31T09:00:00Z"
_ABBREVIATIONS = {
    "est": "America/New_York",
    "edt": "America/New_York",
    "cst": "America/Chicago",
    "cdt": "America/Chicago",
    "mst": "America/Denver",
    "mdt": "America/Denver",
    "pst": "America/Los_Angeles",
    "pdt": "America/Los_Angeles",
    "akst": "America/Anchorage",
    "bst": "Europe/London",
    "uk": "Europe/London",
    "cest": "Europe/Berlin",
    "mez": "Europe/Berlin",
    "mesz": "Europe/Berlin",
    "eest": "Europe/Athens",
    "msk": "Europe/Moscow",
    "sast": "Africa/Johannesburg",
    "china": "Asia/Shanghai",
    "hkt": "Asia/Hong_Kong",
    "kst": "Asia/Seoul",
    "sgt": "Asia/Singapore",
    "india": "Asia/Kolkata",
    "ist": "Asia/Kolkata",
    "jst": "Asia/Tokyo",
    "aest": "Australia/Sydney",
    "aedt": "Australia/Sydney",
    "nzst": "Pacific/Auckland",
    "nzdt": "Pacific/Auckland",
}
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])\s*(\d{1,2})(?::?(\d\d))?", re.ASCII | re.IGNORECASE)
_OFFSETS_BESIDE_HOURS = {
    -570: "Pacific/Marquesas",
    -210: "America/St_Johns",
    210: "Asia/Tehran",
    270: "Asia/Kabul",
    330: "Asia/Kolkata",
    345: "Asia/Kathmandu",
    390: "Asia/Yangon",
    525: "Australia/Eucla",
    570: "Australia/Darwin",
    630: "Australia/Lord_Howe",
    765: "Pacific/Chatham",
}


def parse_run_at(text: str, tz: str, *, field: str = "run_at") -> int:
    """The instant that an RFC 3339 text means, in unix milliseconds; without an offset it is a wall time in `tz`.

    A wall time that a fold shows twice is its first pass; one that a gap removed is the first instant after the gap, as
    for a fixed-time job. Digits below a millisecond are dropped; a leap second (23:59:60) is the second after it.
    Raises InvalidSchedule for `field` (or for "tz")."""
    local_zone = known_zone(tz)
    found = _INSTANT.fullmatch(text) if len(text) <= INSTANT_CHARACTERS_MAX else None
    if found is None:
        raise _unreadable(
            text, field, "is not an RFC 3339 time such as 2030-01-31T09:00:00Z, 2030-01-31T09:00:00+02:00"
        )
    year, month, day, hour, minute, second, fraction, _, sign, offset_hours, offset_minutes = found.groups()
    try:
        leap_s = 1 if second == "60" else 0
        wall = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second) - leap_s, tzinfo=UTC)
        offset = timedelta(hours=_below(24, offset_hours), minutes=_below(60, offset_minutes))
    except ValueError:
        raise _unreadable(text, field, "names a date or a time of day that does not exist") from None
    wall_s = (wall - _EPOCH) // timedelta(seconds=1) + leap_s
    if found[8] is None and sign is None:
        at_s = instant_of(local_zone, wall_s)
    else:
        at_s = wall_s - (-1 if sign == "-" else 1) * (offset // timedelta(seconds=1))
    if not _FIRST_TEXT_S <= at_s <= LAST_TEXT_S:
        raise _unreadable(text, field, "is outside of the years 1 to 9999 in UTC")
    if leap_s and (at_s % DAY_S or (_EPOCH + timedelta(seconds=at_s)).day != 1):
        raise _unreadable(text, field, "has a second 60, which only the last minute of a month in UTC can have")
    return at_s * 1000 + int((fraction or "0").ljust(3, "0")[:3])


def instant_of(local_zone: Zone, wall_s: int) -> int:
    """The first instant at which the zone's clock shows this wall second, or the first after the gap that took it."""
    at_s = max(wall_s - 2 * DAY_S, FIRST_S)
    while True:
        segment = local_zone.segment_at(at_s)
        if wall_s < segment.end_s + segment.offset_s or segment.end_s > LAST_S:
            return max(wall_s - segment.offset_s, segment.start_s)
        at_s = segment.end_s


def instant_text(at_ms: int) -> str:
    """RFC 3339 in UTC; with milliseconds only when there are any."""
    at_s, milliseconds = divmod(at_ms, 1000)
    text = (_NAIVE_EPOCH + timedelta(seconds=at_s)).isoformat()
    return f"{text}.{milliseconds:03}Z" if milliseconds else f"{text}Z"


def known_zone(name: str) -> Zone:
    """The zone of this IANA name. Raises InvalidSchedule for "tz" when it is missing or unknown."""
    found = zone(name)
    if found is not None:
        return found
    reason = f"{quoted(name)} is not a time zone of the IANA database" if name else "a time zone is needed"
    raise InvalidSchedule(field="tz", reason=reason, remedy=_like(name))


def _like(name: str) -> str:
    """The zone that was probably meant: another case, only its city, an abbreviation, or one wrong letter."""
    offset = _OFFSET.fullmatch(name[:INSTANT_CHARACTERS_MAX].strip().replace("\N{MINUS SIGN}", "-"))
    if offset is not None:
        return _with_offset(int(f"{offset[1]}1") * (60 * int(offset[2]) + int(offset[3] or 0)))
    squashed = _squashed(name[:INSTANT_CHARACTERS_MAX])
    if squashed in _ABBREVIATIONS:
        return _ABBREVIATIONS[squashed]
    spellings = _spellings()
    for form in _forms(squashed):
        if form in spellings:
            return spellings[form]
    return "UTC"


def _with_offset(minutes: int) -> str:
    """A zone that is so far ahead of UTC. The sign in the names of Etc/ is the other way round: Etc/GMT-2 is UTC+2."""
    hours, rest = divmod(minutes, 60)
    if rest == 0 and hours and -12 <= hours <= 14:
        return f"Etc/GMT{-hours:+}"
    return _OFFSETS_BESIDE_HOURS.get(minutes, "UTC")


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    """Every way of writing a zone that `_like` understands; whole names before cities, exact before nearly right."""
    names = sorted(zone_names(), key=lambda name: (name.count("/") != 1, name))
    whole = [(_squashed(name), name) for name in names]
    cities = [(_squashed(name.rpartition("/")[2]), name) for name in names]
    found: dict[str, str] = {}
    for text, name in whole + cities:
        found.setdefault(text, name)
    for text, name in whole + cities:
        for form in _forms(text):
            found.setdefault(form, name)
    return found


def _squashed(text: str) -> str:
    kept = "".join(c for c in text.lower() if c.isalnum() or c in "+-")
    return re.sub("(?<=[a-z])[+-](?=[a-z])", "", kept)


def _forms(text: str) -> list[str]:
    """The text and, when it is long enough to be told apart, the text without any one of its letters.

    Never without a digit or a sign: another number is another zone."""
    without = [text[:i] + text[i + 1 :] for i, c in enumerate(text) if c.isalpha()] if len(text) > 4 else []
    return [text, *without]


def _below(limit: int, text: str | None) -> int:
    number = int(text or 0)
    if number >= limit:
        raise ValueError(text)
    return number


def _unreadable(text: str, field: str, why: str) -> InvalidSchedule:
    return InvalidSchedule(field=field, reason=f"{quoted(text)} {why}", remedy=_instant_remedy(text))


def _instant_remedy(text: str) -> str:
    """The same instant in a spelling that is read; where that cannot be told, at least the same date."""
    unix = _UNIX.fullmatch(text.strip())
    if unix is not None:
        return instant_text(int(unix[1]) * 1000)
    found = _DATE_AND_MORE.match(text[:INSTANT_CHARACTERS_MAX].replace("\N{MINUS SIGN}", "-"))
    if found is None:
        return EXAMPLE_INSTANT
    date = found.group(1, 4, 5) if found[2] is None else found.group(1, 2, 3)
    year, month, day, hour, minute, second = (int(part or 0) for part in date + found.group(6, 7, 8))
    year, month = min(max(year, 1970), 9000), min(max(month, 1), 12)
    day = min(max(day, 1), monthrange(year, month)[1])
    wall = datetime(year, month, day, min(hour, 23), min(minute, 59), min(second, 59), tzinfo=UTC)
    if hour == 24:  # the end of a day is the beginning of the next
        wall = wall.replace(hour=0) + timedelta(days=1)
    return wall.strftime("%Y-%m-%dT%H:%M:%S") + _offset_remedy(*found.group(9, 10, 11, 12))


def _offset_remedy(utc: str | None, sign: str | None, hours: str | None, minutes: str | None) -> str:
    if utc is not None:
        return "Z"
    known = sign is not None and int(hours or 0) < 24 and int(minutes or 0) < 60
    return f"{sign}{hours}:{minutes or '00'}" if known else ""
