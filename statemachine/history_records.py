"""Records of what becomes of ended runs: the ends that wait to be settled, and what is known of a job's history."""

from __future__ import annotations

from typing import Literal

import msgspec

from statemachine.records import NotifyEvent, Record, RunState

EndingKind = Literal["ended", "reopened", "retried", "started"]


class Ending(Record, frozen=True, kw_only=True):
    """One entry of `ended`: what happened to a run, with all that settling it needs. The run itself may be changed
    or pruned by then."""

    run_id: str
    kind: EndingKind
    """ended: it became final. reopened: it was final, in `state`, and is not any more. retried: an attempt failed and
    there are more. started: late, and lasting."""
    state: RunState
    at_ms: int
    reason: str | None = None
    detail: str | None = None
    """The last attempt's."""
    attempt: int = 1
    count: int = 1
    """Ticks of a skip."""
    late_ms: int | None = None
    """How long after its release the first attempt started; None: it was told before, or nothing started."""


class JobStats(Record, frozen=True, kw_only=True):
    """The value of `job_stats`: a job's history added up, a second or two behind it. Pruned runs count on."""

    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    skipped: int = 0
    """Records of skips: each of them is a range of ticks."""
    ticks_skipped: int = 0
    retried: int = 0
    """Attempts that failed and were tried again."""
    consecutive_failures: int = 0
    """Dead runs since the last one that succeeded."""
    last_outcome: RunState | None = None
    """Of the last run that ended and was not skipped."""
    last_run_id: str | None = None
    last_ms: int | None = None
    last_success_run_id: str | None = None
    last_success_ms: int | None = None
    last_failure_run_id: str | None = None
    last_failure_ms: int | None = None
    failed_attempts: int = 0
    """Attempts that failed since the last run that succeeded, the last ones of dead runs too."""
    told_failing: bool = False
    """A failure was told, and no recovery since."""
    told_ms: dict[str, int] = msgspec.field(default_factory=dict)
    """When each NotifyEvent was told last."""
    failures_answered: int = 0
    """Of `consecutive_failures`: for so many the job was paused already."""


class Notification(Record, frozen=True, kw_only=True):
    """An entry of `outbox`: what is owed to a receiver. It outlives its job and its run."""

    number: int = 0
    """Of all notifications of this cluster, in order."""
    next_ms: int = 0
    """When it is to be sent (again)."""
    event: NotifyEvent
    url: str
    team: str
    job_id: str
    job_name: str
    run_id: str
    attempt: int
    at_ms: int
    """When it happened."""
    reason: str | None = None
    detail: str | None = None
    failures: int = 0
    """Dead runs in a row."""
    late_ms: int | None = None
    tries: int = 0
    error: str | None = None
    """Why the last try failed."""
