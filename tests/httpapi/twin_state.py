"""What the in-memory scheduler knows, how its tests move it, and the records that it makes."""

from __future__ import annotations

from typing import Any

import msgspec

from node.interface import (
    Attempt,
    AttemptOutcome,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    Job,
    JobChanged,
    JobCreated,
    JobDraft,
    JobView,
    NodeView,
    NotFound,
    PreconditionFailed,
    Read,
    Run,
    RunKind,
    RunLog,
    RunState,
)
from tests.httpapi.twin_backfills import TwinBackfills
from tests.httpapi.twin_calendars import TwinCalendars
from tests.httpapi.twin_checks import (
    check,
    draft_faults,
    expressions_of,
    local_ms,
    stats_of,
    ticks_after,
    zone_faults,
)
from tests.httpapi.twin_logs import TwinLogs
from tests.httpapi.twin_teams import TwinTeams

NOW_MS = 1_796_000_400_000
"""2026-11-30T01:00:00Z, a Monday."""
PRIORITIES = {"low": 2, "normal": 5, "high": 8}


class TwinState(TwinLogs, TwinTeams, TwinCalendars, TwinBackfills):
    """Everything that a node's scheduler would read from its state."""

    def __init__(self, *, node: str = "n1", now_ms: int = NOW_MS) -> None:
        self.node = node
        self.leader = node
        self.now_ms = now_ms
        self.stale_s = 0.25
        self.broken: Exception | None = None
        self.unready: str | None = None
        self.addresses: dict[str, str] = {node: "127.0.0.1:8101"}
        self.jobs_by_id: dict[str, Job] = {}
        self.runs_by_id: dict[str, Run] = {}
        self.teams_by_name = {}
        self.calendars_by_name = {}
        self.backfills_by_id = {}
        self.backfill_keys = {}
        self.logs: dict[tuple[str, int], RunLog] = {}
        self.stored_logs = {}
        self.live_logs = {}
        self.next_ms: dict[str, int | None] = {}
        self._job_keys: dict[tuple[str, str], tuple[bytes, str]] = {}
        self._run_keys: dict[tuple[str, str], str] = {}
        self._change_keys: dict[str, str] = {}
        self._changes_made: set[str | None] = set()
        self.effective = True
        self._index = 0

    # --- what only tests do

    def fire(self, job_id: str, due_ms: int) -> Run:
        """The scheduled run of a tick, queued."""
        run = self._new_run(self.jobs_by_id[job_id], due_ms, RunKind.SCHEDULED, "")
        self.runs_by_id[run.run_id] = run
        return run

    def mark_deleted(self, job_id: str) -> None:
        self.jobs_by_id[job_id] = msgspec.structs.replace(self.jobs_by_id[job_id], deleted_ms=self.now_ms)

    def put_run(self, run: Run) -> None:
        self.runs_by_id[run.run_id] = run

    def finish(self, run_id: str, *, output: bytes = b"", status: int | None = 200) -> Run:
        """One attempt that succeeded on this node, a second after the release."""
        run = self.runs_by_id[run_id]
        began_ms, ended_ms = run.release_ms + 4, run.release_ms + 1004
        attempt = Attempt(
            attempt=run.attempt,
            node=self.node,
            outcome=AttemptOutcome.SUCCEEDED,
            status=status,
            started_ms=began_ms,
            finished_ms=ended_ms,
        )
        self.runs_by_id[run_id] = msgspec.structs.replace(
            run,
            state=RunState.SUCCEEDED,
            node=self.node,
            token=1,
            started_ms=began_ms,
            finished_ms=ended_ms,
            attempts=(*run.attempts, attempt),
        )
        self.logs[run_id, run.attempt] = RunLog(attempt=run.attempt, output=output)
        return self.runs_by_id[run_id]

    # --- inside

    def _check_name(self, job: Job) -> None:
        others = [one for one in self.jobs_by_id.values() if one.job_id != job.job_id]
        if any((one.team, one.name, one.deleted_ms) == (job.team, job.name, None) for one in others):
            message = f"the team {job.team} has a job named {job.name} already"
            raise Conflict(f"{message.capitalize()}.", errors=[FieldError(path="name", message=message)])

    def _job_at(self, job_id: str, expected_version: int | None) -> Job:
        job = self._known_job(job_id)
        if expected_version not in (None, job.version):
            raise PreconditionFailed
        return job

    def _is_new(self, key: str | None, body: str) -> bool:
        """Whether a call has not been made before under this key."""
        first = body if key is None else self._change_keys.setdefault(key, body)
        if first != body:
            raise Conflict("The idempotency key was used with another body.")
        is_new = key is None or key not in self._changes_made
        self._changes_made.add(key)
        return is_new

    def _turn(self, job: Job, **fields: Any) -> None:
        self._put(msgspec.structs.replace(job, version=job.version + 1, updated_ms=self.now_ms, **fields))

    def _put(self, job: Job) -> None:
        self._index += 1
        self.jobs_by_id[job.job_id] = job
        self.next_ms[job.job_id] = self._next(job, self.now_ms) if job.paused_ms is None else None

    def _changed(self, job_id: str) -> JobChanged:
        return JobChanged(view=self._view(self._known_job(job_id)), effective=self.effective)

    def _check_alive(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _read(self, consistency: Consistency) -> Read:
        return Read(applied_index=self._index, stale_s=self.stale_s if consistency == "local" else 0.0)

    def _known_job(self, job_id: str) -> Job:
        job = self.jobs_by_id.get(job_id)
        if job is None or job.deleted_ms is not None:
            raise NotFound(f"There is no job {job_id}.")
        return job

    def _known_run(self, run_id: str) -> Run:
        if run_id not in self.runs_by_id:
            raise NotFound(f"There is no run {run_id}.")
        return self.runs_by_id[run_id]

    def _view(self, job: Job) -> JobView:
        runs = [run for _, run in sorted(self.runs_by_id.items()) if run.job_id == job.job_id]
        return JobView(job=job, next_run_ms=self.next_ms[job.job_id], stats=stats_of(runs))

    def _repeated(self, team: str, key: str, digest: bytes) -> JobCreated:
        first_digest, job_id = self._job_keys[team, key]
        if digest != first_digest:
            raise Conflict("The idempotency key was used with another body.")
        return JobCreated(job_id=job_id, version=1, next_run_ms=self.next_ms.get(job_id), created=False)

    def _job_from(self, draft: JobDraft) -> Job:
        check(draft_faults(draft), zone_faults(draft.tz or "UTC"))
        expressions = expressions_of(draft)
        run_at_ms = None if draft.run_at is None else local_ms(draft.run_at, draft.tz or "UTC")
        if run_at_ms is not None and run_at_ms < self.now_ms - draft.misfire_grace_s * 1000:
            raise Invalid(errors=[FieldError(path="run_at", message="is past by more than misfire_grace_s")])
        own = {name for name in Job.__struct_fields__ if name in JobDraft.__struct_fields__}
        others = {"args", "priority", "misfire_policy", "tz", "exclude_calendars"}
        same = {name: getattr(draft, name) for name in own - others}
        job = Job(
            **same,
            exclude_calendars=tuple(draft.exclude_calendars),
            job_id=f"{len(self._job_keys) + self._index + 1:026d}",
            expressions=expressions,
            run_at_ms=run_at_ms,
            tz=draft.tz or "UTC",
            args=msgspec.json.encode(draft.args),
            priority=draft.priority if isinstance(draft.priority, int) else PRIORITIES[draft.priority],
            misfire_policy=draft.misfire_policy or ("run_once" if run_at_ms is not None else "skip"),
            created_ms=self.now_ms,
            updated_ms=self.now_ms,
        )
        self._check_calendars(job)
        return job

    def _next(self, job: Job, after_ms: int) -> int | None:
        if job.run_at_ms is not None:
            return job.run_at_ms
        return next(ticks_after(job.expressions, job.tz, after_ms))

    def _new_run(self, job: Job, due_ms: int, kind: RunKind, suffix: str) -> Run:
        self._index += 1
        return Run(
            run_id=f"{due_ms:012x}-{job.job_id}{suffix}",
            job_id=job.job_id,
            job_version=job.version,
            team=job.team,
            kind=kind,
            due_ms=due_ms,
            release_ms=due_ms,
            priority=job.priority,
            state=RunState.QUEUED,
            attempts_max=1 + job.max_retries,
            created_ms=self.now_ms,
        )

    def _node_view(self, node: str, address: str) -> NodeView:
        return NodeView(
            node=node,
            http=address,
            raft="127.0.0.1:7101",
            role="leader" if node == self.node else "follower",
            live=True,
            buckets=341,
            running=12,
            slots=256,
            applied_index=self._index,
            skew_s=0.003,
            version="0.1.0",
            tzdata="2026f",
        )
