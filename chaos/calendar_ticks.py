"""When a job of the workload ticks, computed apart from the product: every minute between two instants is asked whether
its wall clock matches, by zoneinfo. For the expressions that the workload uses and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE_MS = 60_000
CHANGE_MINUTES_MAX = 24 * 60
"""No zone moves its clocks by more."""
_EVERY = re.compile(r"@every (\d+)s")
_NICKNAMES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *"}


def ticks_of(expressions: Sequence[str], tz: str, from_ms: int, until_ms: int) -> set[int]:
    """The ticks from one instant to another, both included, in unix milliseconds."""
    return {tick for expression in expressions for tick in _ticks(expression, ZoneInfo(tz), from_ms, until_ms)}


def period_ms_of(expressions: Sequence[str]) -> int | None:
    """The period of a job that has one and nothing else."""
    found = _EVERY.fullmatch(expressions[0]) if len(expressions) == 1 else None
    return None if found is None else int(found[1]) * 1000


def _ticks(expression: str, zone: ZoneInfo, from_ms: int, until_ms: int) -> Iterator[int]:
    period_ms = period_ms_of([expression])
    if period_ms is not None:
        yield from range(-(-from_ms // period_ms) * period_ms, until_ms + 1, period_ms)
        return
    fields = _NICKNAMES.get(expression, expression).split()
    wildcard = fields[0].startswith("*") or fields[1].startswith("*")
    for at_ms in range(-(-from_ms // MINUTE_MS) * MINUTE_MS, until_ms + 1, MINUTE_MS):
        wall = _wall(at_ms, zone)
        matches = _matches(fields, wall)
        if wildcard:
            due = matches
        else:
            due = (matches and not _was_shown_before(at_ms, zone)) or _follows_a_gap(fields, at_ms, zone)
        if due:
            yield at_ms


def _wall(at_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


def _naive(at_ms: int, zone: ZoneInfo) -> datetime:
    return _wall(at_ms, zone).replace(tzinfo=None, fold=0)


def _was_shown_before(at_ms: int, zone: ZoneInfo) -> bool:
    """The second pass of a repeated hour."""
    return _wall(at_ms, zone).fold == 1


def _follows_a_gap(fields: Sequence[str], at_ms: int, zone: ZoneInfo) -> bool:
    """The clocks have just gone forward, over a minute that matches."""
    minute, shown = timedelta(minutes=1), _naive(at_ms, zone)
    missing = _naive(at_ms - MINUTE_MS, zone) + minute
    for _ in range(CHANGE_MINUTES_MAX):
        if missing >= shown:
            return False
        if _matches(fields, missing):
            return True
        missing += minute
    return False


def _matches(fields: Sequence[str], wall: datetime) -> bool:
    """All fields at once: the workload never restricts both the day of the month and that of the week."""
    values = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
    return all(_has(field, value) for field, value in zip(fields, values, strict=True))


def _has(field: str, value: int) -> bool:
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    return field == "*" or str(value) in field.split(",")
