"""What the model does with runs that are to end before they are over."""

from __future__ import annotations

from typing import Any

from statemachine import commands as c
from statemachine.records import Run, RunState
from tests.statemachine.model_history import FINAL
from tests.statemachine.model_state import HELD, ModelState


class StoppingModel(ModelState):
    close: Any
    judge: Any

    def cancel_run(self, command: c.CancelRun) -> c.Reply:
        run = self.runs.get(command.run_id)
        if run is None:
            return c.PlainReply(code="unknown_run")
        if run.state is RunState.CANCELLED:
            return c.PlainReply(detail="cancelled")
        if run.state in FINAL:
            return c.PlainReply(code="illegal_state", detail=run.state.value)
        self.stop(run, "cancelled" if command.reason is None else f"cancelled: {command.reason}")
        return c.PlainReply()

    def redrive(self, command: c.Redrive) -> c.Reply:
        run = self.runs.get(command.run_id)
        if run is None:
            return c.PlainReply(code="unknown_run")
        if run.state is not RunState.DEAD:
            return c.PlainReply(code="illegal_state", detail=run.state.value)
        job = self.jobs.get(run.job_id)
        if job is None:
            return c.PlainReply(code="unknown_job")
        free = {"node": None, "session": None, "ahead": False, "claimed_ms": None, "started_ms": None}
        gone = dict.fromkeys(("reason", "finished_ms", "retry_at_ms", "log_bytes", "start_by_ms", "end_by_ms"))
        run = self.set(
            run,
            state=RunState.SCHEDULED,
            job_version=job.version,
            priority=job.priority,
            attempt=run.attempt + 1,
            attempts_max=run.attempt + 1 + job.max_retries,
            release_ms=max(run.release_ms, self.now_ms),
            exclusive=False,
            catch_up=False,
            overlap_policy=None if job.overlap_policy == "allow" else "queue_all",
            **free,
            **gone,
        )
        self.judge(run)
        return c.PlainReply()

    def deadline(self, command: c.Deadline) -> c.Reply:
        run = self.runs.get(command.run_id)
        if run is None:
            return c.PlainReply(code="unknown_run")
        waits = run.state in (RunState.SCHEDULED, RunState.QUEUED) and not run.attempts
        begins = waits and run.start_by_ms is not None
        if run.state in FINAL or command.at_ms != (run.start_by_ms if begins else run.end_by_ms):
            return c.PlainReply(code="no_deadline")
        if self.clock_ms < command.at_ms:
            return c.PlainReply(code="clock_off")
        if begins:
            self.skip(run, "deadline")
        else:
            self.stop(run, "run_timeout")
        return c.PlainReply()

    def stop(self, run: Run, why: str) -> None:
        if run.state not in HELD or run.lease is not None:
            self.end_stopped(self.set(run, stop=why, lease=None), finished_ms=self.now_ms)
            return
        if run.stop is None or why.startswith("cancelled") > run.stop.startswith("cancelled"):
            self.set(run, stop=why)
        self.events.append((run.node or "", c.StopRequested(run_id=run.run_id, token=run.token)))

    def end_stopped(self, run: Run, **fields: Any) -> None:
        state = RunState.DEAD if run.stop == "run_timeout" else RunState.CANCELLED
        self.close(self.set(run, stop=None, retry_at_ms=None, **fields), state, run.stop)
