"""How an attempt's end becomes a report to the cluster."""

from __future__ import annotations

from collections.abc import Callable

from executor.interface import Outcome, OutcomeKind
from node.retry import backoff_s, retry_at_ms
from node.work import Work
from statemachine.commands import Detach, Finish
from statemachine.limits import DETAIL_LENGTH_MAX
from statemachine.records import AttemptOutcome

_OUTCOMES = {
    OutcomeKind.SUCCEEDED: AttemptOutcome.SUCCEEDED,
    OutcomeKind.FAILED: AttemptOutcome.FAILED,
    OutcomeKind.TIMED_OUT: AttemptOutcome.TIMED_OUT,
    OutcomeKind.CANCELLED: AttemptOutcome.CANCELLED,
}


def finish_of(
    work: Work,
    outcome: Outcome,
    *,
    started_ms: int,
    finished_ms: int,
    log_bytes: int | None,
    random: Callable[[], float],
) -> Finish:
    """The report. Whoever proposes a failure chooses when to try again; the state machine knows whether to."""
    retries = outcome.kind in (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT)
    return Finish(
        now_ms=finished_ms,
        run_id=work.claim.run_id,
        token=work.claim.token,
        outcome=_OUTCOMES[outcome.kind],
        status=outcome.status,
        detail=None if outcome.detail is None else outcome.detail[:DETAIL_LENGTH_MAX],
        started_ms=started_ms,
        finished_ms=max(finished_ms, started_ms),
        retry_at_ms=retry_at_ms(
            work.definition.job,
            work.claim.attempt,
            now_ms=finished_ms,
            retry_after_s=outcome.retry_after_s,
            random=random,
        )
        if retries
        else None,
        log_bytes=log_bytes,
    )


def report_of(
    work: Work,
    outcome: Outcome,
    *,
    started_ms: int,
    finished_ms: int,
    log_bytes: int | None,
    random: Callable[[], float],
) -> Finish | Detach:
    """What the cluster is told of an attempt that this node is done with."""
    report = detach_of if outcome.kind is OutcomeKind.ACCEPTED else finish_of
    return report(work, outcome, started_ms=started_ms, finished_ms=finished_ms, log_bytes=log_bytes, random=random)


def detach_of(
    work: Work,
    outcome: Outcome,
    *,
    started_ms: int,
    finished_ms: int,
    log_bytes: int | None,
    random: Callable[[], float],
) -> Detach:
    """The report of an attempt that its target completes itself: what is left of its time, and what to wait before the
    next attempt should nothing be heard of it."""
    job = work.definition.job
    timeout_ms = round(job.timeout_s * 1000)
    heartbeat_s = work.definition.target.get("heartbeat_s")
    return Detach(
        now_ms=finished_ms,
        run_id=work.claim.run_id,
        token=work.claim.token,
        started_ms=started_ms,
        left_ms=max(timeout_ms - max(finished_ms - started_ms, 0), 0),
        heartbeat_ms=timeout_ms if heartbeat_s is None else round(heartbeat_s * 1000),
        backoff_ms=round(backoff_s(job, work.claim.attempt, random) * 1000),
        log_bytes=log_bytes,
    )
