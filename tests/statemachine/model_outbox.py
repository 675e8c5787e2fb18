"""What the model owes to the receivers of notifications."""

from __future__ import annotations

from typing import Any

from statemachine import commands as c
from statemachine.records import Job
from tests.statemachine.model_history import FINAL
from tests.statemachine.model_state import ModelState


class OutboxModel(ModelState):
    paused: Any

    def settle(self) -> None:
        told, settled = len(self.history.told), self.history.settled
        self.history.settle(self.deleted | self.jobs, self.now_ms)
        self.outbox |= dict.fromkeys(range(told, len(self.history.told)), (self.now_ms, 0))
        fresh = {self.history.changes[place].run.job_id for place in range(settled, self.history.settled)}
        for job_id in sorted(fresh & {*self.jobs}):
            job = self.jobs[job_id]
            has_ticks = job_id in self.due or (job.paused_ms is not None and job.first_due_ms is not None)
            is_over = not has_ticks and all(run.state in FINAL for run in self.runs_of(job_id))
            if job.after_completion == "delete" and is_over:
                self.remove(job)
            elif job.pause_on_failure is not None:
                self.answer_failures(job, job.pause_on_failure)

    def answer_failures(self, job: Job, failures_max: int) -> None:
        stats = self.history.stats_of(job.job_id)
        failures = stats.consecutive_failures
        too_many = failures - stats.failures_answered >= failures_max
        if job.paused_ms is None and too_many:
            reason = f"pause_on_failure: {failures} dead runs in a row"
            self.paused(job, c.PauseJob(now_ms=0, job_id=job.job_id, reason=reason))
        if job.paused_ms is not None or too_many:
            self.history.answered[job.job_id] = (stats.last_success_run_id, failures)

    def report_notification(self, command: c.ReportNotification) -> c.Reply:
        next_ms, tries = self.outbox.get(command.number, (-1, 0))
        if next_ms != command.at_ms:
            return c.PlainReply(code="unknown_notification")
        if command.error is None:
            del self.outbox[command.number]
            self.counts["notifications_sent"] += 1
        elif tries == 14:
            del self.outbox[command.number]
            self.counts["notifications_failed"] += 1
        else:
            self.outbox[command.number] = (self.now_ms + min(5000 * 2**tries, 3_600_000), tries + 1)
        return c.PlainReply()
