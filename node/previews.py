"""What a schedule means, for people: its next ticks, in words, and what the clock changes of the next year do to it."""

from __future__ import annotations

from node.admission import field_error
from node.interface import Invalid, Preview
from node.schedule import SPECIAL_MS, InvalidSchedule, ScheduleSpec, compile_schedule, stable_jitter_ms
from node.zones import LAST_S

UNKNOWN_JOB = "preview"
"""H fields need some job's id: without one, what is shown is an example."""


def preview(spec: ScheduleSpec, *, from_ms: int, count: int, job_id: str | None, jitter_s: float) -> Preview:
    """The next `count` ticks after `from_ms`. Raises Invalid."""
    try:
        schedule = compile_schedule(spec, job_id or UNKNOWN_JOB)
    except InvalidSchedule as error:
        raise Invalid(errors=[field_error(error)]) from error
    return Preview(
        ticks_ms=schedule.between(from_ms, LAST_S * 1000, count),
        description=schedule.describe(),
        special=[change.words for change in schedule.special(from_ms, from_ms + SPECIAL_MS)],
        jitter_ms=0 if job_id is None else stable_jitter_ms(job_id, jitter_s),
    )
