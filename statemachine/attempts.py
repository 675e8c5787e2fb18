"""What the holder of a claim reports (Start, Finish, Withdraw), and what is done when it can no longer report.

Every report names the run's fencing token. A report under another token, or of a claim that was taken back, is refused
as `fenced` and counted (I3).
"""

from __future__ import annotations

from typing import Any

from statemachine.commands import Complete, Detach, Finish, PlainReply, Reply, Start, Withdraw
from statemachine.deadlines import is_out_of_time
from statemachine.keys import KIND_MASK
from statemachine.lifecycle import UNCLAIMED, allows, change, reason_word, skip
from statemachine.limits import (
    ATTEMPTS_KEPT_MAX,
    DETAIL_LENGTH_MAX,
    IN_TIME_POINTS,
    LASTING_MS,
    NEARLY_POINTS,
    NEARLY_TIMED_OUT,
    TIME_MS_MAX,
    TIMED_OUT_POINTS,
)
from statemachine.records import Attempt, AttemptOutcome, Run, RunState, SkipReason
from statemachine.skips import SKIP_REASONS
from statemachine.stopping import RUN_TIMEOUT, end_stopped
from statemachine.supersede import supersede
from statemachine.targets import target_name
from statemachine.ticks import tell_owner
from statemachine.transitions import Move
from statemachine.work import Work

OK = PlainReply()


def start(work: Work, command: Start) -> Reply:
    """Note that an attempt has started; a repeat changes nothing."""
    run = held_run(work, command, Move.START)
    if isinstance(run, Reply):
        return run
    if run.state is RunState.CLAIMED:
        change(work, run, Move.START, started_ms=command.started_ms)
    return OK


def finish(work: Work, command: Finish) -> Reply:
    """End an attempt: the run is final, or is tried again."""
    if command.outcome is AttemptOutcome.LOST:
        return PlainReply(code="malformed", detail="only the end of a session makes an attempt lost")
    run = held_run(work, command, Move.SUCCEED)
    if isinstance(run, Reply):
        return run
    if run.lane[1] & KIND_MASK:  # not a noop, of which there are most and which take no time
        _score_target(work, run, command)
    end_attempt(
        work,
        run,
        _attempt_of(run, command),
        retry_at_ms=retry_at_ms(work, command),
        started_ms=command.started_ms,
        log_bytes=command.log_bytes,
    )
    return OK


def _score_target(work: Work, run: Run, command: Finish) -> None:
    """Note how long the target held a slot. Most have no score, and get none for being in time."""
    has_timed_out = command.outcome is AttemptOutcome.TIMED_OUT
    took_ms = command.finished_ms - command.started_ms
    if not (has_timed_out or took_ms >= LASTING_MS or work.targets.has_any()):
        return
    job = work.job(run.job_id)
    name = None if job is None or job.version != run.job_version else target_name(job.target)
    if job is None or name is None:
        return
    if has_timed_out or took_ms >= max(LASTING_MS, NEARLY_TIMED_OUT * job.timeout_s * 1000):
        work.targets.add(name, TIMED_OUT_POINTS if has_timed_out else NEARLY_POINTS)
    elif command.outcome is AttemptOutcome.SUCCEEDED:
        work.targets.add(name, IN_TIME_POINTS)


def end_attempt(work: Work, run: Run, attempt: Attempt, *, retry_at_ms: int, **fields: Any) -> None:
    """What becomes of a run whose attempt ended so: it is final, or is tried again."""
    fields |= {"attempts": _attempts_with(run, attempt), "finished_ms": attempt.finished_ms}
    if run.stop is not None:
        end_stopped(work, run, **fields)
    elif attempt.outcome is AttemptOutcome.SUCCEEDED:
        change(work, run, Move.SUCCEED, **fields)
    elif attempt.outcome is AttemptOutcome.CANCELLED:
        change(work, run, Move.CANCEL, reason=attempt.outcome.value, **fields)
    elif run.attempt < run.attempts_max and is_out_of_time(run, retry_at_ms):
        change(work, run, Move.EXHAUST, reason=RUN_TIMEOUT, **fields)
    elif run.attempt < run.attempts_max:
        work.count("attempts_retried")
        change(work, run, Move.RETRY, retry_at_ms=retry_at_ms, **fields)
        tell_owner(work, run.job_id, retry_at_ms)
    else:
        change(work, run, Move.EXHAUST, reason=attempt.outcome.value, **fields)


