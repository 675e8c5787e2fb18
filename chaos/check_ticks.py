"""I1, I2: each due time of a job has one run or stands in one recorded skip, and there are no others.

What is expected is computed without the product (calendar_ticks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos.calendar_ticks import ticks_of
from chaos.history import Defined, FinalState, Fired, History, Violation
from node.interface import Job, Run, RunKind, RunState, SkipReason

BOUND_MS = 10_000
"""A tick that is due so long before the end must be accounted for."""
AHEAD_MS = 60_000
"""Runs are made no longer ahead of their time than this."""
CLOCKS_MS = 4_000
"""How far the wall clocks of the nodes may be off: first ticks are computed on them."""
TAKEN_BACK = (SkipReason.PAUSED.value, SkipReason.SUPERSEDED.value)


def one_run_a_tick(history: History) -> Iterator[Violation]:
    """I1: no tick was fired twice, nor both fired and skipped, by one definition of its job. A later one may come to a
    tick that an earlier one had fired ahead: there is one run of it all the same, since its name is the tick."""
    seen: Counter[tuple[str, int, int]] = Counter()
    for entry in history.truth:
        if isinstance(entry, Fired):
            seen.update((entry.job_id, entry.version, due_ms) for due_ms in entry.runs_ms)
    for (job_id, _, due_ms), count in seen.items():
        if count > 1:
            yield Violation(promise="I1", what=f"job {job_id} was fired {count} times for {due_ms}")
    for entry in history.truth:
        if isinstance(entry, Fired):
            for from_ms, until_ms, _, reason in entry.skips:
                for job_id, version, due_ms in seen:
                    if (job_id, version) == (entry.job_id, entry.version) and from_ms <= due_ms <= until_ms:
                        yield Violation(
                            promise="I1", what=f"job {job_id}: {due_ms} has a run and is skipped ({reason})"
                        )


def every_tick_accounted(history: History) -> Iterator[Violation]:
    """I2: from a job's first tick up to shortly before the end (of a deleted job: up to the last tick that was
    accounted for; of a paused one: up to where its pause began), no tick is missing, doubled or invented."""
    created = {
        entry.job_id: entry.first_ms for entry in history.truth if isinstance(entry, Defined) and entry.version == 1
    }
    for state in history.states:
        for job in state.jobs.values():
            first_ms = job.first_due_ms if job.version == 1 else created.get(job.job_id, job.first_due_ms)
            yield from _faults_of_job(history, state, job, first_ms)


def _faults_of_job(history: History, state: FinalState, job: Job, first_ms: int | None) -> Iterator[Violation]:
    where = f"{state.node}: job {job.job_id}"
    begin_ms = max(job.created_ms, job.starts_at_ms or 0)
    until_ms = history.wall_ms(history.end_s) - BOUND_MS
    ticks = _ticks_between(job, begin_ms - CLOCKS_MS, history.wall_ms(history.end_s) + AHEAD_MS)
    if first_ms is None and job.deleted_ms is not None:
        return
    if not _is_first(first_ms, ticks, begin_ms):
        yield Violation(promise="I2", what=f"{where}: first tick {first_ms}, made at {job.created_ms}")
        return
    if first_ms is None or job.ends_at_ms is not None:
        return
    accounted = Counter(_ticks_in(state, job.job_id, ticks))
    if job.deleted_ms is not None:
        until_ms = max(accounted, default=0)
    elif job.paused_ms is not None and job.first_due_ms is not None:
        until_ms = min(until_ms, job.first_due_ms - 1)
    # A change that is stamped by another clock may come to a tick that the creation took for past.
    earliest_ms = first_ms if job.version == 1 else min(first_ms, begin_ms - CLOCKS_MS)
    expected = {tick for tick in ticks if first_ms <= tick <= until_ms}
    for due_ms in sorted(expected - accounted.keys()):
        yield Violation(promise="I2", what=f"{where}: tick {due_ms} has neither run nor skip")
    for due_ms, count in sorted(accounted.items()):
        if due_ms < earliest_ms or due_ms not in ticks:
            yield Violation(promise="I2", what=f"{where}: {due_ms} is no tick of it")
        elif count > 1:
            yield Violation(promise="I2", what=f"{where}: tick {due_ms} is accounted for {count} times")


def _ticks_between(job: Job, from_ms: int, until_ms: int) -> set[int]:
    if job.run_at_ms is not None:
        return {job.run_at_ms}
    return ticks_of(job.expressions, job.tz, from_ms, until_ms)


def _is_first(first_ms: int | None, ticks: set[int], begin_ms: int) -> bool:
    """The first tick after the job was made, on a clock that may be a little off; if that is beyond all that happened,
    it is not looked at."""
    surely_later = {tick for tick in ticks if tick > begin_ms + CLOCKS_MS}
    if first_ms in ticks:
        return first_ms <= min(surely_later, default=first_ms)
    return not surely_later and (first_ms is None or first_ms > max(ticks, default=0))


def _ticks_in(state: FinalState, job_id: str, ticks: set[int]) -> Iterator[int]:
    """What was made ahead of its time and taken back may stand in the range that was paused or passed over, too."""
    runs = [run for run in state.runs.values() if run.job_id == job_id and run.kind is RunKind.SCHEDULED]
    accounted = [tick for run in runs if not _was_taken_back(run) for tick in _ticks_of(run, ticks)]
    yield from accounted
    yield from {run.due_ms for run in runs if _was_taken_back(run)} - set(accounted)


def _was_taken_back(run: Run) -> bool:
    """A single tick that was skipped because its job was paused or changed, or cancelled before it began."""
    word = (run.reason or "").partition(": ")[0]
    if run.state is RunState.CANCELLED:
        return not run.attempts
    return run.state is RunState.SKIPPED and run.until_ms is None and word in TAKEN_BACK


def _ticks_of(run: Run, ticks: set[int]) -> Iterator[int]:
    """A skip stands for a range; its count must fit, or the odd ones show as invented ticks."""
    if run.state is not RunState.SKIPPED or run.until_ms is None:
        yield run.due_ms
        return
    skipped = [tick for tick in ticks if run.due_ms <= tick <= run.until_ms]
    yield from skipped
    if len(skipped) != run.count:
        yield -run.due_ms
