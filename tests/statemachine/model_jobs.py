"""The model's commands that change what a job is, and its ranges of ticks that are not run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.records import Job, Run, RunKind, RunState
from tests.statemachine.model_calendars import ModelCalendars


class ModelJobs(ModelCalendars):
    """Definitions, as handlers named after their tags."""

    def put_job(self, command: c.PutJob) -> c.Reply:
        job, before = command.job, self.jobs.get(command.job.job_id)
        answer = self.repeated(job.team, command)
        if answer is not None:
            return answer
        unknown = [name for name in job.exclude_calendars if name not in self.calendars]
        if unknown:
            return c.JobReply(code="unknown_calendar", detail=unknown[0])
        if self.is_off(command.now_ms):
            return c.JobReply(code="clock_off")
        if command.expected_version == 0 and (before is not None or job.job_id in self.deleted):
            version = None if before is None else before.version
            return c.JobReply(code="version_conflict", job_id=job.job_id, version=version)
        if command.expected_version > 0 and before is None:
            return c.JobReply(code="unknown_job")
        if before is not None and before.version != command.expected_version:
            return c.JobReply(code="version_conflict", job_id=job.job_id, version=before.version)
        if any((other.team, other.name) == (job.team, job.name) for other in self.others(job.job_id)):
            return c.JobReply(code="name_taken")
        most = self.teams[job.team].max_jobs if job.team in self.teams else None
        if before is None and most is not None and len(self.jobs_of(job.team)) >= most:
            return c.JobReply(code="jobs_limit", detail=f"team {job.team} may have {most} jobs")
        if before is not None and not self.tells_what_it_passes(before, command):
            return c.JobReply(code="not_due", job_id=job.job_id, version=before.version)
        if before is not None and command.skip is not None:
            self.fire_skip(before, command.skip)
        self.store_job(command, before)
        return c.JobReply(job_id=job.job_id, version=job.version, next_ms=self.due.get(job.job_id))

    def repeated(self, team: str, command: c.PutJob | c.PauseJob | c.ResumeJob) -> c.Reply | None:
        used = self.keys.get((team, command.idempotency_key or ""))
        if command.idempotency_key is None or used is None:
            return None
        digest, job_id = used
        if digest != command.body_digest:
            return c.JobReply(code="idempotency_conflict", job_id=job_id)
        version = self.jobs[job_id].version if job_id in self.jobs else None
        return c.JobReply(code="existing", job_id=job_id, version=version, next_ms=self.due.get(job_id))

    def tells_what_it_passes(self, before: Job, command: c.PutJob) -> bool:
        """A tick whose time is past has a run, or the update says that it has none."""
        tick_ms = self.due.get(before.job_id) if before.paused_ms is None else before.first_due_ms
        limit_ms = before.paused_ms or command.now_ms
        if command.skip is None:
            return tick_ms is None or tick_ms >= limit_ms or (command.job.first_due_ms or tick_ms + 1) <= tick_ms
        return command.skip.from_ms == tick_ms and command.skip.until_ms <= limit_ms

    def store_job(self, command: c.PutJob, before: Job | None) -> None:
        job = command.job
        if before is not None:
            job = replace(job, paused_ms=before.paused_ms, pause_reason=before.pause_reason)
        self.set_job(job)
        if job.paused_ms is None:
            self.tell_owner(job.job_id, job.first_due_ms)
        if command.idempotency_key is not None:
            self.keys[job.team, command.idempotency_key] = (command.body_digest, job.job_id)
        if before is None:
            self.counts["jobs"] += 1
            return
        self.events.append(("*", c.JobUpdated(job_id=job.job_id, version=job.version)))
        if self.is_judged(job) and not self.is_judged(before):
            self.mark_active(job)

    def set_job(self, job: Job) -> None:
        if job.max_runs is None:
            self.made.pop(job.job_id, None)
        self.jobs[job.job_id] = self.versions[job.job_id, job.version] = job
        self.due.pop(job.job_id, None)
        if job.first_due_ms is not None and job.paused_ms is None:
            self.due[job.job_id] = job.first_due_ms

    def pause_job(self, command: c.PauseJob) -> c.Reply:
        return self.turn(command, self.paused)

    def paused(self, job: Job, command: c.PauseJob) -> c.Reply | None:
        if command.expected_version not in (None, job.version):
            return c.JobReply(code="version_conflict", job_id=job.job_id, version=job.version)
        if job.paused_ms is None:
            fields = {
                "paused_ms": self.now_ms,
                "pause_reason": command.reason,
                "first_due_ms": self.due.get(job.job_id),
            }
            self.next_version(job, fields)
        return None

    def resume_job(self, command: c.ResumeJob) -> c.Reply:
        return self.turn(command, self.resumed)

    def resumed(self, job: Job, command: c.ResumeJob) -> c.Reply | None:
        if command.expected_version != job.version:
            return c.JobReply(code="version_conflict", job_id=job.job_id, version=job.version)
        if job.paused_ms is None:
            return None
        until_ms = command.now_ms if command.first_due_ms is None else command.first_due_ms - 1
        if command.skip is not None:
            told = command.skip.from_ms == job.first_due_ms and command.skip.until_ms <= until_ms
        else:
            told = job.first_due_ms is None or (job.first_due_ms > until_ms and command.first_due_ms is not None)
        if not told:
            return c.JobReply(code="malformed", detail="the ticks of the pause must be accounted for")
        if self.is_off(command.now_ms):
            return c.JobReply(code="clock_off")
        self.next_version(job, {"paused_ms": None, "pause_reason": None, "first_due_ms": command.first_due_ms})
        if command.skip is not None:
            self.fire_skip(self.jobs[job.job_id], command.skip)
        self.tell_owner(job.job_id, command.first_due_ms)
        return None

    def turn(self, command: Any, change: Callable[[Job, Any], c.Reply | None]) -> c.Reply:
        """What pausing and resuming have in common."""
        if command.job_id not in self.jobs:
            return c.JobReply(code="unknown_job")
        team = self.jobs[command.job_id].team
        refusal = self.repeated(team, command) or change(self.jobs[command.job_id], command)
        if refusal is not None:
            return refusal
        if command.idempotency_key is not None:
            self.keys[team, command.idempotency_key] = (command.body_digest, command.job_id)
        version, next_ms = self.jobs[command.job_id].version, self.due.get(command.job_id)
        return c.JobReply(job_id=command.job_id, version=version, next_ms=next_ms)

    def next_version(self, job: Job, fields: dict[str, Any]) -> None:
        self.set_job(replace(job, version=job.version + 1, updated_ms=self.now_ms, **fields))
        self.events.append(("*", c.JobUpdated(job_id=job.job_id, version=job.version + 1)))

    def others(self, job_id: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.job_id != job_id]

    def delete_job(self, command: c.DeleteJob) -> c.Reply:
        job = self.jobs.get(command.job_id)
        if job is None:
            return c.JobReply(code="unknown_job")
        if command.expected_version is not None and command.expected_version != job.version:
            return c.JobReply(code="version_conflict", job_id=job.job_id, version=job.version)
        self.remove(job)
        return c.JobReply(job_id=job.job_id, version=job.version)

    def can_be_made_anew(self, run: Run, job: Job) -> bool:
        loose = run.reason in ("superseded", "paused") or run.state in (RunState.SCHEDULED, RunState.QUEUED)
        return loose and run.job_version != job.version and not run.attempts and run.until_ms is None

    def fire_skip(self, job: Job, ticks: c.FireSkip) -> None:
        """Ticks at the range's beginning that have a record keep it; the others get one behind it."""
        self.passed_by[f"{ticks.from_ms:012x}-{job.job_id}"] = job.version
        for number in range(ticks.count):
            run_id = f"{ticks.from_ms + number:012x}-{job.job_id}"
            before = self.runs.get(run_id)
            if before is None:
                self.passed_by[run_id] = job.version
                run = self.new_run(job, run_id, RunKind.SCHEDULED, ticks.from_ms + number)
                count = ticks.count - number
                self.runs[run_id] = replace(run, attempts_max=1, until_ms=ticks.until_ms, count=count)
                self.skip(self.runs[run_id], ticks.reason)
                return
            if before.state is not RunState.SKIPPED and self.can_be_made_anew(before, job):
                self.skip(before, ticks.reason)
