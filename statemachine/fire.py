"""Fire: ticks become runs, and the job moves on to its next tick, in one step (I1, I2).

Each item is judged alone. It is a compare-and-set on the entry of the `due` index, so whoever fires a tick twice, late,
or for a bucket that is no longer its own gets a verdict and changes nothing.
"""

from __future__ import annotations

from itertools import islice, pairwise

from statemachine.commands import FIRE_RUNS_MAX, Fire, FireItem, FireReply, FireRun
from statemachine.keys import bucket_of, due_key, pack_row, run_id_of, tick_row_key
from statemachine.lifecycle import change, create, reason_word
from statemachine.limits import CATCH_UP_PARKED_MAX, FIRE_AHEAD_MAX_MS, FIRE_SKIPS_MAX, JOB_ID_LENGTH_MAX, TIME_MS_MAX
from statemachine.overlap import parked_ids
from statemachine.records import Job, RunState, SkipReason
from statemachine.run_limits import within_limit
from statemachine.skips import is_skip, record_skip
from statemachine.supersede import is_rearmed_by, rearm, scheduled_run
from statemachine.ticks import stand_at
from statemachine.transitions import Move
from statemachine.work import Work


def fire(work: Work, command: Fire) -> FireReply:
    """Apply a Fire: one verdict an item."""
    return FireReply(codes=tuple([_fire_item(work, command, item) for item in command.items]))


def _fire_item(work: Work, command: Fire, item: FireItem) -> str:
    if not _is_wellformed(item):
        return "malformed"
    bucket = bucket_of(item.job_id)
    owner = work.bucket(bucket)
    if owner.epoch != item.epoch or owner.node != command.node:
        return "stale_epoch"
    job = work.job(item.job_id)
    if job is not None and job.version != item.version:
        return "stale_version"
    if _is_ahead_of(work.clock_ms, item):
        return "clock_off"
    if any(run.catch_up for run in item.runs) and _is_backlogged(work, item.job_id):
        return "backlog"
    if not work.transaction.delete(due_key(item.expected_ms, bucket, item.job_id), db=work.tables.due):
        return "not_due"
    assert job is not None, "only live jobs stand in the due index"
    _move_on(work, job, item)
    return "ok"


def _is_ahead_of(clock_ms: int | None, item: FireItem) -> bool:
    """Whether the item can only come from a wrong clock (I2): it fires, or passes over, what is far from due; or it
    calls a tick missed that is still to come."""
    assert clock_ms is not None, "an owner of buckets has had a session"
    horizon_ms = clock_ms + FIRE_AHEAD_MAX_MS
    if any(run.due_ms > horizon_ms for run in item.runs):
        return True
    return any(
        ticks.until_ms > (clock_ms if reason_word(ticks.reason) == SkipReason.MISFIRE else horizon_ms)
        for ticks in item.skips
    )


def _is_backlogged(work: Work, job_id: str) -> bool:
    """Whether enough runs of the job wait for one another: missed ticks are made good slice by slice."""
    return sum(1 for _ in islice(parked_ids(work, job_id), CATCH_UP_PARKED_MAX + 1)) > CATCH_UP_PARKED_MAX


def _move_on(work: Work, job: Job, item: FireItem) -> None:
    if job.max_runs is not None:
        item = within_limit(work, job, item)
    row = pack_row(job.version, item.next_ms)
    for run in item.runs:
        _make_run(work, job, run)
        work.transaction.put(tick_row_key(job.job_id, run.due_ms), row, db=work.tables.job_runs)
    for ticks in item.skips:
        record_skip(work, job, ticks, row)
    if item.next_ms is not None:
        stand_at(work, job, item.next_ms)


def _make_run(work: Work, job: Job, tick: FireRun) -> None:
    run_id = run_id_of(job.job_id, tick.due_ms)
    run = scheduled_run(work, job, run_id, tick.due_ms, tick.release_ms, catch_up=tick.catch_up)
    before = work.run(run_id)
    if before is None:
        create(work, run)
    elif is_rearmed_by(before, job):
        rearmed = rearm(work, before, run)
        if run.state is RunState.QUEUED:
            change(work, rearmed, Move.RELEASE)


# --- the shape of an item


def _is_wellformed(item: FireItem) -> bool:
    """Whether the item accounts for the tick it stands at and moves forward, within the limits."""
    if not 1 <= len(item.job_id) <= JOB_ID_LENGTH_MAX or not 0 <= item.expected_ms <= TIME_MS_MAX:
        return False
    if len(item.runs) == 1 and not item.skips:  # nearly every item
        return item.runs[0].due_ms == item.expected_ms and _is_run(item.runs[0]) and _ends_after(item, item.expected_ms)
    if len(item.runs) > FIRE_RUNS_MAX or len(item.skips) > FIRE_SKIPS_MAX:
        return False
    if not all(_is_run(run) for run in item.runs) or not all(is_skip(ticks) for ticks in item.skips):
        return False
    return _is_in_order(item)


def _is_run(run: FireRun) -> bool:
    return run.due_ms <= run.release_ms <= TIME_MS_MAX


def _is_in_order(item: FireItem) -> bool:
    """The spans follow one another without overlap, from expected_ms on, and end before next_ms."""
    spans = [(run.due_ms, run.due_ms) for run in item.runs]
    spans += [(ticks.from_ms, ticks.until_ms) for ticks in item.skips]
    spans.sort()
    if not spans or spans[0][0] != item.expected_ms:
        return False
    follow = all(until < start for (_, until), (start, _) in pairwise(spans))
    return follow and _ends_after(item, spans[-1][1])


def _ends_after(item: FireItem, last_ms: int) -> bool:
    """Whether the next tick, if any, comes after the last one that was accounted for."""
    return last_ms <= TIME_MS_MAX if item.next_ms is None else last_ms < item.next_ms <= TIME_MS_MAX
