"""PutCalendar and DeleteCalendar: named days on which jobs do not run. What they mean for a tick is computed before the
log, by whoever fires it; here they are kept, and kept from going while a job names them."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from statemachine.codec import decode_calendar, encode
from statemachine.commands import CalendarReply, DeleteCalendar, PutCalendar
from statemachine.keys import SEPARATOR
from statemachine.limits import (
    CALENDAR_NAME_LENGTH_MAX,
    CALENDAR_SPANS_MAX,
    CALENDARS_MAX,
    DAY_MAX,
    WORD_LENGTH_MAX,
)
from statemachine.policy_records import Calendar
from statemachine.records import Job
from statemachine.work import Work


def put_calendar(work: Work, command: PutCalendar) -> CalendarReply:
    """Set the days of a calendar. It counts for every tick that is not fired yet."""
    name = command.calendar.name
    if not _is_wellformed(command.calendar):
        return CalendarReply(code="malformed", detail="the calendar is out of its limits")
    before = _calendar(work, name)
    version = 0 if before is None else before.version
    if command.expected_version not in (None, version):
        return CalendarReply(code="version_conflict", version=version)
    if before is None and work.transaction.stat(work.tables.calendars)["entries"] >= CALENDARS_MAX:
        return CalendarReply(code="calendars_limit")
    calendar = msgspec.structs.replace(command.calendar, version=version + 1, updated_ms=work.now_ms)
    work.transaction.put(name.encode(), encode(calendar), db=work.tables.calendars)
    return CalendarReply(version=calendar.version)


def delete_calendar(work: Work, command: DeleteCalendar) -> CalendarReply:
    """Take a calendar away that no job names."""
    before = _calendar(work, command.name)
    if before is None:
        return CalendarReply(code="unknown_calendar")
    if command.expected_version not in (None, before.version):
        return CalendarReply(code="version_conflict", version=before.version)
    job_id = _first_user(work, command.name)
    if job_id is not None:
        return CalendarReply(code="calendar_in_use", detail=job_id)
    work.transaction.delete(command.name.encode(), db=work.tables.calendars)
    return CalendarReply(version=before.version)


def unknown_calendar(work: Work, job: Job) -> str | None:
    """The first calendar that the job names and that does not exist."""
    return next((name for name in job.exclude_calendars if _calendar(work, name) is None), None)


def enlist(work: Work, job: Job) -> None:
    """A job names its calendars from now on."""
    for name in job.exclude_calendars:
        work.transaction.put(_use_key(name, job.job_id), b"", db=work.tables.calendar_jobs)


def discharge(work: Work, job: Job) -> None:
    """A definition that named them is gone."""
    for name in job.exclude_calendars:
        work.transaction.delete(_use_key(name, job.job_id), db=work.tables.calendar_jobs)


def _calendar(work: Work, name: str) -> Calendar | None:
    value = work.transaction.get(name.encode(), db=work.tables.calendars)
    return None if value is None else decode_calendar(value)


def _first_user(work: Work, name: str) -> str | None:
    prefix = _use_key(name, "")
    cursor = work.transaction.cursor(db=work.tables.calendar_jobs)
    if not cursor.set_range(prefix) or not cursor.key().startswith(prefix):
        return None
    return str(cursor.key()[len(prefix) :].decode())


def _use_key(name: str, job_id: str) -> bytes:
    return name.encode() + SEPARATOR + job_id.encode()


def _is_wellformed(calendar: Calendar) -> bool:
    return (
        1 <= len(calendar.name) <= CALENDAR_NAME_LENGTH_MAX
        and "\0" not in calendar.name
        and len(calendar.tz or "") <= WORD_LENGTH_MAX
        and len(calendar.spans) <= CALENDAR_SPANS_MAX
        and all(1 <= first <= last <= DAY_MAX for first, last in calendar.spans)
        and all(last < first for (_, last), (first, _) in pairwise(calendar.spans))
    )
