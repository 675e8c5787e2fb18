"""Retention: the way through all jobs, asking of each what of its history may be forgotten. Pure but for its view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from statemachine.history_commands import PruneItem
from statemachine.limits import DAY_S, PRUNED_RUNS_MAX
from statemachine.records import Job, Team
from statemachine.retention import Forgettable, Keep

STEP_COST_MAX = 2_000
"""Of a step, in rows of the history; a job counts as JOB_COST of them. Some ten milliseconds."""
JOB_COST = 20
JOBS_READ = 50


class RetentionView(Protocol):
    """What is read of the state."""

    def clock_ms(self) -> int | None: ...

    def team(self, team: str) -> Team | None: ...

    def live_jobs(self, after_id: str, limit: int) -> Sequence[Job]:
        """In order of id, after this one."""
        ...

    def deleted_jobs(self, after_id: str, limit: int) -> Sequence[Job]:
        """As they were last; in order of id, after this one."""
        ...

    def forgettable(self, job: Job, keep: Keep, now_ms: int, runs_max: int) -> Forgettable: ...


class Sweep:
    """One way through all jobs, live ones first, then deleted ones. `step(view, days) → items`."""

    def __init__(self, *, keep_days: float) -> None:
        self._keep_days = keep_days
        self._among_deleted = False
        self._after_id = ""
        self.is_over = False

    def step(self, view: RetentionView) -> list[PruneItem]:
        """The next items: as many as one command takes, or fewer if they are hard to find."""
        now_ms = view.clock_ms()
        if now_ms is None:
            return []
        items: list[PruneItem] = []
        room, cost = PRUNED_RUNS_MAX, 0
        while not self.is_over and room > 0 and cost < STEP_COST_MAX:
            for job in self._next_jobs(view):
                found = view.forgettable(job, self._keep_of(view, job, now_ms), now_ms, room)
                cost += JOB_COST + found.looked_at
                if found.item is not None:
                    items.append(found.item)
                    room -= len(found.item.run_ids)
                if room == 0:
                    break  # the job may have more
                self._after_id = job.job_id
                if cost >= STEP_COST_MAX:
                    break
        return items

    def _next_jobs(self, view: RetentionView) -> Sequence[Job]:
        read = view.deleted_jobs if self._among_deleted else view.live_jobs
        jobs = read(self._after_id, JOBS_READ)
        if not jobs:
            self.is_over, self._among_deleted, self._after_id = self._among_deleted, True, ""
        return jobs

    def _keep_of(self, view: RetentionView, job: Job, now_ms: int) -> Keep:
        """The job's own word, else its team's, else the cluster's."""
        team = view.team(job.team)
        days, runs = job.keep_days, job.keep_runs
        if team is not None:
            days = team.keep_days if days is None else days
            runs = team.keep_runs if runs is None else runs
        days = self._keep_days if days is None else days
        return Keep(after_ms=now_ms - round(days * DAY_S * 1000), runs=runs)
