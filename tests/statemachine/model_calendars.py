"""The model's calendars."""

from __future__ import annotations

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.policy_records import Calendar
from tests.statemachine.model_state import ModelState


class ModelCalendars(ModelState):
    """Handlers named after the tags of their commands."""

    def __init__(self) -> None:
        super().__init__()
        self.calendars: dict[str, Calendar] = {}

    def put_calendar(self, command: c.PutCalendar) -> c.Reply:
        name = command.calendar.name
        version = self.calendars[name].version if name in self.calendars else 0
        if command.expected_version not in (None, version):
            return c.CalendarReply(code="version_conflict", version=version)
        self.calendars[name] = replace(command.calendar, version=version + 1, updated_ms=self.now_ms)
        return c.CalendarReply(version=version + 1)

    def delete_calendar(self, command: c.DeleteCalendar) -> c.Reply:
        if command.name not in self.calendars:
            return c.CalendarReply(code="unknown_calendar")
        version = self.calendars[command.name].version
        if command.expected_version not in (None, version):
            return c.CalendarReply(code="version_conflict", version=version)
        users = [job.job_id for job in self.jobs.values() if command.name in job.exclude_calendars]
        if users:
            return c.CalendarReply(code="calendar_in_use", detail=min(users))
        del self.calendars[command.name]
        return c.CalendarReply(version=version)
