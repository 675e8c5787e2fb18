"""What becomes of a job's ticks between the one it stands at and the look-ahead: each gets a run or is part of one
recorded skip. Pure; this is where "no tick is silently skipped" is decided.

Misfire judges only ticks WITHOUT a run whose release is older than the job's grace (nobody fired them in time: an
outage, a pause). `skip` records them all as one range; `run_once` runs the latest of them and records the others;
`catch_up` runs each, in order, slice by slice, and newer ticks wait behind.
Those that are older than the job's misfire window do not run in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from statemachine.commands import FireRun, FireSkip
from statemachine.records import Job, SkipReason

CATCH_UP_SLICE_MAX = 32
"""Missed ticks that one account makes good: the next slice follows when so many have got on."""
SKIPS_MAX = 32
"""Ranges of one account: as many spans of closed days as a look-ahead can hold, and more."""


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


class Closed(Protocol):
    """Days on which a job's ticks are skipped (closed_days.ClosedDays is one)."""

    def closed_from(self, at_ms: int) -> int | None:
        """The beginning of the closed days that an instant falls into; None: it is open."""
        ...

    def closed_until(self, at_ms: int) -> int | None:
        """The first instant after them."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """Every tick from the expected one up to (not including) `next_ms`, as runs and skips."""

    runs: tuple[FireRun, ...]
    skips: tuple[FireSkip, ...]
    next_ms: int | None


def account_ticks(
    ticks: Ticks,
    job: Job,
    *,
    expected_ms: int,
    now_ms: int,
    until_ms: int,
    jitter_ms: int,
    runs_max: int,
    closed: Closed | None = None,
) -> Account:
    """Account for the ticks from `expected_ms` (a tick) to `until_ms`, with at most `runs_max` runs; `next_ms` is the
    first one that is not accounted for. Ticks on `closed` days are skipped."""
    late_ms = now_ms - round(job.misfire_grace_s * 1000) - jitter_ms - 1
    runs: list[FireRun] = []
    skips: list[FireSkip] = []
    due_ms: int | None = expected_ms
    is_catching_up = job.misfire_policy == "catch_up"
    if is_catching_up and expected_ms <= late_ms:
        skips += _too_old(ticks, expected_ms, min(late_ms, _oldest_ms(job, now_ms, jitter_ms) - 1))
        due_ms = ticks.next(skips[-1].until_ms) if skips else expected_ms
        runs_max = min(runs_max, CATCH_UP_SLICE_MAX)
    elif expected_ms <= late_ms:
        last_ms = _last_tick(ticks, expected_ms, late_ms)
        runs_at_ms = _missed_run(ticks, job, expected_ms, last_ms, _oldest_ms(job, now_ms, jitter_ms), closed)
        runs += [FireRun(due_ms=at_ms, release_ms=at_ms + jitter_ms) for at_ms in runs_at_ms]
        skips += _missed_skips(ticks, expected_ms, last_ms, runs_at_ms, closed)
        due_ms = ticks.next(last_ms)
    while due_ms is not None and due_ms <= until_ms and len(runs) < runs_max and len(skips) < SKIPS_MAX:
        closed_until_ms = None if closed is None else closed.closed_until(due_ms)
        if closed_until_ms is not None:
            skips.append(skip_range(ticks, due_ms, min(closed_until_ms - 1, until_ms), SkipReason.CALENDAR))
            due_ms = ticks.next(skips[-1].until_ms)
            continue
        is_missed = is_catching_up and due_ms <= late_ms
        runs.append(FireRun(due_ms=due_ms, release_ms=due_ms + jitter_ms, catch_up=is_missed))
        due_ms = ticks.next(due_ms)
    return Account(runs=tuple(runs), skips=tuple(skips), next_ms=due_ms)


def _too_old(ticks: Ticks, first_ms: int, until_ms: int) -> tuple[FireSkip, ...]:
    return _skip_range(ticks, first_ms, until_ms, f"{SkipReason.MISFIRE}: older than misfire_window_s")


def _missed_run(
    ticks: Ticks, job: Job, first_ms: int, last_ms: int, oldest_ms: int, closed: Closed | None
) -> tuple[int, ...]:
    """The one of the missed ticks that runs after all, if any: the latest on a day that is open."""
    if job.misfire_policy != "run_once":
        return ()
    run_ms = last_ms if closed is None else last_open(ticks, closed, first_ms - 1, last_ms)
    return () if run_ms is None or run_ms < oldest_ms else (run_ms,)


def _missed_skips(
    ticks: Ticks, first_ms: int, last_ms: int, runs_at_ms: tuple[int, ...], closed: Closed | None
) -> Iterator[FireSkip]:
    """The missed ticks around the one that runs. They were missed if any of them was on a day that is open."""
    if runs_at_ms:
        yield from _skip_range(ticks, first_ms, runs_at_ms[0] - 1, f"{SkipReason.MISFIRE}: the latest of them runs")
        following_ms = ticks.next(runs_at_ms[0])
        if following_ms is not None:
            yield from _skip_range(ticks, following_ms, last_ms, SkipReason.CALENDAR)
    elif closed is not None and last_open(ticks, closed, first_ms - 1, last_ms) is None:
        yield from _skip_range(ticks, first_ms, last_ms, SkipReason.CALENDAR)
    else:
        yield from _skip_range(ticks, first_ms, last_ms, SkipReason.MISFIRE)


def last_open(ticks: Ticks, closed: Closed, after_ms: int, until_ms: int) -> int | None:
    """The last tick t on an open day with after_ms < t <= until_ms."""
    while (tick_ms := ticks.last_between(after_ms, until_ms)) is not None:
        from_ms = closed.closed_from(tick_ms)
        if from_ms is None:
            return tick_ms
        until_ms = from_ms - 1
    return None


def next_open(ticks: Ticks, closed: Closed | None, after_ms: int) -> int | None:
    """The first tick on an open day after an instant."""
    while (tick_ms := ticks.next(after_ms)) is not None:
        until_ms = None if closed is None else closed.closed_until(tick_ms)
        if until_ms is None:
            return tick_ms
        after_ms = until_ms - 1
    return None


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
