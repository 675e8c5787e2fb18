"""The five fields of a cron expression: what each may hold, and how one field's text is read.

A text comes here only after its length and alphabet were checked, and no library sees it before it passed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from node.schedule_errors import quoted

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_VALUE = r"\d+|[a-z]+"
_SPAN = re.compile(rf"(\*|{_VALUE})(?:-({_VALUE}))?(?:/(\d+))?", re.ASCII | re.IGNORECASE)
_HASHED = re.compile(rf"H(?:\(({_VALUE})-({_VALUE})\))?(?:/(\d+))?", re.ASCII | re.IGNORECASE)
_LAST = re.compile(r"L(?:-(\d+)|(W))?", re.ASCII | re.IGNORECASE)
_NEAREST = re.compile(r"(\d+)W", re.ASCII | re.IGNORECASE)
_NTH = re.compile(rf"({_VALUE})#(\d+)", re.ASCII | re.IGNORECASE)
_LAST_WEEKDAY = re.compile(r"(\d+|[a-z]{3})L", re.ASCII | re.IGNORECASE)
_RANDOM = re.compile(r"R(?:\(.*\))?(?:/.*)?", re.IGNORECASE)


class Refused(Exception):
    """Why a text is outside the grammar; `part` is the cron field. The gate adds what to write instead."""

    def __init__(self, reason: str, part: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason if part is None else f"{part}: {reason}"
        self.part = part


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldKind:
    """What one of the five fields may hold."""

    name: str
    first: int
    last: int
    names: Mapping[str, int] = field(default_factory=dict)
    hashed_last: int
    """The last value that `H` alone may take: a monthly job must find its day in February."""


MINUTE = FieldKind(name="minute", first=0, last=59, hashed_last=59)
HOUR = FieldKind(name="hour", first=0, last=23, hashed_last=23)
DAY = FieldKind(name="day-of-month", first=1, last=31, hashed_last=28)
MONTH = FieldKind(name="month", first=1, last=12, hashed_last=12, names={n: i + 1 for i, n in enumerate(MONTHS)})
WEEKDAY = FieldKind(name="day-of-week", first=0, last=7, hashed_last=6, names={n: i for i, n in enumerate(WEEKDAYS)})
KINDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class Span(NamedTuple):
    """The values first, first + step, … up to last."""

    first: int
    last: int
    step: int = 1


class Hashed(NamedTuple):
    """A span whose first value is drawn from the job's id: one of `first`…`start_last`."""

    first: int
    start_last: int
    last: int
    step: int | None


class DayPick(NamedTuple):
    """A day that depends on the month: see the functions of schedule_dates.py."""

    kind: Literal["last", "last_weekday", "nearest", "nth", "last_of"]
    day: int = 0
    nth: int = 0


Item = Span | Hashed | DayPick


class Field(NamedTuple):
    star: bool
    """The text begins with `*` or is `?`: decides between AND and OR of the day fields, and wildcard or fixed-time."""
    items: tuple[Item, ...]


def parse_field(kind: FieldKind, text: str) -> Field:
    """Reads one of the five fields. Raises Refused."""
    if text == "?" and kind in (DAY, WEEKDAY):
        return Field(True, (Span(kind.first, kind.last),))
    return Field(text.startswith("*"), tuple(parse_item(kind, item) for item in text.split(",")))


def parse_item(kind: FieldKind, text: str) -> Item:
    """Reads one item of a field's list. Raises Refused."""
    pick = _parse_pick(kind, text)
    if pick is not None:
        return pick
    hashed = _HASHED.fullmatch(text)
    if hashed is not None:
        return _parse_hashed(kind, text, *hashed.groups())
    span = _SPAN.fullmatch(text)
    if span is None or (span[1] == "*" and span[2] is not None):
        raise Refused(_why_unreadable(text), kind.name)
    return _parse_span(kind, text, *span.groups())


def value(kind: FieldKind, text: str) -> int:
    """A number or a three-letter name of this field. Raises Refused."""
    if not text.isdigit():
        if text.lower() not in kind.names:
            raise Refused(_why_no_name(kind, text), kind.name)
        return kind.names[text.lower()]
    significant = text.lstrip("0") or "0"
    if len(significant) > 2 or not kind.first <= int(significant) <= kind.last:
        raise Refused(f"{quoted(text)} is not in {kind.first}-{kind.last}", kind.name)
    return int(significant)


