"""Backfills: a job is run for ticks that are past, slice after slice, by the owner of its bucket.

A step is a compare-and-set on where the backfill stands, and a run's id names its backfill and tick: so whatever
crashes, each tick gets one. At most BACKFILL_OUTSTANDING_MAX of them are not over at once. Unless it says otherwise,
those of a job with an overlap policy wait for one another and for the job's other runs: a backfill drops nothing.
"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from statemachine.codec import decode_backfill, encode
from statemachine.commands import BackfillReply, CancelBackfill, StartBackfill, StepBackfill
from statemachine.idempotency import entry_of, remember
from statemachine.keys import NONCE_PATTERN, SEPARATOR, RunKey, pair_of_backfill, row_key, run_id_of
from statemachine.lifecycle import create
from statemachine.limits import BACKFILL_OUTSTANDING_MAX, BACKFILLS_ACTIVE_MAX
from statemachine.overlap import judge
from statemachine.policy_records import Backfill, BackfillState
from statemachine.records import Job, Run, RunKind, RunState
from statemachine.repeat_records import IdempotencyEntry
from statemachine.stopping import CANCELLED, stop
from statemachine.work import Work

_ID = re.compile(NONCE_PATTERN, re.ASCII)


def start_backfill(work: Work, command: StartBackfill) -> BackfillReply:
    """Begin a backfill; the owner of the bucket finds it and makes its runs."""
    if _ID.fullmatch(command.backfill_id) is None or command.from_ms >= command.to_ms:
        detail = "an id is made of letters, digits, '_' and '-'; from is before to"
        return BackfillReply(code="malformed", detail=detail)
    job = work.job(command.job_id)
    if job is None:
        return BackfillReply(code="unknown_job")
    entry = entry_of(work, job.team, command.idempotency_key)
    if entry is not None:
        code = "existing" if entry.digest == command.body_digest else "idempotency_conflict"
        return BackfillReply(code=code, backfill_id=entry.run_id)
    if command.to_ms > work.now_ms:
        return BackfillReply(code="clock_off", detail="what is to come is the schedule's")
    if _backfill(work, command.backfill_id) is None:
        if work.transaction.stat(work.tables.active_backfills)["entries"] >= BACKFILLS_ACTIVE_MAX:
            return BackfillReply(code="backfills_limit")
        _begin(work, job, command)
    return BackfillReply(backfill_id=command.backfill_id)


def step_backfill(work: Work, command: StepBackfill) -> BackfillReply:
    """Make the runs of the next ticks, or find that all are over."""
    backfill = _backfill(work, command.backfill_id)
    if backfill is None or backfill.state != "running" or backfill.next_ms != command.expected_ms:
        return BackfillReply(code="not_due")
    owner = work.owner(backfill.job_id)
    if (owner.node, owner.epoch) != (command.node, command.epoch):
        return BackfillReply(code="stale_epoch")
    job = work.job(backfill.job_id)
    if job is None:
        _end(work, backfill, "cancelled", "the job was deleted")
        return BackfillReply()
    if job.version != command.job_version:
        return BackfillReply(code="stale_version")
    if not _is_wellformed(backfill, command):
        return BackfillReply(code="malformed")
    if len(command.due_ms) > _room(work, backfill):
        return BackfillReply(code="backlog")
    for due_ms in command.due_ms:
        _make_run(work, job, backfill, due_ms)
    backfill = msgspec.structs.replace(backfill, next_ms=command.next_ms, made=backfill.made + len(command.due_ms))
    if backfill.next_ms is None and not outstanding(work, backfill.backfill_id, 1):
        _end(work, backfill, "completed", None)
    else:
        _put(work, backfill)
    return BackfillReply(backfill_id=backfill.backfill_id)


def cancel_backfill(work: Work, command: CancelBackfill) -> BackfillReply:
    """End a backfill and what it has under way; a repeat changes nothing."""
    backfill = _backfill(work, command.backfill_id)
    if backfill is None:
        return BackfillReply(code="unknown_backfill")
    if backfill.state == "completed":
        return BackfillReply(code="illegal_state", detail=backfill.state)
    if backfill.state == "running":
        _end(work, backfill, "cancelled", command.reason)
        for run_id in outstanding(work, backfill.backfill_id, BACKFILL_OUTSTANDING_MAX):
            run = work.run(run_id)
            assert run is not None, "what is outstanding exists"
            stop(work, run, f"{CANCELLED}: its backfill was cancelled")
    return BackfillReply(backfill_id=backfill.backfill_id)


def outstanding(work: Work, backfill_id: str, count_max: int) -> list[str]:
    """The first runs of a backfill that are not over, so many at most."""
    prefix = backfill_id.encode() + SEPARATOR
    cursor = work.transaction.cursor(db=work.tables.backfill_runs)
    found = cursor.set_range(prefix)
    run_ids: list[str] = []
    while found and len(run_ids) < count_max and cursor.key().startswith(prefix):
        run_ids.append(cursor.key()[len(prefix) :].decode())
        found = cursor.next()
    return run_ids


def _begin(work: Work, job: Job, command: StartBackfill) -> None:
    backfill = Backfill(
        backfill_id=command.backfill_id,
        job_id=job.job_id,
        team=job.team,
        from_ms=command.from_ms,
        to_ms=command.to_ms,
        args=command.args,
        overlap_policy=command.overlap_policy,
        next_ms=command.from_ms,
        created_ms=work.now_ms,
    )
    _put(work, backfill)
    work.transaction.put(pair_of_backfill(backfill.job_id, backfill.backfill_id), b"", db=work.tables.job_backfills)
    work.transaction.put(backfill.backfill_id.encode(), b"", db=work.tables.active_backfills)
    made = IdempotencyEntry(
        digest=command.body_digest, job_id=job.job_id, created_ms=work.now_ms, run_id=backfill.backfill_id
    )
    remember(work, job.team, command.idempotency_key, made)


def _end(work: Work, backfill: Backfill, state: BackfillState, reason: str | None) -> None:
    _put(work, msgspec.structs.replace(backfill, state=state, reason=reason, finished_ms=work.now_ms))
    work.transaction.delete(backfill.backfill_id.encode(), db=work.tables.active_backfills)


def _room(work: Work, backfill: Backfill) -> int:
    """How many runs it may make now."""
    return BACKFILL_OUTSTANDING_MAX - len(outstanding(work, backfill.backfill_id, BACKFILL_OUTSTANDING_MAX))


def _make_run(work: Work, job: Job, backfill: Backfill, due_ms: int) -> None:
    key = RunKey(due_ms, job.job_id, RunKind.BACKFILL, backfill.backfill_id)
    run = Run(
        run_id=run_id_of(job.job_id, due_ms, RunKind.BACKFILL, backfill.backfill_id),
        job_id=job.job_id,
        job_version=job.version,
        team=job.team,
        kind=RunKind.BACKFILL,
        due_ms=due_ms,
        release_ms=work.now_ms,
        priority=job.priority,
        state=RunState.SCHEDULED,
        attempts_max=1 + job.max_retries,
        args=backfill.args,
        overlap_policy=backfill.overlap_policy or (None if job.overlap_policy == "allow" else "queue_all"),
        created_ms=work.now_ms,
        run_on=job.run_on,
    )
    work.transaction.put(row_key(key), b"", db=work.tables.job_runs)
    judge(work, create(work, run))


def _is_wellformed(backfill: Backfill, command: StepBackfill) -> bool:
    """Whether the ticks go on from where it stands, in order, within its range, and the next place is behind them."""
    if command.expected_ms is None:
        return not command.due_ms and command.next_ms is None
    places = [command.expected_ms - 1, *command.due_ms]
    in_order = all(before < after for before, after in pairwise(places))
    end_ms = backfill.to_ms if command.next_ms is None else command.next_ms
    return in_order and places[-1] < end_ms <= backfill.to_ms


def _backfill(work: Work, backfill_id: str) -> Backfill | None:
    value = work.transaction.get(backfill_id.encode(), db=work.tables.backfills)
    return None if value is None else decode_backfill(value)


def _put(work: Work, backfill: Backfill) -> None:
    work.transaction.put(backfill.backfill_id.encode(), encode(backfill), db=work.tables.backfills)
