"""A job's definition with its schedule ready to be asked, kept for the jobs that fire often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from node.closed_days import ClosedDays, closed_days
from node.misfire import Ticks
from statemachine.policy_records import Calendar
from statemachine.records import Job

PLANS_KEPT_MAX = 50_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A job, its ticks, and by how much each tick's release is moved."""

    job: Job
    ticks: Ticks
    jitter_ms: int
    closed: ClosedDays | None = None
    """Days on which its ticks are skipped, as its calendars said when the plan was made."""


class CalendarSource(Protocol):
    def calendar(self, name: str) -> Calendar | None:
        """The calendar as it is now."""
        ...


class JobSource(CalendarSource, Protocol):
    def job(self, job_id: str) -> Job | None:
        """The job's current definition."""
        ...


def closed_days_of(calendars: CalendarSource, job: Job) -> ClosedDays | None:
    """The days on which a job does not run, as its calendars are now."""
    if not job.exclude_calendars:
        return None
    found = [calendars.calendar(name) for name in job.exclude_calendars]
    return closed_days(tuple([calendar for calendar in found if calendar is not None]), job.tz)


class PlanCache:
    """Plans by job and version, with the calendars as they are now. When it is full, the older half goes."""

    def __init__(self, make_plan: Callable[[Job], Plan]) -> None:
        self._make_plan = make_plan
        self._plans: dict[str, Plan] = {}

    def plan(self, jobs: JobSource, job_id: str, version: int) -> Plan | None:
        """The plan of this version of the job; None when the job is gone or has another version."""
        kept = self._plans.get(job_id)
        if kept is not None and kept.job.version == version:
            return self._as_closed_now(jobs, kept)
        job = jobs.job(job_id)
        if job is None or job.deleted_ms is not None or job.version != version:
            return None
        plan = self._make_plan(job)
        self._keep(job_id, plan)
        return self._as_closed_now(jobs, plan)

    def _as_closed_now(self, jobs: JobSource, plan: Plan) -> Plan:
        """A calendar that was changed counts for every tick that is not fired yet."""
        if not plan.job.exclude_calendars:
            return plan
        closed = closed_days_of(jobs, plan.job)
        if plan.closed is not closed:
            plan = self._plans[plan.job.job_id] = replace(plan, closed=closed)
        return plan

    def _keep(self, job_id: str, plan: Plan) -> None:
        if len(self._plans) >= PLANS_KEPT_MAX:
            for old in list(self._plans)[: PLANS_KEPT_MAX // 2]:
                del self._plans[old]
        self._plans[job_id] = plan
