"""The part of the in-memory scheduler that knows calendars."""

from __future__ import annotations

import msgspec

from node.calendars import calendar_of
from node.interface import (
    LIST_LIMIT_DEFAULT,
    Calendar,
    CalendarDraft,
    CalendarPage,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    Job,
    NotFound,
    PreconditionFailed,
    Read,
)
from tests.httpapi.twin_checks import cut, decode_cursor


class TwinCalendars:
    """Calendars, on the jobs and the time of the twin that this is a part of. Its jobs run on their days all the
    same."""

    now_ms: int
    jobs_by_id: dict[str, Job]
    calendars_by_name: dict[str, Calendar]

    async def calendar(self, name: str, *, consistency: Consistency = "linearizable") -> tuple[Calendar, Read]:
        self._check_alive()
        if name not in self.calendars_by_name:
            raise NotFound(f"There is no calendar {name}.")
        return self.calendars_by_name[name], self._read(consistency)

    async def calendars(
        self,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> CalendarPage:
        self._check_alive()
        after = decode_cursor(cursor)
        shown, more = cut([name for name in sorted(self.calendars_by_name) if after is None or name > after], limit)
        items = [self.calendars_by_name[name] for name in shown]
        return CalendarPage(items=items, next_cursor=more, read=self._read(consistency))

    async def put_calendar(self, name: str, draft: CalendarDraft, *, expected_version: int | None = None) -> Calendar:
        self._check_alive()
        calendar = calendar_of(name, draft)
        before = self.calendars_by_name.get(name)
        version = 0 if before is None else before.version
        if expected_version not in (None, version):
            raise PreconditionFailed
        made = msgspec.structs.replace(calendar, version=version + 1, updated_ms=self.now_ms)
        self.calendars_by_name[name] = made
        return made

    async def delete_calendar(self, name: str, *, expected_version: int | None = None) -> None:
        calendar, _ = await self.calendar(name)
        if expected_version not in (None, calendar.version):
            raise PreconditionFailed
        if any(name in job.exclude_calendars for job in self.jobs_by_id.values() if job.deleted_ms is None):
            raise Conflict(f"A job names calendar {name}.")
        del self.calendars_by_name[name]

    def _check_calendars(self, job: Job) -> None:
        for name in job.exclude_calendars:
            if name not in self.calendars_by_name:
                message = f"there is no calendar {name}"
                raise Invalid(errors=[FieldError(path="exclude_calendars", message=message)])

    def _check_alive(self) -> None:
        raise NotImplementedError

    def _read(self, consistency: Consistency) -> Read:
        raise NotImplementedError
