"""The model's backfills."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.policy_records import Backfill
from statemachine.records import Run, RunKind
from tests.statemachine.model_history import FINAL
from tests.statemachine.model_state import ModelState


class ModelBackfills(ModelState):
    """Handlers named after the tags of their commands. What a model stops and judges is elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.backfills: dict[str, Backfill] = {}

    judge: Any
    stop: Any

    def outstanding(self, backfill_id: str) -> list[Run]:
        runs = [run for run in self.runs.values() if run.run_id.endswith(f"-b{backfill_id}")]
        return sorted((run for run in runs if run.state not in FINAL), key=lambda run: run.run_id)

    def start_backfill(self, command: c.StartBackfill) -> c.Reply:
        job = self.jobs.get(command.job_id)
        if job is None:
            return c.BackfillReply(code="unknown_job")
        if command.to_ms > self.now_ms:
            return c.BackfillReply(code="clock_off", detail="what is to come is the schedule's")
        if command.backfill_id not in self.backfills:
            fields: dict[str, Any] = {"job_id": job.job_id, "team": job.team, "args": command.args}
            self.backfills[command.backfill_id] = Backfill(
                backfill_id=command.backfill_id,
                from_ms=command.from_ms,
                to_ms=command.to_ms,
                overlap_policy=command.overlap_policy,
                next_ms=command.from_ms,
                created_ms=self.now_ms,
                **fields,
            )
        return c.BackfillReply(backfill_id=command.backfill_id)

    def step_backfill(self, command: c.StepBackfill) -> c.Reply:
        backfill = self.backfills.get(command.backfill_id)
        if backfill is None or backfill.state != "running" or backfill.next_ms != command.expected_ms:
            return c.BackfillReply(code="not_due")
        if self.owner_of(backfill.job_id) != (command.node, command.epoch):
            return c.BackfillReply(code="stale_epoch")
        job = self.jobs.get(backfill.job_id)
        if job is None:
            self.over(backfill, "cancelled", "the job was deleted")
            return c.BackfillReply()
        if job.version != command.job_version:
            return c.BackfillReply(code="stale_version")
        if command.expected_ms is None and (command.due_ms or command.next_ms is not None):
            return c.BackfillReply(code="malformed")
        if len(command.due_ms) + len(self.outstanding(backfill.backfill_id)) > 64:
            return c.BackfillReply(code="backlog")
        for due_ms in command.due_ms:
            run_id = f"{due_ms:012x}-{job.job_id}-b{backfill.backfill_id}"
            run = self.new_run(job, run_id, RunKind.BACKFILL, due_ms)
            policy = backfill.overlap_policy or (None if job.overlap_policy == "allow" else "queue_all")
            run = replace(run, release_ms=self.now_ms, args=backfill.args, overlap_policy=policy)
            self.runs[run_id] = run
            self.judge(self.runs[run_id])
        made = backfill.made + len(command.due_ms)
        self.backfills[backfill.backfill_id] = backfill = replace(backfill, next_ms=command.next_ms, made=made)
        if backfill.next_ms is None and not self.outstanding(backfill.backfill_id):
            self.over(backfill, "completed", None)
        return c.BackfillReply(backfill_id=backfill.backfill_id)

    def cancel_backfill(self, command: c.CancelBackfill) -> c.Reply:
        backfill = self.backfills.get(command.backfill_id)
        if backfill is None:
            return c.BackfillReply(code="unknown_backfill")
        if backfill.state == "completed":
            return c.BackfillReply(code="illegal_state", detail="completed")
        if backfill.state == "running":
            self.over(backfill, "cancelled", command.reason)
            for run in self.outstanding(backfill.backfill_id):
                self.stop(run, "cancelled: its backfill was cancelled")
        return c.BackfillReply(backfill_id=backfill.backfill_id)

    def over(self, backfill: Backfill, state: Any, reason: str | None) -> None:
        fields = {"state": state, "reason": reason, "finished_ms": self.now_ms}
        self.backfills[backfill.backfill_id] = replace(backfill, **fields)
