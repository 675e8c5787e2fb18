"""What the twin does with attempts that their targets complete."""

from __future__ import annotations

from typing import Any

import msgspec

from node.interface import Attempt, AttemptOutcome, Completion, Fenced, Heartbeat, Run, RunLog, RunState


class TwinCompletions:
    """A part of Twin. Failed attempts are not followed by others here."""

    node: str
    now_ms: int
    logs: dict[tuple[str, int], RunLog]
    runs_by_id: dict[str, Run]
    _check_alive: Any
    _known_run: Any

    async def complete_run(self, run_id: str, *, token: int, completion: Completion) -> Run:
        self._check_alive()
        run = self._known_run(run_id)
        ended = AttemptOutcome(completion.outcome)
        if (token, ended) in [(one.token, one.outcome) for one in run.attempts]:
            return run
        run = self._attempted(run_id, token)
        attempt = Attempt(
            attempt=run.attempt,
            node=run.node or "",
            outcome=ended,
            detail=completion.detail,
            finished_ms=self.now_ms,
            token=token,
        )
        if completion.output is not None:
            attempt = msgspec.structs.replace(attempt, log_node=self.node)
            self.logs[run_id, run.attempt] = RunLog(attempt=run.attempt, output=completion.output)
        state = RunState.SUCCEEDED if ended is AttemptOutcome.SUCCEEDED else RunState.DEAD
        self.runs_by_id[run_id] = msgspec.structs.replace(
            run, state=state, lease=None, finished_ms=self.now_ms, attempts=(*run.attempts, attempt)
        )
        return self.runs_by_id[run_id]

    async def heartbeat_run(self, run_id: str, *, token: int, progress: str | None = None) -> Heartbeat:
        self._check_alive()
        run = self._attempted(run_id, token)
        if run.lease is None:
            return Heartbeat(until_ms=None)
        until_ms = max(run.lease.until_ms, min(self.now_ms + run.lease.heartbeat_ms, run.lease.ends_ms))
        lease = msgspec.structs.replace(run.lease, until_ms=until_ms, progress=progress or run.lease.progress)
        self.runs_by_id[run_id] = msgspec.structs.replace(run, lease=lease)
        return Heartbeat(until_ms=until_ms)

    def _attempted(self, run_id: str, token: int) -> Run:
        run = self._known_run(run_id)
        if run.token != token or run.state not in (RunState.CLAIMED, RunState.RUNNING):
            raise Fenced(f"Fencing token {token} is not that of an attempt under way: the run is {run.state.value}.")
        return run
