"""What stands in a node's state, as values of a history: of simulated nodes and of real ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from chaos.history import FinalState
from node.interface import FINAL_STATES, Job, Run
from statemachine.snapshot import Snapshot

JOBS_MAX = 10_000
RUNS_A_PAGE = 1000


class ApplierView(Protocol):
    """statemachine.reader.StateReader, by shape."""

    def snapshot(self) -> AbstractContextManager[Snapshot]: ...


def final_state(node: str, snapshot: Snapshot, job_ids: Iterable[str]) -> FinalState:
    """`job_ids`: jobs to look for besides those that live: deleted ones are in no list."""
    known = sorted({*job_ids, *(job.job_id for job in snapshot.jobs(limit=JOBS_MAX))})
    jobs: Mapping[str, Job] = {job_id: job for job_id in known if (job := snapshot.job(job_id)) is not None}
    return FinalState(
        node=node,
        applied_index=snapshot.applied_index(),
        digest=snapshot.digest(),
        jobs=jobs,
        next_ms={job_id: snapshot.next_run_ms(job_id) for job_id in known},
        runs={run.run_id: run for job_id in known for run in runs_of(snapshot, job_id)},
        held={team: snapshot.team_use(team).held for team in sorted({job.team for job in jobs.values()})},
    )


def runs_of(snapshot: Snapshot, job_id: str) -> list[Run]:
    runs: list[Run] = []
    page = snapshot.runs_of_job(job_id, limit=RUNS_A_PAGE)
    while page.items or page.next_key:
        runs += page.items
        if page.next_key is None:
            break
        page = snapshot.runs_of_job(job_id, limit=RUNS_A_PAGE, before_key=page.next_key)
    return runs


def unfinished(snapshot: Snapshot, job_ids: Iterable[str], released_before_ms: int) -> int:
    """How many runs that were released before then are not final."""
    known = {*job_ids, *(job.job_id for job in snapshot.jobs(limit=JOBS_MAX))}
    return sum(
        run.state not in FINAL_STATES and run.release_ms < released_before_ms
        for job_id in known
        for run in runs_of(snapshot, job_id)
    )
