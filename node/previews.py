"""What a schedule means, for people: its next ticks, in words, and what the clock changes of the next year do to it."""

from __future__ import annotations

from collections.abc import Callable

from node.admission import field_error
from node.interface import Invalid, Preview
from node.schedule import InvalidSchedule, ScheduleSpec, compile_schedule, stable_jitter_ms

SPECIAL_MS = 366 * 24 * 3600 * 1000
UNKNOWN_JOB = "preview"
"""H fields need some job's id: without one, what is shown is an example."""


def preview(spec: ScheduleSpec, *, from_ms: int, count: int, job_id: str | None, jitter_s: float) -> Preview:
    """The next `count` ticks after `from_ms`. Raises Invalid."""
    try:
        schedule = compile_schedule(spec, job_id or UNKNOWN_JOB)
    except InvalidSchedule as error:
        raise Invalid(errors=[field_error(error)]) from error
    return Preview(
        ticks_ms=_next_ticks(schedule.next, from_ms, count),
        description=schedule.describe(),
        special=[change.words for change in schedule.special(from_ms, from_ms + SPECIAL_MS)],
        jitter_ms=0 if job_id is None else stable_jitter_ms(job_id, jitter_s),
    )


def _next_ticks(following: Callable[[int], int | None], from_ms: int, count: int) -> list[int]:
    ticks: list[int] = []
    tick_ms = following(from_ms)
    while tick_ms is not None and len(ticks) < count:
        ticks.append(tick_ms)
        tick_ms = following(tick_ms)
    return ticks
