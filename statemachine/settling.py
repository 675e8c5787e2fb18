"""Settling: what ended is added to the history of its job, and told to whom it concerns, behind the tick's path.

lifecycle.py notes every end in `ended`, in order. Each renewal of a session settles the oldest of them, sorted by job:
so a job's row is written once for all its runs of a second or two, and rows that are neighbours together.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from statemachine.aftermath import follow
from statemachine.codec import decode_ending, decode_stats, encode
from statemachine.history_records import Ending, JobStats, Notification
from statemachine.keys import RunKey, parse_run_id
from statemachine.limits import SETTLED_MAX
from statemachine.notices import events_of, with_told
from statemachine.outbox import owe
from statemachine.records import Job, Notify, NotifyEvent, RunState
from statemachine.stats import with_ending
from statemachine.tables import Tables
from statemachine.ticks import last_version
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
    live_job = work.job(job_id)
    job = live_job or last_version(work.transaction, work.tables, job_id)
    if job is None:
        return  # it was deleted long ago, and is forgotten with its history
    stats = read_stats(work.transaction, work.tables, job_id)
    notify = _notify_of(work, job)
    for ending in endings:
        stats = with_ending(stats, ending)
        if notify is not None:
            stats = _tell(work, job, notify, stats, ending)
    if live_job is not None:
        stats = follow(work, live_job, stats)
    work.transaction.put(job_id.encode(), encode(stats), db=work.tables.job_stats)


def _notify_of(work: Work, job: Job) -> Notify | None:
    """Whom the job tells: its own word counts, else that of its team."""
    if job.notify is not None:
        return job.notify
    team = work.team_record(job.team)
    return None if team is None else team.notify


def _tell(work: Work, job: Job, notify: Notify, stats: JobStats, ending: Ending) -> JobStats:
    """Owe what the ending gives cause for, and remember it; what found no room counts as not told."""
    for event in list(events_of(notify, stats, ending, work.now_ms)):
        if owe(work, _notification(job, notify, event, stats, ending)):
            stats = with_told(stats, event, work.now_ms)
    if ending.kind == "ended" and ending.state is RunState.SUCCEEDED:
        return replace(stats, told_failing=False)
    return stats


def _notification(job: Job, notify: Notify, event: NotifyEvent, stats: JobStats, ending: Ending) -> Notification:
    return Notification(
        event=event,
        url=notify.url,
        team=job.team,
        job_id=job.job_id,
        job_name=job.name,
        run_id=ending.run_id,
        attempt=ending.attempt,
        at_ms=ending.at_ms,
        reason=ending.reason,
        detail=ending.detail,
        failures=stats.consecutive_failures,
        late_ms=ending.late_ms if event == "late" else None,
    )


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
