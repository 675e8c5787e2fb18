"""Release and RunNow: a run's time has come, and its overlap with the job's other runs is judged."""

from __future__ import annotations

import re

from statemachine.commands import PlainReply, Release, Reply, RunNow, RunReply
from statemachine.completion import lapse
from statemachine.deadlines import start_by_ms
from statemachine.idempotency import entry_of, remember
from statemachine.keys import NONCE_PATTERN, RunKey, row_key, run_id_of
from statemachine.lifecycle import UNCLAIMED, change, create, timer_ms
from statemachine.limits import CLOCK_OFF_MS
from statemachine.overlap import judge
from statemachine.records import Job, Run, RunKind, RunState
from statemachine.repeat_records import IdempotencyEntry
from statemachine.transitions import Move
from statemachine.work import Work

_NONCE = re.compile(NONCE_PATTERN, re.ASCII)


def release(work: Work, command: Release) -> Reply:
    """A scheduled run becomes queued or skipped; a retry becomes queued, with the next attempt; the attempt of a target
    that has not been heard in time is over."""
    run = work.run(command.run_id)
    if run is None:
        return PlainReply(code="unknown_run")
    if run.token != command.token:
        return PlainReply(code="fenced")
    if run.lease is not None:
        return lapse(work, run)
    if run.state not in (RunState.RETRYING, RunState.SCHEDULED):
        return PlainReply(code="illegal_state", detail=run.state.value)
    if work.clock_ms is not None and timer_ms(run) > work.clock_ms + CLOCK_OFF_MS:
        return PlainReply(code="clock_off")
    if run.state is RunState.RETRYING:
        _retry(work, run)
    else:
        judge(work, run)
    return PlainReply()


def run_now(work: Work, command: RunNow) -> Reply:
    """Make a manual run that is due now, and judge its overlap."""
    if _NONCE.fullmatch(command.nonce) is None:
        return PlainReply(code="malformed", detail="a nonce is made of letters, digits, '_' and '-'")
    job = work.job(command.job_id)
    if job is None:
        return PlainReply(code="unknown_job")
    entry = entry_of(work, job.team, command.idempotency_key)
    if entry is not None:
        code = "existing" if entry.digest == command.body_digest else "idempotency_conflict"
        return RunReply(code=code, run_id=entry.run_id)
    run_id = run_id_of(job.job_id, command.now_ms, RunKind.MANUAL, command.nonce)
    if work.run(run_id) is None:
        if work.is_off(command.now_ms):
            return RunReply(code="clock_off")
        key = RunKey(command.now_ms, job.job_id, RunKind.MANUAL, command.nonce)
        work.transaction.put(row_key(key), b"", db=work.tables.job_runs)
        judge(work, create(work, _manual_run(job, run_id, command)))
        _remember(work, job, run_id, command)
    return RunReply(run_id=run_id)


def _remember(work: Work, job: Job, run_id: str, command: RunNow) -> None:
    made = IdempotencyEntry(digest=command.body_digest, job_id=job.job_id, created_ms=work.now_ms, run_id=run_id)
    remember(work, job.team, command.idempotency_key, made)


def _retry(work: Work, run: Run) -> None:
    fields = UNCLAIMED | {"attempt": run.attempt + 1, "finished_ms": None, "retry_at_ms": None}
    change(work, run, Move.RELEASE, **fields)


def _manual_run(job: Job, run_id: str, command: RunNow) -> Run:
    return Run(
        run_id=run_id,
        job_id=job.job_id,
        job_version=job.version,
        team=job.team,
        kind=RunKind.MANUAL,
        due_ms=command.now_ms,
        release_ms=command.now_ms,
        priority=job.priority,
        state=RunState.SCHEDULED,
        attempts_max=1 + job.max_retries,
        args=command.args,
        overlap_policy=command.overlap_policy,
        start_by_ms=start_by_ms(job, command.now_ms),
        created_ms=command.now_ms,
    )
