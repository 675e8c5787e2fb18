"""A Scheduler in memory: the protocol of node.interface for real, without log, disk or clock of its own.

Jobs, names, idempotency keys, versions, cursors and runs behave as the API promises. Time stands at `now_ms` until a
test moves it; runs move only when a test says so (`fire`, `finish`). Ordinary schedules only: no H, no DST finesse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from node.interface import (
    FINAL_STATES,
    LIST_LIMIT_DEFAULT,
    Attempt,
    AttemptOutcome,
    ClusterView,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    Job,
    JobCreated,
    JobDraft,
    JobPage,
    JobView,
    LogElsewhere,
    NodeView,
    NotFound,
    PreconditionFailed,
    Preview,
    Read,
    Run,
    RunCancelled,
    RunKind,
    RunLog,
    RunPage,
    RunState,
    Unavailable,
)
from tests.httpapi.twin_checks import (
    check,
    cut,
    decode_cursor,
    draft_faults,
    expressions_of,
    local_ms,
    schedule_faults,
    stats_of,
    ticks_after,
    zone_faults,
)
from tests.httpapi.twin_teams import TwinTeams

NOW_MS = 1_796_000_400_000
"""2026-11-30T01:00:00Z, a Monday."""
PRIORITIES = {"low": 2, "normal": 5, "high": 8}


class Twin(TwinTeams):
    """One node of a cluster that works. `broken` is raised by every call while it is set."""

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
        self.logs: dict[tuple[str, int], RunLog] = {}
        self.next_ms: dict[str, int | None] = {}
        self._job_keys: dict[tuple[str, str], tuple[bytes, str]] = {}
        self._run_keys: dict[tuple[str, str], str] = {}
        self._index = 0

    # --- the protocol

    async def create_job(self, draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated:
        self._check_alive()
        digest = msgspec.json.encode(msgspec.structs.replace(draft, idempotency_key=None))
        if idempotency_key is not None and (draft.team, idempotency_key) in self._job_keys:
            return self._repeated(draft.team, idempotency_key, digest)
        job = self._job_from(draft)
        if any((one.team, one.name, one.deleted_ms) == (job.team, job.name, None) for one in self.jobs_by_id.values()):
            message = f"the team {job.team} has a job named {job.name} already"
            raise Conflict(f"{message.capitalize()}.", errors=[FieldError(path="name", message=message)])
        team = self._team_view(job.team)
        if team.team.max_jobs is not None and team.jobs >= team.team.max_jobs:
            message = f"team {job.team} may have {team.team.max_jobs} jobs (max_jobs)"
            raise Conflict(f"{message.capitalize()}.", errors=[FieldError(path="team", message=message)])
        self._index += 1
        self.jobs_by_id[job.job_id] = job
        self.next_ms[job.job_id] = self._next(job, self.now_ms)
        if idempotency_key is not None:
            self._job_keys[draft.team, idempotency_key] = (digest, job.job_id)
        return JobCreated(job_id=job.job_id, version=1, next_run_ms=self.next_ms[job.job_id], created=True)

    async def job(self, job_id: str, *, consistency: Consistency = "linearizable") -> tuple[JobView, Read]:
        self._check_alive()
        return self._view(self._known_job(job_id)), self._read(consistency)

    async def jobs(
        self,
        *,
        team: str | None = None,
        name: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> JobPage:
        self._check_alive()
        rows = {
            f"{job.team}\0{job.name}": job
            for job in self.jobs_by_id.values()
            if team in (None, job.team) and name in (None, job.name) and job.deleted_ms is None
        }
        after = decode_cursor(cursor)
        keys = [key for key in sorted(rows) if after is None or key > after]
        shown, next_cursor = cut(keys, limit)
        items = [self._view(rows[key]) for key in shown]
        return JobPage(items=items, next_cursor=next_cursor, read=self._read(consistency))

    async def delete_job(self, job_id: str, *, expected_version: int | None = None) -> None:
        self._check_alive()
        job = self._known_job(job_id)
        if expected_version not in (None, job.version):
            raise PreconditionFailed
        self._index += 1
        self.jobs_by_id[job_id] = msgspec.structs.replace(job, deleted_ms=self.now_ms)

    async def run_now(self, job_id: str, *, args: Any = None, idempotency_key: str | None = None) -> Run:
        self._check_alive()
        job = self._known_job(job_id)
        own_args = None if args is None else msgspec.json.encode(args)
        if idempotency_key is not None and (job_id, idempotency_key) in self._run_keys:
            made = self.runs_by_id[self._run_keys[job_id, idempotency_key]]
            if made.args != own_args:
                raise Conflict("The idempotency key was used with another body.")
            return made
        suffix = f"-m{len(self.runs_by_id):06x}"
        run = msgspec.structs.replace(self._new_run(job, self.now_ms, RunKind.MANUAL, suffix), args=own_args)
        self.runs_by_id[run.run_id] = run
        if idempotency_key is not None:
            self._run_keys[job_id, idempotency_key] = run.run_id
        return run

    async def runs_of_job(
        self,
        job_id: str,
        *,
        states: Sequence[RunState] = (),
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> RunPage:
        self._check_alive()
        if job_id not in self.jobs_by_id:
            raise NotFound(f"There is no job {job_id}.")
        before = decode_cursor(cursor)
        keys = [
            run_id
            for run_id, run in sorted(self.runs_by_id.items(), reverse=True)
            if run.job_id == job_id
            and (not states or run.state in states)
            and (from_ms is None or run.due_ms >= from_ms)
            and (to_ms is None or run.due_ms < to_ms)
            and (before is None or run_id < before)
        ]
        shown, next_cursor = cut(keys, limit)
        items = [self.runs_by_id[key] for key in shown]
        return RunPage(items=items, next_cursor=next_cursor, read=self._read(consistency))

    async def run(self, run_id: str, *, consistency: Consistency = "linearizable") -> tuple[Run, Read]:
        self._check_alive()
        return self._known_run(run_id), self._read(consistency)

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> RunCancelled:
        self._check_alive()
        if len(reason or "") > 500:
            raise Invalid(errors=[FieldError(path="reason", message="is too long")])
        run = self._known_run(run_id)
        if run.state in FINAL_STATES and run.state is not RunState.CANCELLED:
            raise Conflict(f"Run {run_id} has ended.")
        if run.state is RunState.RUNNING:
            self.runs_by_id[run_id] = run = msgspec.structs.replace(run, stop="cancelled")
            return RunCancelled(run=run, effective=False)
        if run.state is not RunState.CANCELLED:
            why = "cancelled" if reason is None else f"cancelled: {reason}"
            run = msgspec.structs.replace(run, state=RunState.CANCELLED, reason=why, finished_ms=self.now_ms)
            self.runs_by_id[run_id] = run
        return RunCancelled(run=run, effective=True)

    async def run_log(self, run_id: str, *, attempt: int | None = None) -> RunLog:
        self._check_alive()
        run = self._known_run(run_id)
        nodes = {one.attempt: one.node for one in run.attempts}
        number = attempt or max(nodes, default=run.attempt)
        if run.node is not None:
            nodes.setdefault(run.attempt, run.node)
        if number not in nodes:
            raise NotFound(f"Run {run_id} has had no attempt {number}.")
        if nodes[number] != self.node:
            raise LogElsewhere(f"Run {run_id} was on node {nodes[number]}.", node=nodes[number])
        return self.logs.get((run_id, number), RunLog(attempt=number, output=b"", truncated=False))

    async def cluster(self, *, consistency: Consistency = "linearizable") -> ClusterView:
        self._check_alive()
        return ClusterView(
            cluster_id="c1d2",
            node=self.node,
            leader=self.leader,
            term=7,
            applied_index=self._index,
            quorum=True,
            tzdata="2026f",
            nodes=[self._node_view(node, address) for node, address in self.addresses.items()],
        )

    async def transfer_leadership(self, *, to: str | None = None) -> str:
        self._check_alive()
        if to not in (None, *self.addresses):
            raise Invalid(errors=[FieldError(path="to", message="is no member of this cluster")])
        if self.leader != self.node:
            raise Unavailable
        self.leader = to or next((node for node in self.addresses if node != self.node), self.node)
        return self.leader

    async def preview(
        self,
        *,
        schedule: Sequence[str],
        tz: str,
        from_ms: int | None = None,
        count: int = 10,
        job_id: str | None = None,
    ) -> Preview:
        self._check_alive()
        if job_id is not None and not schedule:
            schedule, tz = self._known_job(job_id).expressions, self._known_job(job_id).tz
        if job_id is not None and not schedule:
            run_at_ms = self._known_job(job_id).run_at_ms
            return Preview(ticks_ms=[run_at_ms] if run_at_ms else [], description="once", special=[])
        check(zone_faults(tz), schedule_faults(schedule))
        ticks = ticks_after(schedule, tz, self.now_ms if from_ms is None else from_ms)
        return Preview(ticks_ms=[next(ticks) for _ in range(count)], description=" and ".join(schedule), special=[])

    def ready(self) -> str | None:
        return self.unready

    def metrics_text(self) -> tuple[bytes, str]:
        return b"horae_raft_term 7.0\n", "text/plain; version=0.0.4; charset=utf-8"

    def node_addresses(self) -> Mapping[str, str]:
        return self.addresses

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
        self.logs[run_id, run.attempt] = RunLog(attempt=run.attempt, output=output, truncated=False)
        return self.runs_by_id[run_id]

    # --- inside

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
        same = {name: getattr(draft, name) for name in own - {"args", "priority", "misfire_policy", "tz"}}
        return Job(
            **same,
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
