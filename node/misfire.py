"""What becomes of a job's ticks between the one it stands at and the look-ahead: each gets a run or is part of one
recorded skip. Pure; this is where "no tick is silently skipped" is decided.

Misfire judges only ticks WITHOUT a run whose release is older than the job's grace (nobody fired them in time: an
outage, a pause). `skip` records them all as one range; `run_once` runs the latest of them and records the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from statemachine.commands import FireRun, FireSkip
from statemachine.records import Job, SkipReason

WINDOW_MS = 120_000
WINDOW_GROWTH = 4


class Ticks(Protocol):
    """The instants of a schedule, in unix milliseconds."""

    def next(self, after_ms: int) -> int | None:
        """The first tick strictly after; None when there is none to come."""
        ...

    def between(self, from_ms: int, until_ms: int) -> Sequence[int]:
        """The ticks at or after `from_ms` and before `until_ms`, in order."""
        ...

    def count_between(self, from_ms: int, until_ms: int) -> int:
        """How many ticks `between` would give, without making them."""
        ...


class OneTick:
    """The schedule of a one-off: one instant."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def next(self, after_ms: int) -> int | None:
        return self.at_ms if after_ms < self.at_ms else None

    def between(self, from_ms: int, until_ms: int) -> Sequence[int]:
        return [self.at_ms] if from_ms <= self.at_ms < until_ms else []

    def count_between(self, from_ms: int, until_ms: int) -> int:
        return len(self.between(from_ms, until_ms))


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
    cutoff_ms = now_ms - round(job.misfire_grace_s * 1000) - jitter_ms
    runs: list[FireRun] = []
    skips: tuple[FireSkip, ...] = ()
    due_ms: int | None = expected_ms
    if expected_ms < cutoff_ms:
        last_ms = _last_tick(ticks, expected_ms, cutoff_ms)
        if job.misfire_policy == "run_once":
            runs.append(FireRun(due_ms=last_ms, release_ms=last_ms + jitter_ms))
            skips = _skip_range(ticks, expected_ms, last_ms, f"{SkipReason.MISFIRE}: the latest of them runs")
        else:
            skips = _skip_range(ticks, expected_ms, last_ms + 1, SkipReason.MISFIRE)
        due_ms = ticks.next(last_ms)
    while due_ms is not None and due_ms <= until_ms and len(runs) < runs_max:
        runs.append(FireRun(due_ms=due_ms, release_ms=due_ms + jitter_ms))
        due_ms = ticks.next(due_ms)
    return Account(runs=tuple(runs), skips=skips, next_ms=due_ms)


def _last_tick(ticks: Ticks, from_ms: int, before_ms: int) -> int:
    """The latest tick before `before_ms`; `from_ms` is one. Looks back in growing windows, so that a schedule of
    seconds after a year's pause costs no more than one of years."""
    window_ms = WINDOW_MS
    while before_ms - window_ms > from_ms:
        found = ticks.between(before_ms - window_ms, before_ms)
        if found:
            return found[-1]
        window_ms *= WINDOW_GROWTH
    found = ticks.between(from_ms, before_ms)
    return found[-1] if found else from_ms


def _skip_range(ticks: Ticks, from_ms: int, before_ms: int, reason: str) -> tuple[FireSkip, ...]:
    """One record for the ticks at or after `from_ms` (which is one) and before `before_ms`, if there are any."""
    if from_ms >= before_ms:
        return ()
    until_ms = _last_tick(ticks, from_ms, before_ms)
    count = max(ticks.count_between(from_ms, until_ms + 1), 1)
    return (FireSkip(from_ms=from_ms, until_ms=until_ms, count=count, reason=reason),)