def withdraw(work: Work, command: Withdraw) -> Reply:
    """Take back a claim that its holder has not started."""
    if command.reason is not None and reason_word(command.reason) not in SKIP_REASONS:
        return PlainReply(code="malformed", detail="a reason begins with the name of a skip reason")
    run = held_run(work, command, Move.WITHDRAW)
    if isinstance(run, Reply):
        return run
    if run.stop is not None:
        end_stopped(work, run, finished_ms=work.now_ms)
    elif command.reason is None:
        change(work, run, Move.WITHDRAW, **_given_back(run))
    elif command.reason == SkipReason.SUPERSEDED:
        supersede(work, run)
    else:
        skip(work, run, command.reason)
    return OK


def lose(work: Work, run: Run) -> None:
    """Take a claim back from a session that has ended (that uses an attempt; a claim still ahead of its time cannot
    have started, and uses none)."""
    is_ahead = run.state is RunState.CLAIMED and run.release_ms > work.now_ms
    if run.stop is not None:
        attempts = run.attempts if is_ahead else _attempts_with(run, _lost_attempt(work, run))
        end_stopped(work, run, attempts=attempts, finished_ms=work.now_ms)
    elif is_ahead:
        change(work, run, Move.LOSE, **_given_back(run))
    elif run.attempt < run.attempts_max:
        work.count("attempts_retried")
        fields = UNCLAIMED | {"attempt": run.attempt + 1, "attempts": _attempts_with(run, _lost_attempt(work, run))}
        change(work, run, Move.LOSE, **fields)
    else:
        attempts = _attempts_with(run, _lost_attempt(work, run))
        change(work, run, Move.EXHAUST, reason="lost", attempts=attempts, finished_ms=work.now_ms)


def _given_back(run: Run) -> dict[str, Any]:
    """The fields of a run whose claim came to nothing: if it has not begun, its time has not, either."""
    return UNCLAIMED if run.attempts else UNCLAIMED | {"end_by_ms": None}


def held_run(work: Work, command: Start | Finish | Withdraw | Detach, move: Move) -> Run | Reply:
    """The run, if the command's token is that of its current claim and its state allows the move; else the refusal."""
    run = work.run(command.run_id)
    if run is None:
        return PlainReply(code="unknown_run")
    if run.token != command.token or _is_claim_lapsed(run):
        work.count("fenced_writes")
        return PlainReply(code="fenced")
    if not allows(run, move):
        return PlainReply(code="illegal_state", detail=run.state.value)
    return run


def _is_claim_lapsed(run: Run) -> bool:
    """The token is the last one given, but the claim was taken back and nobody has claimed the run since."""
    if run.state is RunState.QUEUED:
        return True
    is_ended = run.state is RunState.DEAD or run.state is RunState.CANCELLED
    return is_ended and len(run.attempts) > 0 and run.attempts[-1].outcome is AttemptOutcome.LOST


def retry_at_ms(work: Work, command: Finish | Complete) -> int:
    """When a failed attempt is to be followed by the next, as its reporter proposes."""
    at_ms = command.now_ms if command.retry_at_ms is None else command.retry_at_ms
    if work.is_off(command.now_ms):
        # By the delay: an instant of that clock may be years away, or past.
        at_ms = min(work.now_ms + max(at_ms - command.now_ms, 0), TIME_MS_MAX)
    return at_ms


def _attempts_with(run: Run, attempt: Attempt) -> tuple[Attempt, ...]:
    return (*run.attempts, attempt)[-ATTEMPTS_KEPT_MAX:]


def _attempt_of(run: Run, command: Finish) -> Attempt:
    assert run.node is not None
    return Attempt(
        attempt=run.attempt,
        node=run.node,
        outcome=command.outcome,
        status=command.status,
        detail=None if command.detail is None else command.detail[:DETAIL_LENGTH_MAX],
        started_ms=command.started_ms,
        finished_ms=command.finished_ms,
    )


def _lost_attempt(work: Work, run: Run) -> Attempt:
    assert run.node is not None
    return Attempt(
        attempt=run.attempt,
        node=run.node,
        outcome=AttemptOutcome.LOST,
        started_ms=run.started_ms,
        finished_ms=work.now_ms,
    )
