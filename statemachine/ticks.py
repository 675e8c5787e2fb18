"""Where a job stands: its next tick, and the rows that say so.

The next tick lives in the last row that a Fire wrote for the job, so a tick moves without a write by job. The `due`
index has one entry a job, at that tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from statemachine.codec import decode_job, encode
from statemachine.commands import DueChanged
from statemachine.keys import SEPARATOR, bucket_of, due_key, row_due_ms, row_prefix, unpack_row
from statemachine.records import DueEntry, Job
from statemachine.tables import Tables
from statemachine.work import Work


class TickRow(NamedTuple):
    """The last tick that a job came past, and the one after it."""

    due_ms: int
    next_ms: int | None


def next_tick(transaction: Any, tables: Tables, job: Job) -> int | None:
    """The tick that the live job stands at; None if no tick is to come, or it is paused.

    Rows of earlier versions may lie beyond the job's first tick (they were made ahead of their time), never many: they
    are stepped over."""
    if job.paused_ms is not None:
        return None
    row = tick_row(transaction, tables, job)
    return job.first_due_ms if row is None else row.next_ms


def tick_row(transaction: Any, tables: Tables, job: Job) -> TickRow | None:
    """The row that says which tick a live job stands at; None: it has passed none yet."""
    if job.first_due_ms is None:
        return None
    prefix = row_prefix(job.job_id, scheduled=True)
    for key, value in rows_before(transaction, tables, prefix, None):
        due_ms = row_due_ms(key, prefix)
        if due_ms < job.first_due_ms:
            break
        version, next_ms = unpack_row(value)
        if version == job.version:
            return TickRow(due_ms, next_ms)
    return None


def rows_before(transaction: Any, tables: Tables, prefix: bytes, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """The rows of `job_runs` under a prefix, newest first, from below the key `before`."""
    cursor = transaction.cursor(db=tables.job_runs)
    end = prefix + b"\xff" if before is None else before
    found = cursor.prev() if cursor.set_range(end) else cursor.last()
    while found and cursor.key().startswith(prefix):
        yield cursor.item()
        found = cursor.prev()


def first_unrecorded(transaction: Any, tables: Tables, job: Job) -> int | None:
    """The first tick of the live job that has neither a run nor a skip; None if no tick is to come."""
    return job.first_due_ms if job.paused_ms is not None else next_tick(transaction, tables, job)


def last_version(transaction: Any, tables: Tables, job_id: str) -> Job | None:
    """The newest archived definition: of a deleted job the last one, of a live one the version before."""
    prefix = job_id.encode() + SEPARATOR
    cursor = transaction.cursor(db=tables.job_archive)
    found = cursor.prev() if cursor.set_range(prefix + b"\xff") else cursor.last()
    return decode_job(cursor.value()) if found and cursor.key().startswith(prefix) else None


def stand_at(work: Work, job: Job, due_ms: int) -> None:
    """Enter the job's next tick into the index."""
    key = due_key(due_ms, bucket_of(job.job_id), job.job_id)
    work.transaction.put(key, encode(DueEntry(version=job.version)), db=work.tables.due)


def leave_tick(work: Work, job: Job) -> None:
    """Take the job's next tick out of the index (the job is changed or deleted)."""
    due_ms = next_tick(work.transaction, work.tables, job)
    if due_ms is not None:
        key = due_key(due_ms, bucket_of(job.job_id), job.job_id)
        found = work.transaction.delete(key, db=work.tables.due)
        assert found, "a job's next tick must stand in the index"


def tell_owner(work: Work, job_id: str, at_ms: int) -> None:
    """A tick or timer appeared outside the usual course: the owner may have looked past it already."""
    owner = work.owner_of(job_id)
    if owner is not None:
        work.emit(owner, DueChanged(at_ms=at_ms))
