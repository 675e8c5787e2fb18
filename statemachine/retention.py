"""Retention: runs that are over go after a while, and so does what is left of deleted jobs and of old definitions.

A reader beside the leader finds what may go (`forgettable`), a part at a time; PruneRuns asks for it, and apply judges
all of it again. A row that says where its job stands must stay, and so must those of ticks that the job may come to
again: without the first it would fall off its schedule, without the second a tick could have two runs, and its tokens
would begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice
from typing import Any, NamedTuple

from statemachine.codec import decode_job, decode_run
from statemachine.commands import PlainReply, PruneItem, PruneRuns, RunsPruned
from statemachine.keys import (
    AFTER_SEPARATOR,
    SEPARATOR,
    dead_key,
    parse_run_id,
    row_due_ms,
    row_key,
    row_prefix,
    row_run_id,
)
from statemachine.limits import CLOCK_OFF_MS, FIRE_AHEAD_MAX_MS, PRUNE_AFTER_MS, PRUNE_SCAN_MAX, PRUNED_RUNS_MAX
from statemachine.records import FINAL_STATES, Job, Run, RunKind, RunState
from statemachine.tables import Tables
from statemachine.ticks import last_version, rows_before, tick_row
from statemachine.work import EVERY_NODE, Work


class Keep(NamedTuple):
    """How much of a job's history stays: what ended since `after_ms`, and `runs` at most (None: all of that)."""

    after_ms: int
    runs: int | None


class Forgettable(NamedTuple):
    """What may go of a job, if anything, and how many rows were looked at to find it."""

    item: PruneItem | None
    looked_at: int


# --- asked by a reader


def forgettable(
    transaction: Any, tables: Tables, job: Job, keep: Keep, now_ms: int, runs_max: int = PRUNED_RUNS_MAX
) -> Forgettable:
    """What of a job may go now, up to so many runs; `now_ms` is the cluster's clock."""
    needed_ms, latest_ms = _needed_from_ms(transaction, tables, job), now_ms - PRUNE_AFTER_MS
    found: dict[str, None] = {}
    looked_at = 0
    for run_id, ended_before_ms in _outdated(transaction, tables, job.job_id, keep, latest_ms):
        if len(found) == runs_max or looked_at == PRUNE_SCAN_MAX:
            break
        looked_at += 1
        run = decode_run(transaction.get(run_id.encode(), db=tables.runs))
        if _may_go(run, needed_ms, min(ended_before_ms, latest_ms)):
            found[run_id] = None
    versions = next(_old_versions(transaction, tables, job), None) is not None
    forget = _is_forgotten(transaction, tables, job, min(keep.after_ms, latest_ms))
    if found or versions or forget:
        item = PruneItem(job_id=job.job_id, version=job.version, run_ids=tuple(found), versions=versions, job=forget)
        return Forgettable(item, looked_at)
    return Forgettable(None, looked_at)


def _outdated(transaction: Any, tables: Tables, job_id: str, keep: Keep, latest_ms: int) -> Iterator[tuple[str, int]]:
    """Runs of which there are newer ones enough, and those that are old enough; each with when it must have ended."""
    aged = ((run_id, keep.after_ms) for run_id in _oldest(transaction, tables, job_id, keep.after_ms))
    if keep.runs is None:
        return aged
    surplus = islice(_newest(transaction, tables, job_id), keep.runs, None)
    return chain(aged, ((run_id, latest_ms) for run_id in surplus))


def _oldest(transaction: Any, tables: Tables, job_id: str, before_ms: int) -> Iterator[str]:
    """Runs that were due before, of either class the oldest first."""
    for scheduled in (True, False):
        prefix = row_prefix(job_id, scheduled=scheduled)
        cursor = transaction.cursor(db=tables.job_runs)
        found = cursor.set_range(prefix)
        while found and cursor.key().startswith(prefix) and row_due_ms(cursor.key(), prefix) < before_ms:
            yield row_run_id(job_id, cursor.key())
            found = cursor.next()


def _newest(transaction: Any, tables: Tables, job_id: str) -> Iterator[str]:
    """All runs, the newest first."""

    def rows(scheduled: bool) -> Iterator[str]:
        for key, _ in rows_before(transaction, tables, row_prefix(job_id, scheduled=scheduled), None):
            yield row_run_id(job_id, key)

    return merge(rows(True), rows(False), reverse=True)


def deleted_jobs(transaction: Any, tables: Tables, after_id: str | None) -> Iterator[Job]:
    """Jobs that were deleted, as they were last, in order of id."""
    cursor = transaction.cursor(db=tables.job_archive)
    found = cursor.set_range(b"" if after_id is None else after_id.encode() + AFTER_SEPARATOR)
    while found:
        job_id = cursor.key().partition(SEPARATOR)[0]
        job = last_version(transaction, tables, job_id.decode())
        if job is not None and job.deleted_ms is not None:
            yield job
        found = cursor.set_range(job_id + AFTER_SEPARATOR)


