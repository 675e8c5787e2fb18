"""What the model knows of the past: everything that ended, in order, and what was told of it. A job's history is
counted anew each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from statemachine.history_records import JobStats
from statemachine.records import Job, Notify, Run, RunState

FINAL = (RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED, RunState.SKIPPED)
GONE_WELL = RunState.SUCCEEDED


class Change(NamedTuple):
    """A run before and after it went from one state to another."""

    before: Run
    run: Run


class Told(NamedTuple):
    job_id: str
    event: str
    run_id: str
    at_ms: int
    place: int
    """Of the change that was the cause of it."""


class ModelHistory:
    """Changes of runs in order, and how many of them are settled: those of the applies before the last renewal."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.noted = self.settled = 0
        self.told: list[Told] = []
        self.forgotten: dict[str, int] = {}
        """Jobs of which all is forgotten that had happened by then."""
        self.answered: dict[str, tuple[str | None, int]] = {}
        """By job: how many failures since which success it was paused for."""

    def forget(self, job_id: str) -> None:
        self.forgotten[job_id] = len(self.changes)
        self.answered.pop(job_id, None)

    def changes_of(self, job_id: str, until: int) -> list[tuple[int, Change]]:
        so_far = enumerate(self.changes[:until])
        known_from = self.forgotten.get(job_id, 0)
        return [(at, change) for at, change in so_far if change.run.job_id == job_id and at >= known_from]

    def told_of(self, job_id: str) -> list[Told]:
        known_from = self.forgotten.get(job_id, 0)
        return [told for told in self.told if told.job_id == job_id and told.place >= known_from]

    def begin_apply(self) -> None:
        self.noted = len(self.changes)

    def settle(self, jobs: Mapping[str, Job], now_ms: int) -> None:
        """Tell what has happened since, job by job."""
        fresh = range(self.settled, self.noted)
        for place in sorted(fresh, key=lambda place: (self.changes[place].run.job_id, place)):
            job_id = self.changes[place].run.job_id
            job = jobs.get(job_id) if place >= self.forgotten.get(job_id, 0) else None
            if job is not None and job.notify is not None:
                self.tell(job.notify, place, now_ms)
        self.settled = self.noted

    def tell(self, notify: Notify, place: int, now_ms: int) -> None:
        run = self.changes[place].run
        for event in self.events(notify, place):
            before = [told.at_ms for told in self.told_of(run.job_id) if told.event == event]
            silent = event != "recovered" and before and 0 <= now_ms - before[-1] < notify.silence_s * 1000
            if event in notify.on and not silent:
                self.told.append(Told(run.job_id, event, run.run_id, now_ms, place))

    def events(self, notify: Notify, place: int) -> Iterator[str]:
        before, run = self.changes[place]
        if is_late(before, run, notify):
            yield "late"
        changes = [
            (at, change) for at, change in enumerate(self.changes[: place + 1]) if change.run.job_id == run.job_id
        ]
        since = max([at for at, change in changes[:-1] if change.run.state is GONE_WELL], default=-1)
        dead = len([at for at, change in changes if at > since and change.run.state is RunState.DEAD])
        retried = len([at for at, change in changes if at > since and change.run.state is RunState.RETRYING])
        told_since = [t for t in self.told_of(run.job_id) if t.place > since]
        if run.state is RunState.DEAD and "dead" in notify.on and dead >= notify.threshold:
            yield "dead"
        elif run.state in (RunState.DEAD, RunState.RETRYING) and dead + retried >= notify.threshold:
            yield "failed"
        elif run.state is GONE_WELL and any(told.event in ("dead", "failed") for told in told_since):
            yield "recovered"
        elif run.state is RunState.SKIPPED and str(run.reason).split(":")[0] in ("overlap", "misfire", "deadline"):
            yield "skipped"

    def answered_of(self, job_id: str, last_success: str | None) -> int:
        success, failures = self.answered.get(job_id, (None, 0))
        return failures if success == last_success else 0

    def stats_of(self, job_id: str) -> JobStats:
        changes = [change for _, change in self.changes_of(job_id, self.settled)]
        ended = [run for _, run in changes if run.state in FINAL]
        reopened = [before for before, run in changes if before.state in FINAL and run.state not in FINAL]
        by_state = {state: _count(ended, state) - _count(reopened, state) for state in FINAL}
        skipped = RunState.SKIPPED
        tried = [run for run in ended if run.state is not skipped]
        succeeded = [run for run in ended if run.state is GONE_WELL]
        dead = [run for run in ended if run.state is RunState.DEAD]
        since = [run for _, run in changes]
        since = since[since.index(succeeded[-1]) + 1 :] if succeeded else since
        last = tried[-1] if tried else None
        told = {told.event: told.at_ms for told in self.told_of(job_id)}
        well = max([at for at, one in enumerate(self.changes[: self.settled]) if one.run in succeeded], default=-1)
        failing = [t for t in self.told_of(job_id) if t.event in ("dead", "failed") and t.place > well]
        return JobStats(
            succeeded=by_state[GONE_WELL],
            dead=by_state[RunState.DEAD],
            cancelled=by_state[RunState.CANCELLED],
            skipped=by_state[skipped],
            ticks_skipped=_ticks(ended, skipped) - _ticks(reopened, skipped),
            retried=_count([run for _, run in changes], RunState.RETRYING),
            consecutive_failures=_count(since, RunState.DEAD),
            last_outcome=last and last.state,
            last_run_id=last and last.run_id,
            last_ms=last and last.finished_ms,
            last_success_run_id=succeeded[-1].run_id if succeeded else None,
            last_success_ms=succeeded[-1].finished_ms if succeeded else None,
            last_failure_run_id=dead[-1].run_id if dead else None,
            last_failure_ms=dead[-1].finished_ms if dead else None,
            failed_attempts=_count(since, RunState.DEAD) + _count(since, RunState.RETRYING),
            told_failing=bool(failing),
            told_ms=told,
            failures_answered=self.answered_of(job_id, succeeded[-1].run_id if succeeded else None),
        )


def is_late(before: Run, run: Run, notify: Notify) -> bool:
    """Told when the start was heard of first: of a run that lasts by its Start, of others by their end."""
    heard = run.state in (RunState.RUNNING, RunState.RETRYING, *FINAL)
    if before.state is not RunState.CLAIMED or not heard or run.attempt > 1 or run.started_ms is None:
        return False
    late_ms = run.started_ms - run.release_ms
    if run.state is RunState.RUNNING and late_ms < 1000:
        return False
    return late_ms >= notify.late_s * 1000


def _count(runs: list[Run], state: RunState) -> int:
    return len([run for run in runs if run.state is state])


def _ticks(runs: list[Run], state: RunState) -> int:
    return sum(run.count for run in runs if run.state is state)
