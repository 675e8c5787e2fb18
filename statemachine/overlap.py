"""Overlap: whether a run whose time has come may begin beside the others of its job, and what becomes of it if not.

Judged against all runs of the job, whatever made them. A run counts as active from its release until it is final, a
retry's wait and a lost session included: so whatever ends it, by whatever command, frees its place in the same apply,
and no crash can block a job for ever. What is held back is parked, in order of release; `promote_freed` lets it go.
Nothing is ever parked without an active run of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from statemachine.concurrency import is_judged, limit_of
from statemachine.deadlines import is_late_to_begin
from statemachine.keys import U64, parked_prefix, row_prefix, row_run_id
from statemachine.lifecycle import CATCHING_UP, activate, change, skip
from statemachine.limits import OVERLAP_SCAN_MAX, PARKED_MAX
from statemachine.records import FINAL_STATES, Job, OverlapPolicy, Run, RunState, SkipReason
from statemachine.stopping import stop
from statemachine.supersede import is_superseded, supersede
from statemachine.ticks import rows_before
from statemachine.transitions import Move
from statemachine.work import Work

REPLACED = "replaced"


def judge(work: Work, run: Run) -> None:
    """Decide what becomes of a run whose time has come."""
    job = work.job(run.job_id)
    if job is None or is_superseded(work, run):
        supersede(work, run)
        return
    if is_late_to_begin(work, run):
        skip(work, run, SkipReason.DEADLINE.value)
        return
    policy = run.overlap_policy or job.overlap_policy
    if not is_judged(job):
        if policy == "allow" and not run.catch_up:
            change(work, run, Move.RELEASE)
            return
        mark_active_runs(work, job, due_only=True)
    limit, standing = limit_of(job, policy), _standing_of(work, job.job_id)
    in_order = _is_in_order(work, run, standing)
    is_next = standing.parked is None or (limit is None and not in_order)
    if is_next and _may_go(run, limit, standing):
        change(work, activate(work, run), Move.RELEASE)
    elif policy == "replace" and not in_order:
        _replace(work, job, run, standing)
    elif run.catch_up or _may_park(work, run, policy, standing, in_order=in_order):
        _park(work, run)
    else:
        cause = standing.parked if policy == "queue_one" and standing.parked is not None else standing.cause
        skip(work, run, f"{SkipReason.OVERLAP.value}: {cause}")


def promote_freed(work: Work) -> None:
    """Let go what is not held back any more, of every job of which something ended since the last time."""
    for job_id in sorted(work.freed):
        _promote(work, job_id)
    work.freed.clear()


def mark_active_runs(work: Work, job: Job, *, due_only: bool = False) -> None:
    """The job's runs are judged from now on: let that see the released runs that it made before."""
    for scheduled in (True, False):
        prefix = row_prefix(job.job_id, scheduled=scheduled)
        for key, _ in islice(rows_before(work.transaction, work.tables, prefix, None), OVERLAP_SCAN_MAX):
            run = work.run(row_run_id(job.job_id, key))
            assert run is not None, "a row must have its run"
            if _is_active(run) and not run.exclusive and not (due_only and run.release_ms > work.now_ms):
                activate(work, run)


def _is_active(run: Run) -> bool:
    return run.state not in FINAL_STATES and run.state is not RunState.SCHEDULED and not run.parked


class _Standing(NamedTuple):
    """What stands in the way of one more run of a job."""

    active: list[str]
    """Ids of the active runs, the earliest due first."""
    is_catching_up: bool
    """Whether one of them makes a missed tick good."""
    parked: str | None
    """The first that is parked."""

    @property
    def cause(self) -> str | None:
        """The run that a skip names."""
        return self.active[0] if self.active else self.parked


def _standing_of(work: Work, job_id: str) -> _Standing:
    prefix = parked_prefix(job_id)
    active = [(key[len(prefix) :].decode(), value) for key, value in _under(work, work.tables.active_by_job, prefix)]
    is_catching_up = any(value == CATCHING_UP for _, value in active)
    return _Standing([run_id for run_id, _ in active], is_catching_up, next(parked_ids(work, job_id), None))


def _is_in_order(work: Work, run: Run, standing: _Standing) -> bool:
    """Whether the run has its place in a row of ticks that are made good one after another, whatever the policy. One
    that somebody asked for with `allow` has not."""
    first = None if standing.parked is None else _existing(work, standing.parked)
    is_catching_up = standing.is_catching_up or (first is not None and first.catch_up)
    return run.catch_up or (is_catching_up and run.overlap_policy != "allow")


def _may_go(run: Run, limit: int | None, standing: _Standing) -> bool:
    """Whether no active run holds it back."""
    if run.catch_up:
        return not standing.active
    if standing.is_catching_up and run.overlap_policy != "allow":
        return False
    return limit is None or len(standing.active) < limit


def _may_park(work: Work, run: Run, policy: OverlapPolicy, standing: _Standing, *, in_order: bool) -> bool:
    if policy == "skip" and not in_order:
        return False
    if policy == "queue_one" and not in_order:
        return standing.parked is None
    return not is_backlog_full(work, run.job_id)


def is_backlog_full(work: Work, job_id: str) -> bool:
    """Whether no more runs of the job can be held back."""
    return sum(1 for _ in islice(parked_ids(work, job_id), PARKED_MAX)) == PARKED_MAX


def _park(work: Work, run: Run) -> None:
    change(work, run, Move.PARK, parked=True)
    work.freed.add(run.job_id)


def _replace(work: Work, job: Job, run: Run, standing: _Standing) -> None:
    """Let the run take the place of those before it: of the parked ones at once, of active ones when they have ended.
    Those that end already make room first."""
    for run_id in list(parked_ids(work, job.job_id)):
        skip(work, _existing(work, run_id), f"{SkipReason.OVERLAP.value}: {run.run_id}")
    active = [_existing(work, run_id) for run_id in standing.active]
    lasting = [other for other in active if other.stop is None]
    surplus = len(lasting) + 1 - (limit_of(job, "replace") or 1)
    for other in lasting[: max(surplus, 0)]:
        stop(work, other, f"{REPLACED}: {run.run_id}")
    _park(work, run)


def _promote(work: Work, job_id: str) -> None:
    """Let parked runs of a job go, from the first on, for as long as there is room. What a change of the definition
    has overtaken ends here."""
    while (run_id := next(parked_ids(work, job_id), None)) is not None:
        run, job = _existing(work, run_id), work.job(job_id)
        if job is None or is_superseded(work, run):
            supersede(work, run)
            continue
        if not _may_go(run, limit_of(job, run.overlap_policy or job.overlap_policy), _standing_of(work, job_id)):
            return
        # Its start is awaited from now on: what it waited for before is no delay.
        release_ms = max(run.release_ms, work.now_ms)
        activate(work, change(work, run, Move.PROMOTE, parked=False, release_ms=release_ms))


def parked_ids(work: Work, job_id: str) -> Iterator[str]:
    """In order of release."""
    prefix = parked_prefix(job_id)
    for key, _ in _under(work, work.tables.parked, prefix):
        yield key[len(prefix) + U64.size :].decode()


def _under(work: Work, table: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    cursor = work.transaction.cursor(db=table)
    found = cursor.set_range(prefix)
    while found and cursor.key().startswith(prefix):
        yield cursor.item()
        found = cursor.next()


def _existing(work: Work, run_id: str) -> Run:
    run = work.run(run_id)
    assert run is not None, "a listed run must exist"
    return run