# --- judged by both


def _needed_from_ms(transaction: Any, tables: Tables, job: Job) -> int | None:
    """From this tick on the rows of a live job are needed; None: they are not."""
    if job.deleted_ms is not None or job.first_due_ms is None:
        return None
    row = tick_row(transaction, tables, job)
    return job.first_due_ms if row is None else row.due_ms


def _may_go(run: Run, needed_ms: int | None, ended_before_ms: int) -> bool:
    if run.state not in FINAL_STATES or max(run.finished_ms or 0, run.until_ms or run.due_ms) >= ended_before_ms:
        return False
    return run.kind is not RunKind.SCHEDULED or needed_ms is None or run.due_ms < needed_ms


def _old_versions(transaction: Any, tables: Tables, job: Job) -> Iterator[bytes]:
    """Keys of archived definitions of which no run is left. A definition makes runs until it is replaced, of ticks
    that are up to a minute and a half ahead: so all of its runs are older than that."""
    archived = list(_archived(transaction, tables, job.job_id))
    successors = [one for _, one in archived[1:]] + ([job] if job.deleted_ms is None else [])
    oldest_ms = _oldest_due_ms(transaction, tables, job.job_id)
    for (key, _), successor in zip(archived, successors, strict=False):
        if oldest_ms is None or oldest_ms > successor.updated_ms + FIRE_AHEAD_MAX_MS + CLOCK_OFF_MS:
            yield key


def _archived(transaction: Any, tables: Tables, job_id: str) -> Iterator[tuple[bytes, Job]]:
    prefix = job_id.encode() + SEPARATOR
    cursor = transaction.cursor(db=tables.job_archive)
    found = cursor.set_range(prefix)
    while found and cursor.key().startswith(prefix):
        yield cursor.key(), decode_job(cursor.value())
        found = cursor.next()


def _oldest_due_ms(transaction: Any, tables: Tables, job_id: str) -> int | None:
    """When the job's oldest run was due; None: it has none."""
    dues = []
    for scheduled in (True, False):
        prefix = row_prefix(job_id, scheduled=scheduled)
        cursor = transaction.cursor(db=tables.job_runs)
        if cursor.set_range(prefix) and cursor.key().startswith(prefix):
            dues.append(row_due_ms(cursor.key(), prefix))
    return min(dues, default=None)


def _is_forgotten(transaction: Any, tables: Tables, job: Job, before_ms: int) -> bool:
    """Whether nothing is left of a deleted job but its last definition."""
    was_deleted = job.deleted_ms is not None and job.deleted_ms < before_ms
    return was_deleted and _oldest_due_ms(transaction, tables, job.job_id) is None


# --- applied


def prune_runs(work: Work, command: PruneRuns) -> PlainReply:
    """Remove what may go of what the command names; the rest stays without a word."""
    if sum(len(item.run_ids) for item in command.items) > PRUNED_RUNS_MAX:
        return PlainReply(code="malformed", detail="too many runs")
    pruned = [run for item in command.items for run in _prune(work, item)]
    if pruned:
        work.count("runs_pruned", len(pruned))
        work.emit(EVERY_NODE, RunsPruned(runs=tuple((run.run_id, run.attempt) for run in pruned)))
    return PlainReply()


def _prune(work: Work, item: PruneItem) -> list[Run]:
    job = work.job(item.job_id) or last_version(work.transaction, work.tables, item.job_id)
    if job is None or job.version != item.version:
        return []
    pruned = _prune_runs(work, job, item)
    if item.versions:
        for key in list(_old_versions(work.transaction, work.tables, job)):
            work.transaction.delete(key, db=work.tables.job_archive)
    if item.job and _is_forgotten(work.transaction, work.tables, job, work.now_ms - PRUNE_AFTER_MS):
        for key, _ in list(_archived(work.transaction, work.tables, job.job_id)):
            work.transaction.delete(key, db=work.tables.job_archive)
        work.transaction.delete(job.job_id.encode(), db=work.tables.job_stats)
    return pruned


def _prune_runs(work: Work, job: Job, item: PruneItem) -> list[Run]:
    needed_ms, latest_ms = _needed_from_ms(work.transaction, work.tables, job), work.now_ms - PRUNE_AFTER_MS
    pruned = []
    for run_id in item.run_ids:
        key, run = parse_run_id(run_id), work.run(run_id)
        if key is None or run is None or run.job_id != job.job_id or not _may_go(run, needed_ms, latest_ms):
            continue
        work.drop_run(run_id)
        if run.state is RunState.DEAD:
            work.transaction.delete(dead_key(run.team, run_id), db=work.tables.dead_runs)
        work.transaction.delete(row_key(key), db=work.tables.job_runs)
        pruned.append(run)
    return pruned
