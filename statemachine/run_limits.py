"""`max_runs`: how many ticks of a job may become runs, counted where they do (in Fire), so that the number is exact.

Counted is every run that is made of a tick, whatever becomes of it, from when the job got its limit; manual runs and
backfills are not. A run that is made anew for a tick was counted before. A job that has all its runs stands at no tick.
"""

from __future__ import annotations

import msgspec

from statemachine.commands import FireItem, FireRun
from statemachine.keys import U64, run_id_of
from statemachine.records import Job
from statemachine.work import Work


def within_limit(work: Work, job: Job, item: FireItem) -> FireItem:
    """The item as far as the job's limit goes. The limit's last run ends the job: it has no next tick."""
    assert job.max_runs is not None
    made = runs_made(work, job.job_id)
    kept: list[FireRun] = []
    end_ms = None
    for tick in item.runs:
        is_new = work.run(run_id_of(job.job_id, tick.due_ms)) is None
        if is_new and made >= job.max_runs:
            end_ms = tick.due_ms
            break
        made += is_new
        kept.append(tick)
    work.transaction.put(job.job_id.encode(), U64.pack(made), db=work.tables.run_counts)
    if made < job.max_runs:
        return item
    work.put_job(msgspec.structs.replace(job, first_due_ms=None))
    skips = tuple([ticks for ticks in item.skips if end_ms is None or ticks.until_ms < end_ms])
    return msgspec.structs.replace(item, runs=tuple(kept), skips=skips, next_ms=None)


def runs_made(work: Work, job_id: str) -> int:
    """How many runs have counted for the job's limit."""
    value = work.transaction.get(job_id.encode(), db=work.tables.run_counts)
    return 0 if value is None else int(U64.unpack(value)[0])


def forget_runs_made(work: Work, job: Job) -> None:
    """The job has no limit any more, or is gone."""
    if job.max_runs is not None:
        work.transaction.delete(job.job_id.encode(), db=work.tables.run_counts)
