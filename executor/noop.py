"""The target that succeeds at once: benchmarks, smoke tests, and the schedule one wants to watch before giving it
work."""

from __future__ import annotations

from executor.interface import Assignment, Outcome, OutcomeKind, OutputSink

SUCCEEDED = Outcome(kind=OutcomeKind.SUCCEEDED)


class NoopExecutor:
    """Succeeds without doing anything. An InstantExecutor: ten thousand due in one second need no task each."""

    def run_instantly(self, assignment: Assignment) -> Outcome:
        return SUCCEEDED

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        return SUCCEEDED

    async def close(self) -> None:
        """There is nothing to release."""
