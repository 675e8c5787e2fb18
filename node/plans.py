"""A job's definition with its schedule ready to be asked, kept for the jobs that fire often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from node.misfire import Ticks
from statemachine.records import Job

PLANS_KEPT_MAX = 50_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A job, its ticks, and by how much each tick's release is moved."""

    job: Job
    ticks: Ticks
    jitter_ms: int


class JobSource(Protocol):
    def job(self, job_id: str) -> Job | None:
        """The job's current definition."""
        ...


class PlanCache:
    """Plans by job and version. When it is full, the half that was made longest ago goes."""

    def __init__(self, make_plan: Callable[[Job], Plan]) -> None:
        self._make_plan = make_plan
        self._plans: dict[str, Plan] = {}

    def plan(self, jobs: JobSource, job_id: str, version: int) -> Plan | None:
        """The plan of this version of the job; None when the job is gone or has another version."""
        kept = self._plans.get(job_id)
        if kept is not None and kept.job.version == version:
            return kept
        job = jobs.job(job_id)
        if job is None or job.deleted_ms is not None or job.version != version:
            return None
        plan = self._make_plan(job)
        self._keep(job_id, plan)
        return plan

    def _keep(self, job_id: str, plan: Plan) -> None:
        if len(self._plans) >= PLANS_KEPT_MAX:
            for old in list(self._plans)[: PLANS_KEPT_MAX // 2]:
                del self._plans[old]
        self._plans[job_id] = plan
