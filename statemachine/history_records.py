"""Records of what becomes of ended runs: the ends that wait to be settled, and what is known of a job's history."""

from __future__ import annotations

from typing import Literal

from statemachine.records import Record, RunState

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
