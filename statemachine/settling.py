"""Settling: what ended is added to the history of its job, behind the tick's path.

lifecycle.py notes every end in `ended`, in order. Each renewal of a session settles the oldest of them, sorted by job:
so a job's row is written once for all its runs of a second or two, and rows that are neighbours together.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from statemachine.codec import decode_ending, decode_stats, encode
from statemachine.history_records import Ending, JobStats
from statemachine.keys import RunKey, parse_run_id
from statemachine.limits import SETTLED_MAX
from statemachine.stats import with_ending
from statemachine.tables import Tables
from statemachine.work import Work


def settle(work: Work) -> None:
    """Settle the oldest ends, SETTLED_MAX at most."""
    endings = sorted(_take(work), key=_job_of)
    for job_id, group in groupby(endings, key=_job_of):
        _settle_job(work, job_id, group)


def read_stats(transaction: Any, tables: Tables, job_id: str) -> JobStats:
    """The job's history as far as it is settled."""
    value = transaction.get(job_id.encode(), db=tables.job_stats)
    return JobStats() if value is None else decode_stats(value)


def _settle_job(work: Work, job_id: str, endings: Iterable[Ending]) -> None:
    stats = read_stats(work.transaction, work.tables, job_id)
    for ending in endings:
        stats = with_ending(stats, ending)
    work.transaction.put(job_id.encode(), encode(stats), db=work.tables.job_stats)


def _take(work: Work) -> Iterable[Ending]:
    cursor = work.transaction.cursor(db=work.tables.ended)
    for _ in range(SETTLED_MAX):
        if not cursor.first():
            return
        yield decode_ending(cursor.value())
        cursor.delete()


def _job_of(ending: Ending) -> str:
    key = parse_run_id(ending.run_id)
    assert isinstance(key, RunKey), "only runs end"
    return key.job_id
