"""What becomes of a job's ticks between the one it stands at and the look-ahead: each gets a run or is part of one
recorded skip. Pure; this is where "no tick is silently skipped" is decided.

Misfire judges only ticks WITHOUT a run whose release is older than the job's grace (nobody fired them in time: an
outage, a pause). `skip` records them all as one range; `run_once` runs the latest of them and records the others.
Those that are older than the job's misfire window do not run in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from statemachine.commands import FireRun, FireSkip
from statemachine.records import Job, SkipReason


class Ticks(Protocol):
    """The instants of a schedule, in unix milliseconds (schedule.Schedule is one)."""

    def next(self, after_ms: int) -> int | None:
        """The first tick strictly after; None when there is none to come."""
        ...

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """How many ticks t there are with after_ms < t <= until_ms."""
        ...

    def last_between(self, after_ms: int, until_ms: int) -> int | None:
        """The last tick t with after_ms < t <= until_ms."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """Every tick from the expected one up to (not including) `next_ms`, as runs and skips."""

    runs: tuple[FireRun, ...]
    skips: tuple[FireSkip, ...]
    next_ms: int | None


def account_ticks(
    ticks: Ticks, job: Job, *, expected_ms: int, now_ms: int, until_ms: int, jitter_ms: int, runs_max: int
) -> Account:
    """Account for the ticks from `expected_ms` (a tick) to `until_ms`, with at most `runs_max` runs; `next_ms` is the
    first one that is not accounted for."""
    late_ms = now_ms - round(job.misfire_grace_s * 1000) - jitter_ms - 1
    runs: list[FireRun] = []
    skips: tuple[FireSkip, ...] = ()
    due_ms: int | None = expected_ms
    if expected_ms <= late_ms:
        last_ms = _last_tick(ticks, expected_ms, late_ms)
        if job.misfire_policy == "run_once" and last_ms >= _oldest_ms(job, now_ms, jitter_ms):
            runs.append(FireRun(due_ms=last_ms, release_ms=last_ms + jitter_ms))
            skips = _skip_range(ticks, expected_ms, last_ms - 1, f"{SkipReason.MISFIRE}: the latest of them runs")
        else:
            skips = _skip_range(ticks, expected_ms, last_ms, SkipReason.MISFIRE)
        due_ms = ticks.next(last_ms)
    while due_ms is not None and due_ms <= until_ms and len(runs) < runs_max:
        runs.append(FireRun(due_ms=due_ms, release_ms=due_ms + jitter_ms))
        due_ms = ticks.next(due_ms)
    return Account(runs=tuple(runs), skips=skips, next_ms=due_ms)


def _oldest_ms(job: Job, now_ms: int, jitter_ms: int) -> int:
    """The oldest missed tick that may still run."""
    return -1 if job.misfire_window_s is None else now_ms - round(job.misfire_window_s * 1000) - jitter_ms


def _last_tick(ticks: Ticks, first_ms: int, until_ms: int) -> int:
    """The latest tick up to `until_ms`; `first_ms` is one."""
    last_ms = ticks.last_between(first_ms, until_ms)
    return first_ms if last_ms is None else last_ms


def skip_range(ticks: Ticks, first_ms: int, until_ms: int, reason: str) -> FireSkip:
    """One record for the ticks from `first_ms` (which is one) to `until_ms`."""
    last_ms = _last_tick(ticks, first_ms, until_ms)
    count = 1 + ticks.count_between(first_ms, last_ms)
    return FireSkip(from_ms=first_ms, until_ms=last_ms, count=count, reason=reason)


def _skip_range(ticks: Ticks, first_ms: int, until_ms: int, reason: str) -> tuple[FireSkip, ...]:
    return () if first_ms > until_ms else (skip_range(ticks, first_ms, until_ms, reason),)
