"""Redrive: dead runs, tried anew.

What died of a wrong definition is redriven after that was mended, so it runs by the job's current one. It keeps its id,
its history and its token, which only rises.
"""

from __future__ import annotations

from statemachine.commands import PlainReply, Redrive, Reply
from statemachine.lifecycle import UNCLAIMED, change
from statemachine.overlap import is_backlog_full, judge
from statemachine.records import Job, Run, RunState
from statemachine.transitions import Move
from statemachine.work import Work


def redrive(work: Work, command: Redrive) -> Reply:
    """Let a dead run begin anew, and judge its overlap at once: it waits for others, but is never skipped for them."""
    run = work.run(command.run_id)
    if run is None:
        return PlainReply(code="unknown_run")
    if run.state is not RunState.DEAD:
        return PlainReply(code="illegal_state", detail=run.state.value)
    job = work.job(run.job_id)
    if job is None:
        return PlainReply(code="unknown_job")
    if is_backlog_full(work, job.job_id):
        return PlainReply(code="backlog")
    judge(work, _begin_anew(work, run, job))
    return PlainReply()


def _begin_anew(work: Work, run: Run, job: Job) -> Run:
    return change(
        work,
        run,
        Move.REDRIVE,
        **UNCLAIMED,
        job_version=job.version,
        priority=job.priority,
        reason=None,
        attempt=run.attempt + 1,
        attempts_max=run.attempt + 1 + job.max_retries,
        release_ms=max(run.release_ms, work.now_ms),
        finished_ms=None,
        retry_at_ms=None,
        log_bytes=None,
        exclusive=False,
        catch_up=False,
        overlap_policy=None if job.overlap_policy == "allow" else "queue_all",
        start_by_ms=None,
        end_by_ms=None,
    )
