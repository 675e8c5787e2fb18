"""The model's state and look-ups, and how it hands runs out."""

from __future__ import annotations

from collections import Counter
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.records import HttpTarget, Job, Run, RunKind, RunState, Session, Team
from tests.statemachine.model_history import Change, ModelHistory

SECOND = 1000
HELD = (RunState.CLAIMED, RunState.RUNNING)


class ModelState:
    """Everything that the model knows."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.deleted: dict[str, Job] = {}
        self.versions: dict[tuple[str, int], Job] = {}
        self.teams: dict[str, Team] = {}
        self.due: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.runs: dict[str, Run] = {}
        self.sessions: dict[str, Session] = {}
        self.ended: set[tuple[str, int]] = set()
        self.buckets: dict[int, tuple[str | None, int]] = {}
        self.passed_by: dict[str, int] = {}
        self.keys: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.aged: set[str] = set()
        self.scores: dict[str, tuple[int, bool]] = {}
        self.groups: dict[str, int | None] = {}
        self.turns: dict[int, tuple[str, int]] = {}
        self.counts: Counter[str] = Counter()
        self.history = ModelHistory()
        self.outbox: dict[int, tuple[int, int]] = {}
        self.clock_before_ms = 0
        self.heard_ms = 0
        self.events: list[tuple[str, Any]] = []

    # --- the time

    def hear(self, node: str, wall_ms: int) -> None:
        self.heard_ms = max(self.heard_ms, wall_ms)
        session = self.sessions.get(node)
        near = session is not None and abs(session.wall_ms - self.clock_before_ms) <= 15 * SECOND
        if session is not None and session.live and near:
            self.sessions[node] = replace(session, wall_ms=max(session.wall_ms, wall_ms))

    @property
    def clock_ms(self) -> int:
        """The median of the live sessions' clocks that belong to a majority which agrees; of two, and if none does, the
        one nearest to what it was before this proposal.
        A node that comes back alone must renew twice before it is believed that much time has passed;
        one that the others have left, twenty times."""
        live = [session for session in self.sessions.values() if session.live]
        if not live:
            return self.clock_before_ms
        needed = 2 if live[0].alone == live[0].renewal else 20
        if len(live) == 1 and len(self.sessions) > 1 and live[0].alone < needed:
            far = abs(live[0].wall_ms - self.clock_before_ms) > 15 * SECOND
            return self.clock_before_ms if far else live[0].wall_ms
        walls = sorted(session.wall_ms for session in live)
        groups = [[other for other in walls if 0 <= other - wall <= 15 * SECOND] for wall in walls]
        agreeing = {wall for group in groups if len(group) * 2 > len(walls) for wall in group}
        if not agreeing:
            return min(walls, key=lambda wall_ms: abs(wall_ms - self.clock_before_ms))
        walls = [wall for wall in walls if wall in agreeing]
        while len(walls) > 2:
            walls = walls[1:-1]
        return min(walls, key=lambda wall_ms: abs(wall_ms - self.clock_before_ms))

    @property
    def now_ms(self) -> int:
        return self.heard_ms if 0 <= self.heard_ms - self.clock_ms <= 15 * SECOND else self.clock_ms

    def is_off(self, wall_ms: int) -> bool:
        return abs(wall_ms - self.clock_ms) > 15 * SECOND

    def takes_claims(self, session: Session) -> bool:
        return session.live and not (session.draining or session.suspect or self.is_off(session.wall_ms))

    def supersede(self, run: Run) -> None:
        job = self.jobs.get(run.job_id)
        by_hand = run.kind is not RunKind.SCHEDULED
        if job is None or run.attempts or run.job_version == job.version:
            self.skip(run, self.why_gone(run))
        elif by_hand or self.passed_by.get(run.run_id) == job.version:
            self.make_anew(run, job, run.release_ms, catch_up=run.catch_up)
            self.tell_owner(run.job_id, run.release_ms)
        else:
            self.skip(run, self.why_gone(run))

    def why_gone(self, run: Run) -> str:
        """What came after the run's definition."""
        after = self.versions.get((run.job_id, run.job_version + 1))
        return (
            "paused" if after is not None and after.paused_ms is not None and run.job_id in self.jobs else "superseded"
        )

    def make_anew(self, run: Run, job: Job, release_ms: int, *, catch_up: bool) -> None:
        self.aged.discard(run.run_id)
        fresh = self.new_run(job, run.run_id, run.kind, run.due_ms)
        self.runs[run.run_id] = replace(
            fresh,
            release_ms=release_ms,
            token=run.token,
            args=run.args,
            catch_up=catch_up,
            overlap_policy=run.overlap_policy,
            start_by_ms=self.start_by_ms(job, release_ms),
        )
        self.history.changes.append(Change(run, self.runs[run.run_id]))

    def start_by_ms(self, job: Job, release_ms: int) -> int | None:
        return None if job.start_deadline_s is None else release_ms + round(job.start_deadline_s * 1000)

    def is_late(self, run: Run) -> bool:
        """Past the time by which it must have begun, and it has not."""
        waits = run.state in (RunState.SCHEDULED, RunState.QUEUED) and not run.attempts
        return waits and run.start_by_ms is not None and run.start_by_ms <= self.clock_ms

    def new_run(self, job: Job, run_id: str, kind: RunKind, due_ms: int) -> Run:
        return Run(
            run_id=run_id,
            job_id=job.job_id,
            job_version=job.version,
            team=job.team,
            kind=kind,
            due_ms=due_ms,
            release_ms=due_ms,
            priority=job.priority,
            state=RunState.SCHEDULED,
            attempts_max=1 + job.max_retries,
            created_ms=self.now_ms,
        )

    def skip(self, run: Run, reason: str) -> None:
        self.set(run, state=RunState.SKIPPED, reason=reason, finished_ms=self.now_ms)
        self.counts["runs_skipped"] += 1
        self.counts["ticks " + reason.split(":")[0]] += run.count

    def renewed(self, command: c.OpenSession | c.RenewSession, renewal: int) -> None:
        fields = {"node": command.node, "incarnation": command.incarnation, "renewal": renewal}
        self.events.append(("*", c.SessionRenewed(wall_ms=command.now_ms, **fields)))

    def remove(self, job: Job) -> None:
        self.deleted[job.job_id] = replace(self.jobs.pop(job.job_id), deleted_ms=self.now_ms)
        self.due.pop(job.job_id, None)
        self.made.pop(job.job_id, None)
        self.counts["jobs"] -= 1
        self.events.append(("*", c.JobDeleted(job_id=job.job_id)))

    # --- look-ups

    def set(self, run: Run, **fields: Any) -> Run:
        if fields.get("state", RunState.RUNNING) is not RunState.RUNNING:
            fields["lease"] = None
        if fields.get("state", RunState.QUEUED) is not RunState.QUEUED:
            fields["parked"] = False
        self.runs[run.run_id] = replace(run, **fields)
        if "state" in fields:
            self.aged.discard(run.run_id)
        if fields.get("state") is RunState.QUEUED:
            self.groups[run.run_id] = self.group_now(self.runs[run.run_id])
        if run.state is not self.runs[run.run_id].state:
            self.history.changes.append(Change(run, self.runs[run.run_id]))
        return self.runs[run.run_id]

    def runs_of(self, job_id: str) -> list[Run]:
        return [run for run in self.runs.values() if run.job_id == job_id]

    def claims(self, node: str, incarnation: int) -> list[Run]:
        """In order of run id, as they are given back."""
        holder = (node, incarnation)
        held = [run for run in self.runs.values() if run.state in HELD and (run.node, run.session) == holder]
        return sorted(held, key=lambda run: run.run_id)

    def definition_of(self, run: Run) -> Job:
        """The version of its job that made the run."""
        return self.versions[run.job_id, run.job_version]

    def group_now(self, run: Run) -> int | None:
        """The group that a waiting run's target is in, if that is slow now; a run of a definition that is gone stays
        in the one that it was in."""
        job = self.jobs.get(run.job_id)
        if job is None or job.version != run.job_version:
            return self.groups.get(run.run_id)
        host = self.host_of(job)
        return crc32(f"host {host}".encode()) % 64 if self.scores.get(host, (0, False))[1] else None

    def host_of(self, job: Job) -> str:
        return job.target.url.split("/")[2] if isinstance(job.target, HttpTarget) else ""

    def score(self, job: Job, points: int) -> None:
        host = self.host_of(job)
        score, slow = self.scores.get(host, (0, False))
        score = min(max(score + points, 0), 60)
        if host:
            self.scores[host] = (score, score >= 30 or (slow and score > 10))

    def owner_of(self, job_id: str) -> tuple[str | None, int]:
        return self.buckets.get(crc32(job_id.encode()) % 1024, (None, 0))

    def tell_owner(self, job_id: str, at_ms: int | None) -> None:
        owner, _ = self.owner_of(job_id)
        if owner is not None and at_ms is not None:
            self.events.append((owner, c.DueChanged(at_ms=at_ms)))
