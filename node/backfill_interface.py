"""Backfills as users of the scheduler see them. They are taken from interface.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from node.read_values import LIST_LIMIT_DEFAULT, Consistency, Read
from statemachine.policy_records import Backfill
from statemachine.records import OverlapPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class BackfillPlan:
    """What a backfill would run: how many ticks, the first and the last."""

    count: int
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BackfillView:
    """A backfill, and how many of its runs are not over."""

    backfill: Backfill
    outstanding: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BackfillPage:
    items: Sequence[BackfillView]
    next_cursor: str | None
    read: Read


class BackfillScheduler(Protocol):
    """The part of a scheduler that knows backfills."""

    async def plan_backfill(self, job_id: str, *, from_ms: int, to_ms: int) -> BackfillPlan:
        """What `start_backfill` would run; changes nothing. from inclusive, to exclusive."""
        ...

    async def start_backfill(
        self,
        job_id: str,
        *,
        from_ms: int,
        to_ms: int,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> BackfillView:
        """Run the job for its ticks of a range that is past; without `args` with the job's. Without `overlap_policy`
        they are `allow` if that is the job's, else wait for one another (`queue_all`): none is dropped."""
        ...

    async def backfills(
        self,
        job_id: str,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> BackfillPage:
        """A job's backfills, oldest first."""
        ...

    async def cancel_backfill(self, backfill_id: str, *, reason: str | None = None) -> BackfillView:
        """Make no further runs, and end those that are not over. Conflict if it is completed."""
        ...
