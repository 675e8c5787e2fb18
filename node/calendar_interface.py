"""Calendars as users of the scheduler see them: named days on which jobs do not run. Users take them from
interface.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from node.read_values import LIST_LIMIT_DEFAULT, Consistency, Read
from statemachine.policy_records import Calendar


class CalendarDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of PUT /v1/calendars/{name}."""

    days: list[str]
    """'2026-12-25', or '2026-12-24/2027-01-01' with both ends."""
    tz: str | None = None
    """Whose days they are; absent: those of each job's own zone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CalendarPage:
    items: Sequence[Calendar]
    next_cursor: str | None
    read: Read


class CalendarScheduler(Protocol):
    """The part of a scheduler that knows calendars."""

    async def calendar(self, name: str, *, consistency: Consistency = "linearizable") -> tuple[Calendar, Read]: ...

    async def calendars(
        self,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> CalendarPage: ...

    async def put_calendar(self, name: str, draft: CalendarDraft, *, expected_version: int | None = None) -> Calendar:
        """Set the days; `expected_version` 0: only if there is none yet. Counts for every tick that is not fired."""
        ...

    async def delete_calendar(self, name: str, *, expected_version: int | None = None) -> None:
        """Conflict while a job names it."""
        ...
