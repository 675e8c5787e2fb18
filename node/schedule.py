"""Schedules: text and zone in, instants out. Pure: no clock, no state but caches. docs/schedules.md is the meaning.

Instants are unix milliseconds (UTC). Only the proposer of a command computes ticks, so that nodes whose tz databases
differ still apply the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from node.interface import SCHEDULES_MAX
from node.schedule_changes import ClockChange, clock_changes
from node.schedule_errors import InvalidSchedule, quoted
from node.schedule_fields import Hashed
from node.schedule_gate import read_expression
from node.schedule_grammar import Cron, Every
from node.schedule_hash import draw_for, stable_jitter_ms
from node.schedule_instants import EXAMPLE_INSTANT, LAST_TEXT_S, instant_text, known_zone, parse_run_at
from node.schedule_pattern import CanonicalCron, canonical, pattern_of
from node.schedule_remedies import EXAMPLE
from node.schedule_search import CronTicks, EveryTicks, FoldPolicy, GapPolicy
from node.schedule_ticks import OnceTicks, Ticks, UnionTicks
from node.schedule_words import once_words, schedule_words
from node.zones import FIRST_S, LAST_S, Zone, pin_tzdata

__all__ = [
    "ClockChange",
    "InvalidSchedule",
    "Schedule",
    "ScheduleSpec",
    "compile_schedule",
    "instant_text",
    "parse_run_at",
    "pin_tzdata",
    "stable_jitter_ms",
]

SCHEDULES_KEPT_MAX = 8192
SPECIAL_MS = 366 * 86_400_000
"""How far ahead a preview looks for clock changes: a whole year, however long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleSpec:
    """When a job is due, as plain values of its record: cron expressions, or one instant."""

    expressions: tuple[str, ...] = ()
    """Their union; empty for a one-off."""
    run_at_ms: int | None = None
    tz: str
    dst_gap: GapPolicy = "after"
    """What fixed-time jobs do when a clock change removes their time: run at the first minute after it, or not."""
    dst_fold: FoldPolicy = "default"
    """Which pass of repeated wall times counts. default: first for fixed-time jobs, both for wildcard jobs."""
    starts_at_ms: int | None = None
    """No tick is earlier; one at this very instant counts."""
    ends_at_ms: int | None = None
    """No tick is later; one at this very instant counts."""


class Schedule:
    """The ticks of one spec. Immutable in effect and shared by all jobs that mean the same."""

    def __init__(self, spec: ScheduleSpec, ticks: Ticks, words: str) -> None:
        self._ticks = ticks
        self._words = words
        self._spec = spec
        self._after_ms = None if spec.starts_at_ms is None else spec.starts_at_ms - 1
        self._ends_ms = spec.ends_at_ms

    def next(self, after_ms: int) -> int | None:
        """The first tick strictly after this instant; None when nothing is to come."""
        if self._after_ms is not None and after_ms < self._after_ms:
            after_ms = self._after_ms
        tick_ms = self._ticks.next(after_ms)
        return None if tick_ms is None or (self._ends_ms is not None and tick_ms > self._ends_ms) else tick_ms

    def between(self, after_ms: int, until_ms: int, limit: int) -> Sequence[int]:
        """The first `limit` ticks t with after_ms < t <= until_ms, in order."""
        return self._ticks.between(*self._clipped(after_ms, until_ms), limit)

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """How many ticks t there are with after_ms < t <= until_ms, without listing them.

        `@every` is a closed form; the others cost a microsecond or two for each day that has ticks."""
        return self._ticks.count_between(*self._clipped(after_ms, until_ms))

    def last_between(self, after_ms: int, until_ms: int) -> int | None:
        """The last tick t with after_ms < t <= until_ms, found by halving; None when there is none."""
        tick_ms = self.next(after_ms)
        if tick_ms is None or tick_ms > until_ms:
            return None
        while tick_ms < until_ms:
            middle_ms = (tick_ms + until_ms) // 2
            later_ms = self.next(middle_ms)
            if later_ms is not None and later_ms <= until_ms:
                tick_ms = later_ms
            else:
                until_ms = middle_ms
        return tick_ms

    def describe(self) -> str:
        """The schedule in words: "at 02:00 on weekdays, Europe/Berlin"."""
        parts = [self._words]
        if self._spec.starts_at_ms is not None:
            parts.append(f"not before {instant_text(self._spec.starts_at_ms)}")
        if self._ends_ms is not None:
            parts.append(f"not after {instant_text(self._ends_ms)}")
        return "; ".join(parts)

    def special(self, from_ms: int, until_ms: int) -> list[ClockChange]:
        """The clock changes in from_ms < t <= until_ms that remove or repeat times of this schedule, in order."""
        if not isinstance(self._ticks, UnionTicks):
            return []
        return clock_changes(self._ticks, *self._clipped(from_ms, until_ms))

    def _clipped(self, after_ms: int, until_ms: int) -> tuple[int, int]:
        if self._after_ms is not None:
            after_ms = max(after_ms, self._after_ms)
        if self._ends_ms is not None:
            until_ms = min(until_ms, self._ends_ms)
        return after_ms, until_ms


