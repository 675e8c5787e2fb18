"""What the model makes of runs that overlap: judged by looking at all of the job, and again after every command."""

from __future__ import annotations

from statemachine.records import Job, Run, RunState
from tests.statemachine.model_history import FINAL
from tests.statemachine.model_stopping import StoppingModel


class OverlapModel(StoppingModel):
    def is_judged(self, job: Job) -> bool:
        return job.overlap_policy != "allow" or job.max_concurrent is not None or job.misfire_policy == "catch_up"

    def judge(self, run: Run) -> None:
        job = self.jobs.get(run.job_id)
        if job is None or (job.version != run.job_version and not run.attempts):
            self.supersede(run)
            return
        if self.is_late(run):
            self.skip(run, "deadline")
            return
        policy = run.overlap_policy or job.overlap_policy
        if not self.is_judged(job) and policy == "allow" and not run.catch_up:
            self.set(run, state=RunState.QUEUED)
            return
        if not self.is_judged(job):
            self.mark_active(job, until_ms=self.now_ms)
        active, parked = self.active(job), self.parked(job)
        in_a_row = run.catch_up or (any(r.catch_up for r in active + parked[:1]) and run.overlap_policy != "allow")
        if self.fits(run, job) and (not parked or (self.limit(job, policy) is None and not in_a_row)):
            self.set(run, state=RunState.QUEUED, exclusive=True)
        elif in_a_row or policy in ("allow", "queue_all") or (policy == "queue_one" and not parked):
            self.set(run, state=RunState.QUEUED, parked=True)
        elif policy == "replace":
            self.replace(run, job)
        else:
            self.skip(run, f"overlap: {(parked if policy == 'queue_one' else active)[0].run_id}")

    def replace(self, run: Run, job: Job) -> None:
        for other in self.parked(job):
            self.skip(other, f"overlap: {run.run_id}")
        lasting = [other for other in self.active(job) if other.stop is None]
        limit = self.limit(job, "replace")
        assert limit is not None
        while len(lasting) >= limit:
            self.stop(lasting.pop(0), f"replaced: {run.run_id}")
        self.set(run, state=RunState.QUEUED, parked=True)

    def mark_active(self, job: Job, until_ms: int | None = None) -> None:
        for run in self.runs_of(job.job_id):
            is_released = run.state not in (*FINAL, RunState.SCHEDULED) and not run.parked
            if is_released and (until_ms is None or run.release_ms <= until_ms):
                self.set(run, exclusive=True)

    def promote(self) -> None:
        """Over and over, until nothing changes."""
        for job_id in sorted({run.job_id for run in self.runs.values() if run.parked}):
            while self.promote_one(job_id):
                pass

    def promote_one(self, job_id: str) -> bool:
        parked = [run for run in self.runs_of(job_id) if run.parked and run.state is RunState.QUEUED]
        if not parked:
            return False
        run = min(parked, key=lambda run: (run.release_ms, run.run_id))
        job = self.jobs.get(job_id)
        if job is None or (job.version != run.job_version and not run.attempts):
            self.supersede(run)
        elif self.fits(run, job):
            release_ms = max(run.release_ms, self.now_ms)
            self.set(run, parked=False, exclusive=True, release_ms=release_ms)
        else:
            return False
        return True

    def fits(self, run: Run, job: Job) -> bool:
        active = self.active(job)
        limit = self.limit(job, run.overlap_policy or job.overlap_policy)
        if run.catch_up:
            return not active
        if run.overlap_policy != "allow" and any(other.catch_up for other in active):
            return False
        return limit is None or len(active) < limit

    def limit(self, job: Job, policy: str) -> int | None:
        return job.max_concurrent or (None if policy == "allow" else 1)

    def active(self, job: Job) -> list[Run]:
        active = [run for run in self.runs_of(job.job_id) if run.exclusive and run.state not in FINAL]
        return sorted(active, key=lambda run: run.run_id)

    def parked(self, job: Job) -> list[Run]:
        parked = [run for run in self.runs_of(job.job_id) if run.parked and run.state is RunState.QUEUED]
        return sorted(parked, key=lambda run: (run.release_ms, run.run_id))
