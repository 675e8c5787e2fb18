"""Moves of backfills."""

from __future__ import annotations

from statemachine import commands as c
from tests.statemachine.drawn_numbers import JOBS, SECOND, Numbers
from tests.statemachine.model import Model


def start_backfill(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    to_ms = now_ms + numbers.pick((0, 0, 0, SECOND))
    return c.StartBackfill(
        now_ms=now_ms,
        backfill_id=numbers.pick("pqr"),
        job_id=numbers.pick(JOBS),
        from_ms=to_ms - SECOND * (1 + numbers.below(5)),
        to_ms=to_ms,
        args=numbers.pick((None, b"1")),
        overlap_policy=numbers.pick((None, None, "allow", "skip", "queue_one", "replace")),
    )


def step_backfill(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    backfill_id = numbers.pick(sorted(model.backfills) or "p")
    backfill = model.backfills.get(backfill_id)
    expected_ms = now_ms if backfill is None else backfill.next_ms
    job_id = "A" if backfill is None else backfill.job_id
    due_ms: list[int] = []
    next_ms = None
    if backfill is not None and expected_ms is not None:
        due_ms = [expected_ms + SECOND * number for number in range(numbers.below(4))]
        due_ms = [tick_ms for tick_ms in due_ms if tick_ms < backfill.to_ms]
        after_ms = (due_ms[-1] if due_ms else expected_ms) + SECOND
        next_ms = after_ms if after_ms < backfill.to_ms else None
    owner, epoch = model.owner_of(job_id)
    job = model.jobs.get(job_id)
    return c.StepBackfill(
        now_ms=now_ms,
        node=owner or "n1",
        epoch=epoch + (1 if numbers.rarely() else 0),
        backfill_id=backfill_id,
        job_version=(1 if job is None else job.version) + (1 if numbers.rarely() else 0),
        expected_ms=None if numbers.rarely() else expected_ms,
        due_ms=() if numbers.rarely() else tuple(due_ms),
        next_ms=next_ms,
    )


def cancel_backfill(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.CancelBackfill(now_ms=now_ms, backfill_id=numbers.pick("pqr"), reason=numbers.pick((None, "why")))
