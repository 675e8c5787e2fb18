"""I1, I2: each due time of a job has one run or stands in one recorded skip, and there are no others.

The workload's jobs tick at the multiples of a period, so what is expected is computed here without the product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from chaos.history import FinalState, Fired, History, Violation
from node.interface import Job, Run, RunKind, RunState

BOUND_MS = 10_000
"""A tick that is due so long before the end must be accounted for."""
CLOCKS_MS = 4_000
"""How far the wall clocks of the nodes may be off: first ticks are computed on them."""
_EVERY = re.compile(r"@every (\d+)s")


def one_run_a_tick(history: History) -> Iterator[Violation]:
    """I1: no tick was fired twice, nor both fired and skipped."""
    seen: Counter[tuple[str, int]] = Counter()
    for entry in history.truth:
        if isinstance(entry, Fired):
            seen.update((entry.job_id, due_ms) for due_ms in entry.runs_ms)
    for (job_id, due_ms), count in seen.items():
        if count > 1:
            yield Violation(promise="I1", what=f"job {job_id} was fired {count} times for {due_ms}")
    for entry in history.truth:
        if isinstance(entry, Fired):
            for from_ms, until_ms, _, reason in entry.skips:
                for job_id, due_ms in seen:
                    if job_id == entry.job_id and from_ms <= due_ms <= until_ms:
                        yield Violation(
                            promise="I1", what=f"job {job_id}: {due_ms} has a run and is skipped ({reason})"
                        )


def every_tick_accounted(history: History) -> Iterator[Violation]:
    """I2: from a job's first tick up to shortly before the end (of a deleted job: up to the last tick that was
    accounted for), no tick is missing, doubled or invented."""
    for state in history.states:
        for job in state.jobs.values():
            yield from _faults_of_job(history, state, job)


def _faults_of_job(history: History, state: FinalState, job: Job) -> Iterator[Violation]:
    period_ms = _period_ms(job)
    if period_ms is None or job.first_due_ms is None:
        return
    where = f"{state.node}: job {job.job_id}"
    first_ms = job.first_due_ms
    if first_ms % period_ms or not -CLOCKS_MS < first_ms - job.created_ms <= period_ms + CLOCKS_MS:
        yield Violation(promise="I2", what=f"{where}: first tick {first_ms}, made at {job.created_ms}")
        return
    accounted = Counter(_ticks_in(state, job.job_id, period_ms))
    until_ms = history.wall_ms(history.end_s) - BOUND_MS
    if job.deleted_ms is not None:
        until_ms = max(accounted, default=0)
    expected = set(range(first_ms, until_ms + 1, period_ms))
    for due_ms in sorted(expected - accounted.keys()):
        yield Violation(promise="I2", what=f"{where}: tick {due_ms} has neither run nor skip")
    for due_ms, count in sorted(accounted.items()):
        if due_ms < first_ms or due_ms % period_ms:
            yield Violation(promise="I2", what=f"{where}: {due_ms} is no tick of it")
        elif count > 1:
            yield Violation(promise="I2", what=f"{where}: tick {due_ms} is accounted for {count} times")


def _period_ms(job: Job) -> int | None:
    found = _EVERY.fullmatch(job.expressions[0]) if len(job.expressions) == 1 else None
    return None if found is None else int(found[1]) * 1000


def _ticks_in(state: FinalState, job_id: str, period_ms: int) -> Iterator[int]:
    for run in state.runs.values():
        if run.job_id == job_id and run.kind is RunKind.SCHEDULED:
            yield from _ticks_of(run, period_ms)


def _ticks_of(run: Run, period_ms: int) -> Iterator[int]:
    """A skip stands for a range; its count must fit, or the odd ones show as invented ticks."""
    if run.state is not RunState.SKIPPED or run.until_ms is None:
        yield run.due_ms
        return
    ticks = range(run.due_ms, run.until_ms + 1, period_ms)
    yield from ticks
    if len(ticks) != run.count:
        yield -run.due_ms
