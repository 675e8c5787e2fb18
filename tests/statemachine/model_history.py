"""What the model knows of the past: everything that ended, in order. A job's history is counted anew each time."""

from __future__ import annotations

from statemachine.history_records import JobStats
from statemachine.records import Run, RunState

FINAL = (RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED, RunState.SKIPPED)


class ModelHistory:
    """Changes of runs in order, and how many of them are settled: those of the applies before the last renewal."""

    def __init__(self) -> None:
        self.changes: list[tuple[Run, Run]] = []
        self.noted = self.settled = 0

    def begin_apply(self) -> None:
        self.noted = len(self.changes)

    def settle(self) -> None:
        self.settled = self.noted

    def stats_of(self, job_id: str) -> JobStats:
        changes = [(before, run) for before, run in self.changes[: self.settled] if run.job_id == job_id]
        ended = [run for before, run in changes if run.state in FINAL]
        reopened = [before for before, run in changes if before.state in FINAL and run.state not in FINAL]
        by_state = {state: _count(ended, state) - _count(reopened, state) for state in FINAL}
        skipped = RunState.SKIPPED
        tried = [run for run in ended if run.state is not skipped]
        succeeded = [run for run in ended if run.state is RunState.SUCCEEDED]
        dead = [run for run in ended if run.state is RunState.DEAD]
        since_success = ended[ended.index(succeeded[-1]) + 1 :] if succeeded else ended
        last = tried[-1] if tried else None
        return JobStats(
            succeeded=by_state[RunState.SUCCEEDED],
            dead=by_state[RunState.DEAD],
            cancelled=by_state[RunState.CANCELLED],
            skipped=by_state[skipped],
            ticks_skipped=_ticks(ended, skipped) - _ticks(reopened, skipped),
            retried=len([run for _, run in changes if run.state is RunState.RETRYING]),
            consecutive_failures=_count(since_success, RunState.DEAD),
            last_outcome=last and last.state,
            last_run_id=last and last.run_id,
            last_ms=last and last.finished_ms,
            last_success_run_id=succeeded[-1].run_id if succeeded else None,
            last_success_ms=succeeded[-1].finished_ms if succeeded else None,
            last_failure_run_id=dead[-1].run_id if dead else None,
            last_failure_ms=dead[-1].finished_ms if dead else None,
        )


def _count(runs: list[Run], state: RunState) -> int:
    return len([run for run in runs if run.state is state])


def _ticks(runs: list[Run], state: RunState) -> int:
    return sum(run.count for run in runs if run.state is state)
