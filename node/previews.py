"""What a schedule means, for people: its next ticks, in words, and what the clock changes of the next year do to it."""

from __future__ import annotations

from node.admission import field_error
from node.closed_days import ClosedDays
from node.interface import Invalid, Job, Preview
from node.schedule import SPECIAL_MS, InvalidSchedule, Schedule, ScheduleSpec, compile_schedule, stable_jitter_ms
from node.zones import LAST_S

UNKNOWN_JOB = "preview"
"""H fields need some job's id: without one, what is shown is an example."""


def preview(
    spec: ScheduleSpec,
    *,
    from_ms: int,
    count: int,
    job: Job | None = None,
    closed: ClosedDays | None = None,
) -> Preview:
    """The next `count` ticks after `from_ms`, without those on `closed` days; with a job, its H fields and jitter.
    Raises Invalid."""
    try:
        schedule = compile_schedule(spec, UNKNOWN_JOB if job is None else job.job_id)
    except InvalidSchedule as error:
        raise Invalid(errors=[field_error(error)]) from error
    excluded_ms: list[int] = []
    if closed is None:
        ticks_ms = list(schedule.between(from_ms, LAST_S * 1000, count))
    else:
        ticks_ms, excluded_ms = _sorted_out(schedule, closed, from_ms, count)
    return Preview(
        ticks_ms=ticks_ms,
        excluded_ms=excluded_ms,
        description=schedule.describe(),
        special=[change.words for change in schedule.special(from_ms, from_ms + SPECIAL_MS)],
        jitter_ms=0 if job is None else stable_jitter_ms(job.job_id, job.jitter_s),
    )


def _sorted_out(schedule: Schedule, closed: ClosedDays, at_ms: int, count: int) -> tuple[list[int], list[int]]:
    """The next `count` ticks on open days, and the first `count` of those that fall out before the last of them."""
    ticks_ms: list[int] = []
    excluded_ms: list[int] = []
    while len(ticks_ms) < count and (tick_ms := schedule.next(at_ms)) is not None:
        until_ms = closed.closed_until(tick_ms)
        if until_ms is None:
            ticks_ms.append(tick_ms)
            at_ms = tick_ms
        else:
            excluded_ms += schedule.between(tick_ms - 1, until_ms - 1, count - len(excluded_ms))
            at_ms = until_ms - 1
    return ticks_ms, excluded_ms