def step(kind: FieldKind, text: str | None, span: int) -> int:
    """A step that reaches at least one more value of its range. Raises Refused."""
    if text is None:
        return 1
    significant = text.lstrip("0")
    if not significant:
        raise Refused("a step of 0 stands still", kind.name)
    if len(significant) > 2 or int(significant) > span:
        raise Refused(f"a step of {quoted(text)} leaves its range, whose last and first are {span} apart", kind.name)
    return int(significant)


def _parse_span(kind: FieldKind, text: str, first_text: str, last_text: str | None, step_text: str | None) -> Span:
    if first_text == "*":
        return Span(kind.first, kind.last, step(kind, step_text, kind.last - kind.first))
    first = value(kind, first_text)
    if last_text is None:
        last = first if step_text is None else kind.last
    else:
        last = _range_end(kind, text, first, last_text)
    return Span(first, last, step(kind, step_text, last - first))


def _range_end(kind: FieldKind, text: str, first: int, last_text: str) -> int:
    last = value(kind, last_text)
    if kind is WEEKDAY and last_text.lower() == "sun" and first > 0:
        return 7  # the week's end, as in fri-sun
    if last < first:
        raise Refused(f"the range {quoted(text)} runs backwards", kind.name)
    return last


def _parse_hashed(
    kind: FieldKind, text: str, first_text: str | None, last_text: str | None, step_text: str | None
) -> Hashed:
    if first_text is not None and last_text is not None:
        first = value(kind, first_text)
        start_last = last = _range_end(kind, text, first, last_text)
    else:
        first, start_last, last = kind.first, kind.hashed_last, kind.last if kind is DAY else kind.hashed_last
    if step_text is None:
        return Hashed(first, start_last, start_last, None)
    width = step(kind, step_text, last - first)
    return Hashed(first, min(first + width - 1, start_last), last, width)


def _parse_pick(kind: FieldKind, text: str) -> DayPick | None:
    if kind is DAY:
        return _parse_month_pick(text)
    if kind is WEEKDAY:
        return _parse_week_pick(text)
    return None


def _parse_month_pick(text: str) -> DayPick | None:
    last = _LAST.fullmatch(text)
    if last is not None:
        if last[2]:
            return DayPick("last_weekday")
        back = last[1] or "0"
        if len(back.lstrip("0")) > 2 or int(back) > DAY.last - 1:
            raise Refused(f"{quoted(text)}: no month has so many days", DAY.name)
        return DayPick("last", int(back))
    nearest = _NEAREST.fullmatch(text)
    return None if nearest is None else DayPick("nearest", value(DAY, nearest[1]))


def _parse_week_pick(text: str) -> DayPick | None:
    nth = _NTH.fullmatch(text)
    if nth is not None:
        if nth[2].lstrip("0") not in ("1", "2", "3", "4", "5"):
            raise Refused(f"{quoted(text)}: a month has a weekday at most five times, counted from 1", WEEKDAY.name)
        return DayPick("nth", value(WEEKDAY, nth[1]) % 7, int(nth[2]))
    last = _LAST_WEEKDAY.fullmatch(text)
    return None if last is None else DayPick("last_of", value(WEEKDAY, last[1]) % 7)


def _why_no_name(kind: FieldKind, text: str) -> str:
    if _RANDOM.fullmatch(text):
        return f"{quoted(text)} is drawn anew at each reading, so every node would have its own time; H is stable"
    if not kind.names:
        return f"{quoted(text)} is not a number"
    if text.upper() == "L":
        return '"L" alone says no day; the last Friday of a month is 5L'
    return f"{quoted(text)} is not one of {' '.join(kind.names)} or {kind.first}-{kind.last}"


def _why_unreadable(text: str) -> str:
    if not text:
        return "a list has an empty item"
    if _RANDOM.fullmatch(text) or "~" in text:
        return f"{quoted(text)} is drawn anew at each reading, so every node would have its own time; H is stable"
    if text == "?":
        return '"?" has a meaning only as the whole of a day field'
    return f"{quoted(text)} is not a value, a range a-b, a list or a step /n"
