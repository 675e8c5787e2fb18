"""Which runs of the backfills of this node's buckets are made next: `step(now_ms, view, owned, events) → StepBackfill`.

Like the ticker: what it proposes is a compare-and-set, and an answer that was lost is read from the state again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from node.misfire import next_open
from node.plans import JobSource, Plan, PlanCache
from statemachine.commands import StepBackfill
from statemachine.keys import bucket_of
from statemachine.limits import BACKFILL_OUTSTANDING_MAX, BACKFILL_SLICE_MAX
from statemachine.policy_records import Backfill

LOOK_EVERY_MS = 200
"""How often the backfills are looked at: each is read anew then."""
BACKLOG_MS = 1_000
"""How long one whose step was refused, or not answered, is left alone."""
POISON_MS = 60_000
"""How long one whose ticks cannot be computed is left alone."""

logger = logging.getLogger(__name__)


class BackfillView(JobSource, Protocol):
    """What is read of the state."""

    def active_backfills(self) -> Iterable[Backfill]:
        """Those that are running, of all jobs."""
        ...

    def backfill_outstanding(self, backfill_id: str) -> int:
        """How many of its runs are not over."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Stepped:
    """What became of a step; None: no answer."""

    backfill_id: str
    code: str | None


class BackfillSteps:
    """One node's part of all backfills."""

    def __init__(self, *, node: str, plans: PlanCache) -> None:
        self._node = node
        self._plans = plans
        self._next_look_ms = 0
        self._last_ms = 0
        self._waits: dict[str, int | None] = {}
        """Until when a backfill is left alone; None: until its step is answered."""

    def step(
        self, now_ms: int, view: BackfillView, owned: Mapping[int, int], events: Sequence[Stepped] = ()
    ) -> list[StepBackfill]:
        """`owned` maps the buckets of this node to their epochs."""
        for event in events:
            self._waits[event.backfill_id] = now_ms + (0 if event.code == "ok" else BACKLOG_MS)
        if self._last_ms <= now_ms < self._next_look_ms or not owned:
            return []
        self._waits = {
            key: until for key, until in self._waits.items() if until is None or now_ms < until <= now_ms + POISON_MS
        }
        self._last_ms, self._next_look_ms = now_ms, now_ms + LOOK_EVERY_MS
        found = [self._maybe_step(now_ms, view, backfill, owned) for backfill in view.active_backfills()]
        return [command for command in found if command is not None]

    def _maybe_step(
        self, now_ms: int, view: BackfillView, backfill: Backfill, owned: Mapping[int, int]
    ) -> StepBackfill | None:
        epoch = owned.get(bucket_of(backfill.job_id))
        if epoch is None or backfill.backfill_id in self._waits:
            return None
        try:
            due_ms, next_ms, version = self._next(view, backfill)
        except Exception:
            logger.exception("backfill %s: its ticks cannot be computed", backfill.backfill_id)
            self._waits[backfill.backfill_id] = now_ms + POISON_MS
            return None
        if next_ms == backfill.next_ms and not (
            next_ms is None and not view.backfill_outstanding(backfill.backfill_id)
        ):
            return None
        self._waits[backfill.backfill_id] = None
        return StepBackfill(
            now_ms=now_ms,
            node=self._node,
            epoch=epoch,
            backfill_id=backfill.backfill_id,
            job_version=version,
            expected_ms=backfill.next_ms,
            due_ms=due_ms,
            next_ms=next_ms,
        )

    def _next(self, view: BackfillView, backfill: Backfill) -> tuple[tuple[int, ...], int | None, int]:
        """The ticks that it makes runs of now, where it goes on after them, and the version of the job."""
        job = view.job(backfill.job_id)
        plan = None if job is None else self._plans.plan(view, job.job_id, job.version)
        if job is None or plan is None:
            return (), None, 0  # the job is gone: whatever is proposed ends the backfill
        if backfill.next_ms is None:
            return (), None, job.version
        room = BACKFILL_OUTSTANDING_MAX - view.backfill_outstanding(backfill.backfill_id)
        ticks_ms, next_ms = ticks_of(plan, backfill.next_ms, backfill.to_ms, min(room, BACKFILL_SLICE_MAX))
        return tuple(ticks_ms), next_ms, job.version


def ticks_of(plan: Plan, from_ms: int, to_ms: int, count_max: int) -> tuple[list[int], int | None]:
    """The first ticks from `from_ms` to before `to_ms` on open days, and the one after them if there is one."""
    ticks_ms: list[int] = []
    tick_ms = next_open(plan.ticks, plan.closed, from_ms - 1)
    while tick_ms is not None and tick_ms < to_ms and len(ticks_ms) < count_max:
        ticks_ms.append(tick_ms)
        tick_ms = next_open(plan.ticks, plan.closed, tick_ms)
    return ticks_ms, tick_ms if tick_ms is not None and tick_ms < to_ms else None
