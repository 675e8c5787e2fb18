"""Asynchronous completion: the target takes the attempt over (HTTP 202), and reports its end itself, to any node.

From Detach on no session holds the run: the node that called the target may die, and the slot is free. What the target
holds is a lease of its own: `heartbeat_ms` from each Heartbeat, at most to the end of the attempt's timeout. It stands
in `timers`; the owner of the bucket proposes Release then, and the attempt ends timed_out.

The lease is judged on the cluster's clock, which lags behind a right one (clock.py): it lapses late rather than early.
"""

from __future__ import annotations

import msgspec

from statemachine.attempts import OK, end_attempt, held_run, retry_at_ms
from statemachine.commands import Complete, Detach, Heartbeat, LeaseReply, PlainReply, Reply
from statemachine.lifecycle import change
from statemachine.limits import DETAIL_LENGTH_MAX, TIME_MS_MAX
from statemachine.records import Attempt, AttemptOutcome, Lease, Run, RunState
from statemachine.stopping import end_stopped
from statemachine.transitions import Move
from statemachine.work import Work

COMPLETIONS = (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED)


def detach(work: Work, command: Detach) -> Reply:
    """The holder lets go; a repeat changes nothing."""
    run = held_run(work, command, Move.DETACH)
    if isinstance(run, Reply):
        return run
    if run.stop is not None:
        end_stopped(work, run, started_ms=command.started_ms, finished_ms=work.now_ms, log_bytes=command.log_bytes)
    elif run.lease is None:
        ends_ms = min(work.now_ms + command.left_ms, TIME_MS_MAX)
        lease = Lease(
            until_ms=min(work.now_ms + command.heartbeat_ms, ends_ms),
            ends_ms=ends_ms,
            heartbeat_ms=command.heartbeat_ms,
            backoff_ms=command.backoff_ms,
        )
        fields = {"started_ms": command.started_ms, "log_bytes": command.log_bytes}
        change(work, run, Move.DETACH, lease=lease, session=None, ahead=False, **fields)
    return OK


def heartbeat(work: Work, command: Heartbeat) -> Reply:
    """Extend the lease; never shorten it, whatever the sender's clock."""
    run = _attempted_run(work, command)
    if isinstance(run, Reply):
        return run
    if run.lease is None:
        return LeaseReply()
    lease = run.lease
    until_ms = max(lease.until_ms, min(work.now_ms + lease.heartbeat_ms, lease.ends_ms))
    progress = lease.progress if command.progress is None else command.progress[:DETAIL_LENGTH_MAX]
    change(work, run, Move.EXTEND, lease=msgspec.structs.replace(lease, until_ms=until_ms, progress=progress))
    return LeaseReply(until_ms=until_ms)


def complete(work: Work, command: Complete) -> Reply:
    """The attempt's end, from whoever was called with its token."""
    if command.outcome not in COMPLETIONS:
        return PlainReply(code="malformed", detail="a target completes an attempt as succeeded or failed")
    before = work.run(command.run_id)
    if before is not None and _is_repeat(before, command):
        return OK
    run = _attempted_run(work, command)
    if isinstance(run, Reply):
        return run
    detail = None if command.detail is None else command.detail[:DETAIL_LENGTH_MAX]
    attempt = _attempt_of(work, run, command.outcome, detail, token=command.token, log_node=command.log_node)
    log_bytes = run.log_bytes if command.log_bytes is None else command.log_bytes
    end_attempt(work, run, attempt, retry_at_ms=retry_at_ms(work, command), log_bytes=log_bytes)
    return OK


def lapse(work: Work, run: Run) -> Reply:
    """End the attempt of a target that has not been heard in time, or has used up its timeout."""
    lease, clock_ms = run.lease, work.clock_ms
    assert lease is not None and clock_ms is not None, "a lease began in a session, whose clock is known"
    if clock_ms < lease.until_ms:
        return PlainReply(code="leased")
    detail = "no heartbeat in time" if lease.until_ms < lease.ends_ms else "not completed within timeout_s"
    attempt = _attempt_of(work, run, AttemptOutcome.TIMED_OUT, detail)
    end_attempt(work, run, attempt, retry_at_ms=min(work.now_ms + lease.backoff_ms, TIME_MS_MAX))
    return OK


def _attempted_run(work: Work, command: Heartbeat | Complete) -> Run | Reply:
    """The run, if the token's attempt is under way; else the refusal. Whatever comes from an attempt that is over is
    fenced (I3), and so is what comes before it began."""
    run = work.run(command.run_id)
    if run is None:
        return PlainReply(code="unknown_run")
    is_begun = run.state is RunState.RUNNING or (run.state is RunState.CLAIMED and run.release_ms <= work.now_ms)
    if run.token != command.token or not is_begun:
        work.count("fenced_writes")
        return PlainReply(code="fenced", detail=run.state.value)
    return run


def _is_repeat(run: Run, command: Complete) -> bool:
    return any((one.token, one.outcome) == (command.token, command.outcome) for one in run.attempts)


def _attempt_of(
    work: Work,
    run: Run,
    outcome: AttemptOutcome,
    detail: str | None,
    *,
    token: int | None = None,
    log_node: str | None = None,
) -> Attempt:
    assert run.node is not None
    return Attempt(
        attempt=run.attempt,
        node=run.node,
        outcome=outcome,
        detail=detail,
        started_ms=run.started_ms,
        finished_ms=work.now_ms,
        token=token,
        log_node=log_node,
    )
