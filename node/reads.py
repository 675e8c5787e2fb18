"""What a node answers from its own copy of the state.

A linearizable read waits for a barrier and then opens a NEW snapshot: one opened before may be of before. A local read
says how old it may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from node.admission import make_plan
from node.cursors import JOBS, dead_of, decode_cursor, encode_cursor, runs_of
from node.freshness import QuorumProbe
from node.interface import (
    LIST_LIMIT_DEFAULT,
    Consistency,
    JobPage,
    JobView,
    NotFound,
    Read,
    RunPage,
    Unavailable,
)
from node.misfire import next_open
from node.plans import closed_days_of
from node.waiting_reasons import explained
from raftlog.errors import LogError
from statemachine.reader import StateReader
from statemachine.records import Job, Run, RunState
from statemachine.snapshot import Snapshot

BARRIER_TIMEOUT_S = 5.0


class Reads:
    """The reading half of the scheduler."""

    def __init__(self, *, reader: StateReader, probe: QuorumProbe) -> None:
        self._reader = reader
        self._probe = probe

    async def job(self, job_id: str, *, consistency: Consistency = "linearizable") -> tuple[JobView, Read]:
        index = await self.stand_at(consistency)
        with self.open_at(index) as (snapshot, read):
            return _view(snapshot, live_job(snapshot, job_id)), read

    async def jobs(
        self,
        *,
        team: str | None = None,
        name: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> JobPage:
        after_id = decode_cursor(JOBS, cursor)
        index = await self.stand_at(consistency)
        with self.open_at(index) as (snapshot, read):
            found = snapshot.jobs(team=team, name=name, after_id=after_id, limit=limit + 1)
            items = [_view(snapshot, job) for job in found[:limit]]
        more = encode_cursor(JOBS, items[-1].job.job_id) if len(found) > limit else None
        return JobPage(items=items, next_cursor=more, read=read)

    async def run(self, run_id: str, *, consistency: Consistency = "linearizable") -> tuple[Run, Read]:
        index = await self.stand_at(consistency)
        with self.open_at(index) as (snapshot, read):
            run = snapshot.run(run_id)
            if run is None:
                raise NotFound(f"There is no run {run_id}.")
            return explained(snapshot, run), read

    async def runs_of_job(
        self,
        job_id: str,
        *,
        states: Sequence[RunState] = (),
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> RunPage:
        """A deleted job's history stays readable."""
        before = decode_cursor(runs_of(job_id), cursor)
        index = await self.stand_at(consistency)
        with self.open_at(index) as (snapshot, read):
            if snapshot.job(job_id) is None:
                raise NotFound(f"There is no job {job_id}.")
            page = snapshot.runs_of_job(job_id, states, from_ms, to_ms, before, limit)
            items = [explained(snapshot, run) for run in page.items]
        more = None if page.next_key is None else encode_cursor(runs_of(job_id), page.next_key)
        return RunPage(items=items, next_cursor=more, read=read)

    async def dead_runs(
        self,
        *,
        team: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> RunPage:
        before = decode_cursor(dead_of(team), cursor)
        index = await self.stand_at(consistency)
        with self.open_at(index) as (snapshot, read):
            page = snapshot.dead_runs(team, before_key=before, limit=limit)
        more = None if page.next_key is None else encode_cursor(dead_of(team), page.next_key)
        return RunPage(items=page.items, next_cursor=more, read=read)

    async def stand_at(self, consistency: Consistency = "linearizable") -> int:
        """The index that a snapshot must have reached; 0 for a local read. Raises Unavailable."""
        if consistency == "local":
            return 0
        try:
            return await self._probe.barrier(BARRIER_TIMEOUT_S)
        except LogError as error:
            raise Unavailable from error

    @contextmanager
    def open_at(self, index: int) -> Iterator[tuple[Snapshot, Read]]:
        """A new snapshot at or past the index, and where it stands."""
        with self._reader.snapshot() as snapshot:
            applied = snapshot.applied_index()
            assert applied >= index, "a barrier answers only after the commit that it names"
            stale_s = 0.0 if index else self._probe.stale_s
            yield snapshot, Read(applied_index=applied, stale_s=stale_s)


def live_job(snapshot: Snapshot, job_id: str) -> Job:
    """Raises NotFound for one that was deleted, too."""
    job = snapshot.job(job_id)
    if job is None or job.deleted_ms is not None:
        raise NotFound(f"There is no job {job_id}.")
    return job


def _view(snapshot: Snapshot, job: Job) -> JobView:
    return JobView(job=job, next_run_ms=_next_run_ms(snapshot, job), stats=snapshot.job_stats(job.job_id))


def _next_run_ms(snapshot: Snapshot, job: Job) -> int | None:
    """The tick that the job stands at, or the first after it that its calendars let run."""
    next_ms = snapshot.next_run_ms(job.job_id)
    if next_ms is None or not job.exclude_calendars:
        return next_ms
    return next_open(make_plan(job).ticks, closed_days_of(snapshot, job), next_ms - 1)
