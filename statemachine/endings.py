"""Notes what ends, for settling.py: in order, so that the tick's path writes nothing by job.

lifecycle.py calls `note_birth` and `note_change` for every run that begins or changes.
"""

from __future__ import annotations

from statemachine.history_records import Ending, EndingKind
from statemachine.limits import LATE_NOTED_MS
from statemachine.records import FINAL_STATES, Run, RunState
from statemachine.work import Work


def note_birth(work: Work, run: Run) -> None:
    """A run may begin as skipped."""
    if run.state is RunState.SKIPPED:
        _note(work, run, "ended")


def note_change(work: Work, before: Run, run: Run) -> None:
    """Called with every change of a run: most of them end nothing."""
    if run.state in FINAL_STATES:
        _note(work, run, "ended", late_ms=_late_ms(before, run))
    elif run.state is RunState.RETRYING:
        _note(work, run, "retried", late_ms=_late_ms(before, run))
    elif before.state in FINAL_STATES:
        _note(work, before, "reopened")
    elif run.state is RunState.RUNNING:
        late_ms = _late_ms(before, run)
        if late_ms is not None and late_ms >= LATE_NOTED_MS:
            _note(work, run, "started", late_ms=late_ms)


def _note(work: Work, run: Run, kind: EndingKind, late_ms: int | None = None) -> None:
    work.note_ending(
        Ending(
            run_id=run.run_id,
            kind=kind,
            state=run.state,
            at_ms=work.now_ms if run.finished_ms is None else run.finished_ms,
            reason=run.reason,
            detail=run.attempts[-1].detail if run.attempts else None,
            attempt=run.attempt,
            count=run.count,
            late_ms=late_ms,
        )
    )


def _late_ms(before: Run, run: Run) -> int | None:
    """Only the first attempt can be late: the others wait for their backoff. It is told by what takes it out of
    `claimed`, so once."""
    if before.state is not RunState.CLAIMED or run.attempt > 1 or run.started_ms is None:
        return None
    return run.started_ms - run.release_ms