def compile_schedule(spec: ScheduleSpec, job_id: str) -> Schedule:
    """The schedule of a job. Cheap for the millionth job of a few schedules; `job_id` matters only where `H` is used.

    Raises InvalidSchedule, which names the field, the reason and what to write instead."""
    return _compiled(spec, job_id) if _uses_hash(spec.expressions) else _shared(spec)


@lru_cache(maxsize=SCHEDULES_KEPT_MAX)
def _shared(spec: ScheduleSpec) -> Schedule:
    return _compiled(spec, "")


@lru_cache(maxsize=SCHEDULES_KEPT_MAX)
def _uses_hash(expressions: tuple[str, ...]) -> bool:
    read = _read(expressions)
    return any(isinstance(item, Hashed) for cron in read if isinstance(cron, Cron) for f in cron for item in f.items)


def _compiled(spec: ScheduleSpec, job_id: str) -> Schedule:
    _check(spec)
    zone = known_zone(spec.tz)
    if spec.run_at_ms is not None:
        return Schedule(spec, OnceTicks(spec.run_at_ms), once_words(zone, spec.run_at_ms))
    draw = draw_for(job_id)
    members = [canonical(e, draw) if isinstance(e, Cron) else e for e in _read(spec.expressions)]
    ticks, words = _union(tuple(dict.fromkeys(members)), zone, spec.dst_gap, spec.dst_fold)
    return Schedule(spec, ticks, words)


def _read(expressions: tuple[str, ...]) -> list[Cron | Every]:
    if len(expressions) > SCHEDULES_MAX:
        reason = f"{len(expressions)} expressions; a job has at most {SCHEDULES_MAX}"
        raise InvalidSchedule(field="schedule", reason=reason, remedy=EXAMPLE)
    if len(expressions) == 1:
        return [read_expression(expressions[0])]
    return [read_expression(text, index) for index, text in enumerate(expressions)]


@lru_cache(maxsize=SCHEDULES_KEPT_MAX)
def _union(
    members: tuple[CanonicalCron | Every, ...], zone: Zone, gap: GapPolicy, fold: FoldPolicy
) -> tuple[UnionTicks, str]:
    patterns = [pattern_of(member) for member in members if isinstance(member, CanonicalCron)]
    periods = [member.period_s for member in members if isinstance(member, Every)]
    crons = [CronTicks(pattern, zone, gap=gap, fold=fold) for pattern in patterns]
    ticks = UnionTicks(zone, crons, [EveryTicks(period_s) for period_s in periods])
    return ticks, schedule_words(patterns, periods, zone.name, gap, fold)


def _check(spec: ScheduleSpec) -> None:
    if bool(spec.expressions) == (spec.run_at_ms is not None):
        reason = "a job has either a schedule or a run_at" + (", not both" if spec.expressions else "")
        raise InvalidSchedule(field="schedule", reason=reason, remedy=EXAMPLE)
    _check_choice("dst_gap", spec.dst_gap, get_args(GapPolicy))
    _check_choice("dst_fold", spec.dst_fold, get_args(FoldPolicy))
    for field, at_ms in (("run_at", spec.run_at_ms), ("starts_at", spec.starts_at_ms), ("ends_at", spec.ends_at_ms)):
        _check_instant(field, at_ms)
    if spec.starts_at_ms is not None and spec.ends_at_ms is not None and spec.ends_at_ms < spec.starts_at_ms:
        remedy = instant_text(spec.starts_at_ms)
        raise InvalidSchedule(field="ends_at", reason="the schedule ends before it starts", remedy=remedy)


def _check_instant(field: str, at_ms: int | None) -> None:
    # A schedule may be told to end at the end of written time, "9999-12-31T23:59:59Z"; a run there has no local time.
    latest_ms = LAST_S * 1000 if field == "run_at" else LAST_TEXT_S * 1000 + 999
    if at_ms is not None and not FIRST_S * 1000 <= at_ms <= latest_ms:
        raise InvalidSchedule(field=field, reason="is outside of the years 1 to 9989", remedy=EXAMPLE_INSTANT)


def _check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        reason = f"{quoted(value)} is not one of {', '.join(choices)}"
        raise InvalidSchedule(field=field, reason=reason, remedy=choices[0])
