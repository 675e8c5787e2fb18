"""The commands about calendars (calendars.py)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from statemachine.command_types import Command, Count, Reply
from statemachine.limits import CALENDAR_NAME_LENGTH_MAX
from statemachine.policy_records import Calendar


class PutCalendar(Command, frozen=True, kw_only=True, tag="put_calendar"):
    """Set the days of a calendar. `expected_version` None: whatever it was; 0: there is none yet; else a
    compare-and-set. The machine itself counts the version on and stamps it."""

    calendar: Calendar
    expected_version: Count | None = None


class DeleteCalendar(Command, frozen=True, kw_only=True, tag="delete_calendar"):
    """Take a calendar away. Refused (`calendar_in_use`) while a job names it."""

    name: Annotated[str, Meta(min_length=1, max_length=CALENDAR_NAME_LENGTH_MAX)]
    expected_version: Count | None = None


class CalendarReply(Reply, frozen=True, kw_only=True, tag="calendar"):
    """code: ok | version_conflict | unknown_calendar | calendar_in_use (detail: the id of a job) | calendars_limit."""

    version: int | None = None
