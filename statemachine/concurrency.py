"""How many runs of a job may be active at once, as its definition says."""

from __future__ import annotations

from statemachine.records import Job, OverlapPolicy


def is_judged(job: Job) -> bool:
    """Whether its runs are judged against one another when their time comes. The others are handed out ahead of it.
    A job that catches up is judged, since its newer ticks wait behind those that were missed."""
    return job.overlap_policy != "allow" or job.max_concurrent is not None or job.misfire_policy == "catch_up"


def limit_of(job: Job, policy: OverlapPolicy) -> int | None:
    """How many may be active for one more to begin under this policy; None: any number."""
    if job.max_concurrent is not None:
        return job.max_concurrent
    return None if policy == "allow" else 1
