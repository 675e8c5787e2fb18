"""A job's history, added up: pure arithmetic on JobStats."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from statemachine.history_records import Ending, JobStats
from statemachine.records import RunState


def with_ending(stats: JobStats, ending: Ending) -> JobStats:
    """The history with one more entry of `ended`."""
    if ending.kind == "ended":
        return replace(stats, **_ended(stats, ending))
    if ending.kind == "reopened":
        return replace(stats, **_counted(stats, ending, -1))
    if ending.kind == "retried":
        return replace(stats, retried=stats.retried + 1, failed_attempts=stats.failed_attempts + 1)
    return stats


def _ended(stats: JobStats, ending: Ending) -> dict[str, Any]:
    counted = _counted(stats, ending, 1)
    if ending.state is RunState.SKIPPED:
        return counted
    last = {"last_outcome": ending.state, "last_run_id": ending.run_id, "last_ms": ending.at_ms}
    return counted | last | _success_or_failure(stats, ending)


def _success_or_failure(stats: JobStats, ending: Ending) -> dict[str, Any]:
    if ending.state is RunState.SUCCEEDED:
        return {
            "consecutive_failures": 0,
            "failed_attempts": 0,
            "failures_answered": 0,
            "last_success_run_id": ending.run_id,
            "last_success_ms": ending.at_ms,
        }
    if ending.state is RunState.DEAD:
        return {
            "consecutive_failures": stats.consecutive_failures + 1,
            "failed_attempts": stats.failed_attempts + 1,
            "last_failure_run_id": ending.run_id,
            "last_failure_ms": ending.at_ms,
        }
    return {}


def _counted(stats: JobStats, ending: Ending, change: int) -> dict[str, Any]:
    name = ending.state.value
    counted = {name: getattr(stats, name) + change}
    if ending.state is RunState.SKIPPED:
        counted["ticks_skipped"] = stats.ticks_skipped + change * ending.count
    return counted
