"""What the model does with attempts that their targets complete."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.records import AttemptOutcome, Lease, Run, RunState
from tests.statemachine.model_state import HELD, ModelState


class CompletionModel(ModelState):
    held: Any
    end_attempt: Any
    after_attempt: Any
    end_stopped: Any
    retry_at: Any

    def detach(self, command: c.Detach) -> c.Reply:
        run = self.held(command.run_id, command.token, *HELD)
        if isinstance(run, c.Reply):
            return run
        if run.stop is not None:
            self.end_stopped(run, started_ms=command.started_ms, finished_ms=self.now_ms, log_bytes=command.log_bytes)
        elif run.lease is None:
            ends_ms = self.now_ms + command.left_ms
            lease = Lease(
                until_ms=min(self.now_ms + command.heartbeat_ms, ends_ms),
                ends_ms=ends_ms,
                heartbeat_ms=command.heartbeat_ms,
                backoff_ms=command.backoff_ms,
            )
            fields = {"started_ms": command.started_ms, "log_bytes": command.log_bytes}
            self.set(run, state=RunState.RUNNING, lease=lease, session=None, ahead=False, **fields)
        return c.PlainReply()

    def under_way(self, command: c.Heartbeat | c.Complete) -> Run | c.Reply:
        run = self.runs.get(command.run_id)
        if run is None:
            return c.PlainReply(code="unknown_run")
        begun = run.state is RunState.RUNNING or (run.state is RunState.CLAIMED and run.release_ms <= self.now_ms)
        if begun and run.token == command.token:
            return run
        self.counts["fenced_writes"] += 1
        return c.PlainReply(code="fenced", detail=run.state.value)

    def heartbeat(self, command: c.Heartbeat) -> c.Reply:
        run = self.under_way(command)
        if isinstance(run, c.Reply):
            return run
        if run.lease is None:
            return c.LeaseReply()
        extended_ms = min(self.now_ms + run.lease.heartbeat_ms, run.lease.ends_ms)
        until_ms = max(extended_ms, run.lease.until_ms)
        self.set(run, lease=replace(run.lease, until_ms=until_ms, progress=command.progress or run.lease.progress))
        return c.LeaseReply(until_ms=until_ms)

    def complete(self, command: c.Complete) -> c.Reply:
        done = self.runs[command.run_id].attempts if command.run_id in self.runs else ()
        if (command.token, command.outcome) in [(one.token, one.outcome) for one in done]:
            return c.PlainReply()
        run = self.under_way(command)
        if isinstance(run, c.Reply):
            return run
        run = self.end_attempt(
            run,
            command.outcome,
            run.started_ms,
            self.now_ms,
            detail=command.detail,
            token=command.token,
            log_node=command.log_node,
        )
        if command.log_bytes is not None:
            run = self.set(run, log_bytes=command.log_bytes)
        self.after_attempt(run, command.outcome, self.retry_at(command))
        return c.PlainReply()

    def lapse(self, run: Run) -> c.Reply:
        lease = run.lease
        assert lease is not None
        if self.clock_ms < lease.until_ms:
            return c.PlainReply(code="leased")
        detail = "no heartbeat in time" if lease.until_ms < lease.ends_ms else "not completed within timeout_s"
        run = self.end_attempt(run, AttemptOutcome.TIMED_OUT, run.started_ms, self.now_ms, detail=detail)
        self.after_attempt(run, AttemptOutcome.TIMED_OUT, self.now_ms + lease.backoff_ms)
        return c.PlainReply()
