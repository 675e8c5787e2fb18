"""Calendars as the API knows them: days as text, spans of days as they are kept."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import islice

from node.afterwards import seen_afterwards
from node.clock import Clock
from node.cursors import CALENDARS, decode_cursor, encode_cursor
from node.interface import (
    CalendarDraft,
    CalendarPage,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    NotFound,
    PreconditionFailed,
    Read,
)
from node.proposing import Proposing, expect_ok
from node.reads import Reads
from node.schedule import InvalidSchedule
from node.schedule_instants import known_zone
from node.text_rules import identifier_fault
from statemachine.commands import DeleteCalendar, PutCalendar
from statemachine.limits import CALENDAR_NAME_LENGTH_MAX, CALENDAR_SPANS_MAX, CALENDARS_MAX
from statemachine.policy_records import Calendar

Span = tuple[int, int]


class Calendars:
    """Reads and changes of calendars."""

    def __init__(self, *, reads: Reads, writes: Proposing, clock: Clock) -> None:
        self._reads = reads
        self._writes = writes
        self._clock = clock

    async def calendar(self, name: str, *, consistency: Consistency = "linearizable") -> tuple[Calendar, Read]:
        index = await self._reads.stand_at(consistency)
        with self._reads.open_at(index) as (snapshot, read):
            found = snapshot.calendar(name)
        if found is None:
            raise _no_calendar(name)
        return found, read

    async def calendars(self, *, limit: int, cursor: str | None, consistency: Consistency) -> CalendarPage:
        after = decode_cursor(CALENDARS, cursor)
        index = await self._reads.stand_at(consistency)
        with self._reads.open_at(index) as (snapshot, read):
            items = list(islice(snapshot.calendars(after), limit + 1))
        more = encode_cursor(CALENDARS, items[limit - 1].name) if len(items) > limit else None
        return CalendarPage(items=items[:limit], next_cursor=more, read=read)

    async def put(self, name: str, draft: CalendarDraft, *, expected_version: int | None) -> Calendar:
        calendar = calendar_of(name, draft)
        command = PutCalendar(now_ms=self._clock.wall_ms(), calendar=calendar, expected_version=expected_version)
        reply = await self._writes.propose(command)
        if reply.code == "version_conflict":
            raise PreconditionFailed
        if reply.code == "calendars_limit":
            raise Conflict(f"There are {CALENDARS_MAX} calendars already; delete some first.")
        expect_ok(reply)
        return (await seen_afterwards("The calendar was set", self.calendar(name)))[0]

    async def delete(self, name: str, *, expected_version: int | None) -> None:
        command = DeleteCalendar(now_ms=self._clock.wall_ms(), name=name, expected_version=expected_version)
        reply = await self._writes.propose(command)
        if reply.code == "unknown_calendar":
            raise _no_calendar(name)
        if reply.code == "version_conflict":
            raise PreconditionFailed
        if reply.code == "calendar_in_use":
            raise Conflict(f"Job {reply.detail} names calendar {name}; take it out of its exclude_calendars first.")
        expect_ok(reply)


def calendar_of(name: str, draft: CalendarDraft) -> Calendar:
    """The calendar that the draft means. Raises Invalid, naming every day that cannot be read."""
    errors = [FieldError(path=path, message=message) for path, message in _faults(name, draft)]
    spans = [span for span in map(_span_of, draft.days) if span is not None]
    merged = _merged(spans)
    if len(merged) > CALENDAR_SPANS_MAX:
        errors.append(FieldError(path="days", message=f"are more than {CALENDAR_SPANS_MAX} days or spans of days"))
    if errors:
        raise Invalid(errors=errors)
    return Calendar(name=name, tz=draft.tz, spans=merged)


def _faults(name: str, draft: CalendarDraft) -> list[tuple[str, str]]:
    faults = []
    name_fault = identifier_fault(name, CALENDAR_NAME_LENGTH_MAX)
    if name_fault is not None:
        faults.append(("name", name_fault))
    if draft.tz is not None:
        try:
            known_zone(draft.tz)
        except InvalidSchedule as error:
            faults.append(("tz", f'{error.reason}; write "{error.remedy}" instead'))
    message = "must be a day like 2026-12-25, or two with / between, the earlier first: 2026-12-24/2027-01-01"
    return faults + [(f"days[{place}]", message) for place, text in enumerate(draft.days) if _span_of(text) is None]


def _span_of(text: str) -> Span | None:
    first, slash, last = text.partition("/")
    try:
        days = [datetime.date.fromisoformat(day) for day in (first, last if slash else first)]
    except ValueError:
        return None
    if [day.isoformat() for day in days] != [first, last if slash else first] or days[0] > days[1]:
        return None
    return days[0].toordinal(), days[1].toordinal()


def _merged(spans: Sequence[Span]) -> tuple[Span, ...]:
    """In order, those that touch as one."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _no_calendar(name: str) -> NotFound:
    return NotFound(f"There is no calendar {name}.")
