"""What the model forgets when it is asked to."""

from __future__ import annotations

from statemachine import commands as c
from statemachine.records import Job, Run, RunKind
from tests.statemachine.model_history import FINAL
from tests.statemachine.model_state import ModelState

MINUTE = 60_000


class RetentionModel(ModelState):
    def prune_runs(self, command: c.PruneRuns) -> c.Reply:
        pruned = []
        for item in command.items:
            job = self.jobs.get(item.job_id) or self.deleted.get(item.job_id)
            if job is None or job.version != item.version:
                continue
            going = [run for run in self.runs_of(job.job_id) if run.run_id in item.run_ids and self.is_outdated(run)]
            going = [run for run in going if not self.is_needed(job, run)]
            going.sort(key=lambda run: item.run_ids.index(run.run_id))
            for run in going:
                del self.runs[run.run_id]
                self.passed_by.pop(run.run_id, None)
            pruned += [(run.run_id, run.attempt) for run in going]
            was_deleted = job.deleted_ms is not None and job.deleted_ms < self.now_ms - MINUTE
            if item.job and was_deleted and not self.runs_of(job.job_id):
                del self.deleted[job.job_id]
                self.history.forget(job.job_id)
        self.counts["runs_pruned"] += len(pruned)
        if pruned:
            self.events.append(("*", c.RunsPruned(runs=tuple(pruned))))
        return c.PlainReply()

    def is_outdated(self, run: Run) -> bool:
        ended_ms = max(run.finished_ms or 0, run.until_ms or run.due_ms)
        return run.state in FINAL and ended_ms < self.now_ms - MINUTE

    def is_needed(self, job: Job, run: Run) -> bool:
        """Of a live job: the tick that it came past last, and whatever comes after that."""
        if job.job_id not in self.jobs or job.first_due_ms is None or run.kind is not RunKind.SCHEDULED:
            return False
        passed = [run_id for run_id, version in self.passed_by.items() if version == job.version]
        dues = [int(run_id[:12], 16) for run_id in passed if run_id[13:] == job.job_id]
        return run.due_ms >= max([due_ms for due_ms in dues if due_ms >= job.first_due_ms], default=job.first_due_ms)
