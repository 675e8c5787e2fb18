"""The records of what decides about ticks beside a job's definition: calendars and backfills."""

from __future__ import annotations

from typing import Literal

from statemachine.records import OverlapPolicy, Record

BackfillState = Literal["running", "completed", "cancelled"]


class Backfill(Record, frozen=True, kw_only=True):
    """A job is run for its ticks of a range that is past."""

    backfill_id: str
    job_id: str
    team: str
    from_ms: int
    to_ms: int
    """Its ticks are from `from_ms` to before `to_ms`."""
    args: bytes | None = None
    """None: the job's."""
    overlap_policy: OverlapPolicy | None = None
    next_ms: int | None
    """Where it goes on; None: all runs are made."""
    made: int = 0
    state: BackfillState = "running"
    reason: str | None = None
    created_ms: int
    finished_ms: int | None = None


class Calendar(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days on which the jobs that name it do not run."""

    name: str
    tz: str | None = None
    """Whose days they are; None: those of each job's own zone."""
    spans: tuple[tuple[int, int], ...] = ()
    """First and last day of each (1 is 1 January of the year 1), in order, without overlap."""
    version: int = 0
    updated_ms: int = 0
