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
    ClusterView,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    JobChanged,
    JobCreated,
    JobDraft,
    JobPage,
    JobView,
    NotFound,
    OverlapPolicy,
    Preview,
    Read,
    Redriven,
    ResumeFrom,
    Run,
    RunCancelled,
    RunKind,
    RunPage,
    RunState,
    Unavailable,
)
from tests.httpapi.twin_checks import (
    check,
    cut,
    decode_cursor,
    replacement_faults,
    schedule_faults,
    ticks_after,
    zone_faults,
)
from tests.httpapi.twin_completions import TwinCompletions
from tests.httpapi.twin_state import NOW_MS, TwinState

__all__ = ["NOW_MS", "Twin"]


class Twin(TwinState, TwinCompletions):
    """One node of a cluster that works. `broken` is raised by every call while it is set."""

    # --- the protocol

    async def create_job(self, draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated:
        self._check_alive()
        digest = msgspec.json.encode(msgspec.structs.replace(draft, idempotency_key=None))
        if idempotency_key is not None and (draft.team, idempotency_key) in self._job_keys:
            return self._repeated(draft.team, idempotency_key, digest)
        job = self._job_from(draft)
        self._check_name(job)
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

    async def update_job(self, job_id: str, draft: JobDraft, *, expected_version: int | None = None) -> JobChanged:
        self._check_alive()
        job = self._job_at(job_id, expected_version)
        check(replacement_faults(draft, job))
        new = msgspec.structs.replace(self._job_from(draft), job_id=job_id, created_ms=job.created_ms)
        kept = {name: getattr(job, name) for name in ("version", "updated_ms", "paused_ms", "pause_reason")}
        self._check_name(new)
        if msgspec.structs.replace(new, **kept) != job:
            self._put(msgspec.structs.replace(new, **kept | {"version": job.version + 1, "updated_ms": self.now_ms}))
        return self._changed(job_id)

    async def delete_job(self, job_id: str, *, expected_version: int | None = None) -> bool:
        self._check_alive()
        job = self._job_at(job_id, expected_version)
        self._index += 1
        self.jobs_by_id[job_id] = msgspec.structs.replace(job, deleted_ms=self.now_ms)
        return self.effective

    async def pause_job(
        self,
        job_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        self._check_alive()
        job = self._job_at(job_id, expected_version)
        if self._is_new(idempotency_key, f"pause {job_id} {reason}") and job.paused_ms is None:
            self._turn(job, paused_ms=self.now_ms, pause_reason=reason)
        return self._changed(job_id)

    async def resume_job(
        self,
        job_id: str,
        *,
        since: ResumeFrom = "now",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        self._check_alive()
        job = self._job_at(job_id, expected_version)
        if self._is_new(idempotency_key, f"resume {job_id} {since}") and job.paused_ms is not None:
            self._turn(job, paused_ms=None, pause_reason=None)
        return self._changed(job_id)

    async def run_now(
        self,
        job_id: str,
        *,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        self._check_alive()
        job = self._known_job(job_id)
        own_args = None if args is None else msgspec.json.encode(args)
        if idempotency_key is not None and (job_id, idempotency_key) in self._run_keys:
            made = self.runs_by_id[self._run_keys[job_id, idempotency_key]]
            if (made.args, made.overlap_policy) != (own_args, overlap_policy):
                raise Conflict("The idempotency key was used with another body.")
            return made
        suffix = f"-m{len(self.runs_by_id):06x}"
        run = self._new_run(job, self.now_ms, RunKind.MANUAL, suffix)
        run = msgspec.structs.replace(run, args=own_args, overlap_policy=overlap_policy)
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

    async def dead_runs(
        self,
        *,
        team: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> RunPage:
        self._check_alive()
        before = decode_cursor(cursor)
        runs = sorted(self.runs_by_id.items(), reverse=True)
        dead = [key for key, run in runs if run.state is RunState.DEAD and team in (None, run.team)]
        shown, next_cursor = cut([key for key in dead if before is None or key < before], limit)
        items = [self.runs_by_id[key] for key in shown]
        return RunPage(items=items, next_cursor=next_cursor, read=self._read(consistency))

    async def redrive_run(self, run_id: str) -> Run:
        self._check_alive()
        run = self._known_run(run_id)
        if run.state is not RunState.DEAD:
            raise Conflict(f"Run {run_id} is not dead.")
        fields = {"state": RunState.QUEUED, "attempt": run.attempt + 1, "reason": None}
        self.runs_by_id[run_id] = msgspec.structs.replace(run, **fields)
        return self.runs_by_id[run_id]

    async def redrive_dead(self, *, team: str | None = None, job_id: str | None = None) -> Redriven:
        self._check_alive()
        if (team is None) == (job_id is None):
            raise Invalid(errors=[FieldError(path="team", message="give either team or job_id")])
        runs = [run for run in self.runs_by_id.values() if run.state is RunState.DEAD]
        chosen = [run.run_id for run in runs if team in (None, run.team) and job_id in (None, run.job_id)]
        for run_id in chosen:
            await self.redrive_run(run_id)
        return Redriven(redriven=len(chosen), refused=0, remaining=False)

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
