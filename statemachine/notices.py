"""What people are told of a job's runs, and what is kept from them: thresholds, silence, recoveries. Pure.

An ending is told as one event at most of failures and recoveries, beside `late`. Failures below the threshold and
what falls into the silence after an equal event are not told. `recovered` follows a failure that was told, always:
silence would leave somebody believing that it still fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from statemachine.history_records import Ending, JobStats
from statemachine.records import Notify, NotifyEvent, RunState, SkipReason

SKIPS_TOLD = frozenset(reason.value for reason in (SkipReason.OVERLAP, SkipReason.MISFIRE, SkipReason.DEADLINE))
"""Skips that nobody asked for. A pause, an update and a calendar are somebody's wish."""


def events_of(notify: Notify, stats: JobStats, ending: Ending, now_ms: int) -> Iterator[NotifyEvent]:
    """What is to be told of this ending; `stats` count it already."""
    for event in _events(notify, stats, ending):
        if event in notify.on and not _is_silenced(notify, stats, event, now_ms):
            yield event


def with_told(stats: JobStats, event: NotifyEvent, now_ms: int) -> JobStats:
    """Remember that an event was told."""
    failing = stats.told_failing or event in ("dead", "failed")
    return replace(stats, told_ms=stats.told_ms | {event: now_ms}, told_failing=failing)


def _events(notify: Notify, stats: JobStats, ending: Ending) -> Iterator[NotifyEvent]:
    if ending.late_ms is not None and ending.late_ms >= notify.late_s * 1000:
        yield "late"
    if ending.kind == "retried" and stats.failed_attempts >= notify.threshold:
        yield "failed"
    if ending.kind == "ended":
        yield from _end_events(notify, stats, ending)


def _end_events(notify: Notify, stats: JobStats, ending: Ending) -> Iterator[NotifyEvent]:
    if ending.state is RunState.SUCCEEDED and stats.told_failing:
        yield "recovered"
    elif ending.state is RunState.SKIPPED and (ending.reason or "").partition(":")[0] in SKIPS_TOLD:
        yield "skipped"
    elif ending.state is RunState.DEAD:
        # Who asked for both is told the graver one.
        if "dead" in notify.on and stats.consecutive_failures >= notify.threshold:
            yield "dead"
        elif stats.failed_attempts >= notify.threshold:
            yield "failed"


def _is_silenced(notify: Notify, stats: JobStats, event: NotifyEvent, now_ms: int) -> bool:
    told_ms = stats.told_ms.get(event)
    if event == "recovered" or told_ms is None:
        return False
    return 0 <= now_ms - told_ms < notify.silence_s * 1000
