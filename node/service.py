"""The scheduler that a node offers: implements node.interface.Scheduler over the log, the state and the runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from node.admission import spec_of
from node.backfills import Backfills
from node.calendars import Calendars
from node.clock import Clock
from node.completions import keep_completion
from node.freshness import QuorumProbe
from node.interface import (
    LIST_LIMIT_DEFAULT,
    BackfillPage,
    BackfillPlan,
    BackfillView,
    Calendar,
    CalendarDraft,
    CalendarPage,
    ClusterView,
    Completion,
    Consistency,
    FieldError,
    Heartbeat,
    Invalid,
    Job,
    JobChanged,
    JobCreated,
    JobDraft,
    LogElsewhere,
    LogPiece,
    NodeView,
    NotFound,
    OverlapPolicy,
    Preview,
    Read,
    Redriven,
    ResumeFrom,
    Run,
    RunCancelled,
    RunLog,
    RunState,
    TeamDraft,
    TeamPage,
    TeamView,
    Unavailable,
)
from node.kept_log import KeptLog
from node.metrics import Metrics
from node.node_views import never_seen, node_view, role_of
from node.plans import closed_days_of
from node.previews import preview
from node.reads import Reads, live_job
from node.runlogs import RunLogs, pieces_of
from node.schedule import ScheduleSpec
from node.skew import ClockSkews
from node.teams import Teams
from node.writes import Writes
from raftlog.errors import LogError
from raftlog.interface import Log, LogStatus
from statemachine.reader import StateReader
from statemachine.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who this node is, and whom it was told of."""

    node: str
    cluster_id: str
    raft_addresses: Mapping[str, str]
    """By node id, this one's too."""
    tzdata: str


class Service(Reads):
    """Reads come from Reads, changes from Writes; here is the rest. `not_ready` is asked of the runtime."""

    def __init__(
        self,
        *,
        identity: Identity,
        reader: StateReader,
        probe: QuorumProbe,
        make_writes: Callable[[Reads], Writes],
        log: Log,
        logs: RunLogs,
        clock: Clock,
        metrics: Metrics,
        not_ready: Callable[[], str | None],
        skews: ClockSkews,
    ) -> None:
        super().__init__(reader=reader, probe=probe)
        self._identity = identity
        self._writes = make_writes(self)
        self._teams = Teams(reads=self, writes=self._writes, clock=clock)
        self._backfills = Backfills(reads=self, writes=self._writes, clock=clock, make_id=self._writes.make_id)
        self._calendars = Calendars(reads=self, writes=self._writes, clock=clock)
        self._log = log
        self._logs = logs
        self._clock = clock
        self._metrics = metrics
        self._not_ready = not_ready
        self._skews = skews

    async def create_job(self, draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated:
        return await self._writes.create_job(draft, idempotency_key=idempotency_key)

    async def update_job(self, job_id: str, draft: JobDraft, *, expected_version: int | None = None) -> JobChanged:
        return await self._writes.update_job(job_id, draft, expected_version=expected_version)

    async def delete_job(self, job_id: str, *, expected_version: int | None = None) -> bool:
        return await self._writes.delete_job(job_id, expected_version=expected_version)

    async def pause_job(
        self,
        job_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        return await self._writes.pause_job(
            job_id, reason=reason, expected_version=expected_version, idempotency_key=idempotency_key
        )

    async def resume_job(
        self,
        job_id: str,
        *,
        since: ResumeFrom = "now",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        return await self._writes.resume_job(
            job_id, since=since, expected_version=expected_version, idempotency_key=idempotency_key
        )

    async def run_now(
        self,
        job_id: str,
        *,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        return await self._writes.run_now(
            job_id, args=args, overlap_policy=overlap_policy, idempotency_key=idempotency_key
        )

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> RunCancelled:
        return await self._writes.cancel_run(run_id, reason=reason)

    async def plan_backfill(self, job_id: str, *, from_ms: int, to_ms: int) -> BackfillPlan:
        return await self._backfills.plan(job_id, from_ms=from_ms, to_ms=to_ms)

    async def start_backfill(
        self,
        job_id: str,
        *,
        from_ms: int,
        to_ms: int,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> BackfillView:
        return await self._backfills.start(
            job_id,
            from_ms=from_ms,
            to_ms=to_ms,
            args=args,
            overlap_policy=overlap_policy,
            idempotency_key=idempotency_key,
        )

    async def backfills(
        self,
        job_id: str,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> BackfillPage:
        return await self._backfills.of_job(job_id, limit=limit, cursor=cursor, consistency=consistency)

    async def cancel_backfill(self, backfill_id: str, *, reason: str | None = None) -> BackfillView:
        return await self._backfills.cancel(backfill_id, reason=reason)

    async def calendar(self, name: str, *, consistency: Consistency = "linearizable") -> tuple[Calendar, Read]:
        return await self._calendars.calendar(name, consistency=consistency)

    async def calendars(
        self,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> CalendarPage:
        return await self._calendars.calendars(limit=limit, cursor=cursor, consistency=consistency)

    async def put_calendar(self, name: str, draft: CalendarDraft, *, expected_version: int | None = None) -> Calendar:
        return await self._calendars.put(name, draft, expected_version=expected_version)

    async def delete_calendar(self, name: str, *, expected_version: int | None = None) -> None:
        await self._calendars.delete(name, expected_version=expected_version)

    async def team(self, team: str, *, consistency: Consistency = "linearizable") -> tuple[TeamView, Read]:
        return await self._teams.team(team, consistency=consistency)

    async def teams(
        self,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> TeamPage:
        return await self._teams.teams(limit=limit, cursor=cursor, consistency=consistency)

    async def put_team(self, team: str, draft: TeamDraft, *, expected_version: int | None = None) -> TeamView:
        return await self._teams.put(team, draft, expected_version=expected_version)

    async def delete_team(self, team: str, *, expected_version: int | None = None) -> None:
        await self._teams.delete(team, expected_version=expected_version)

    async def complete_run(self, run_id: str, *, token: int, completion: Completion) -> Run:
        run = await self._writes.completions.complete(run_id, token, completion, log_node=self._identity.node)
        if completion.output is not None:
            keep_completion(self._logs, run, token, completion.output, self._identity.node)
        return run

    async def heartbeat_run(self, run_id: str, *, token: int, progress: str | None = None) -> Heartbeat:
        return await self._writes.completions.heartbeat(run_id, token, progress)

    async def redrive_run(self, run_id: str) -> Run:
        return await self._writes.redriving.one(run_id)

    async def redrive_dead(self, *, team: str | None = None, job_id: str | None = None) -> Redriven:
        return await self._writes.redriving.many(team=team, job_id=job_id)

    async def run_log(self, run_id: str, *, attempt: int | None = None, archived: bool = False) -> RunLog:
        run = await self._run_known_to_all(run_id)
        number = attempt or _attempt_of_interest(run)
        log = await self._kept_log(run, number, archived=archived)
        if log is None:
            return RunLog(attempt=number, output=b"")
        return RunLog(attempt=number, output=log.text(), cut_bytes=log.cut_bytes)

    async def follow_log(
        self, run_id: str, *, attempt: int, offset: int = 0, archived: bool = False
    ) -> AsyncIterator[LogPiece]:
        run = await self._run_known_to_all(run_id)
        began = False
        if not archived:
            async for piece in self._logs.follow(run_id, attempt, offset):
                began = True
                yield piece
        log = None if began else await self._kept_log(run, attempt, archived=archived)
        for piece in pieces_of(log, offset) if log is not None else ():
            yield piece

    async def _kept_log(self, run: Run, attempt: int, *, archived: bool) -> KeptLog | None:
        """None: the attempt has put nothing out. What this node keeps no longer, the store may have."""
        if not archived:
            kept = await self._logs.read(run.run_id, attempt)
            if kept is not None:
                return kept
            self._check_ran_here(run, attempt)
        kept = await self._logs.read_archived(run.run_id, attempt)
        if kept is None and archived:
            raise NotFound(f"The log store has no log of attempt {attempt} of run {run.run_id}.")
        if kept is None:
            self._logs.check_kept(run.run_id)
        return kept

    def _check_ran_here(self, run: Run, attempt: int) -> None:
        ran_by = _node_of_attempt(run, attempt)
        if ran_by is None:
            raise NotFound(f"Run {run.run_id} has had no attempt {attempt}.")
        own = self._identity.node
        if ran_by != own:
            raise LogElsewhere(
                f"Node {own} has no log of attempt {attempt} of run {run.run_id}: {ran_by} ran it.", node=ran_by
            )

    async def _run_known_to_all(self, run_id: str) -> Run:
        """This node's copy alone may not know yet of a run, or of its last attempt, that another node has answered.
        In an outage it has to do: what went wrong is asked for most when things go wrong."""
        try:
            return (await self.run(run_id))[0]
        except Unavailable:
            return (await self.run(run_id, consistency="local"))[0]

    async def cluster(self, *, consistency: Consistency = "linearizable") -> ClusterView:
        index = await self.stand_at(consistency)
        status = self._log.status
        with self.open_at(index) as (snapshot, read):
            nodes = self._node_views(status, snapshot)
        own = self._identity.node
        return ClusterView(
            cluster_id=self._identity.cluster_id,
            node=own,
            leader=status.leader,
            term=status.term,
            applied_index=read.applied_index,
            quorum=status.quorum,
            tzdata=self._identity.tzdata,
            nodes=[replace(node, applied_index=read.applied_index) if node.node == own else node for node in nodes],
        )

    async def transfer_leadership(self, *, to: str | None = None) -> str:
        members, own = self._log.status.members, self._identity.node
        if to is not None and to not in members:
            message = f"is no member of this cluster; its members are {', '.join(members)}"
            raise Invalid(f"Node {to!r} {message}.", errors=[FieldError(path="to", message=message)])
        if self._log.status.leader != own:
            raise Unavailable(f"Node {self._log.status.leader} leads, not this one. Nothing was changed.")
        try:
            moved = to == own or await self._log.transfer_leadership(to)
        except LogError as error:
            raise Unavailable from error
        if not moved:
            raise Unavailable("No other node could take over in time; this one goes on leading.")
        return self._log.status.leader or ""

    async def preview(
        self,
        *,
        schedule: Sequence[str],
        tz: str,
        from_ms: int | None = None,
        count: int = 10,
        job_id: str | None = None,
    ) -> Preview:
        """With `job_id`, the H fields, the jitter and the calendars are that job's."""
        spec, start_ms = ScheduleSpec(expressions=tuple(schedule), tz=tz), from_ms
        if start_ms is None:
            start_ms = self._clock.wall_ms()
        if job_id is None:
            return preview(spec, from_ms=start_ms, count=count)
        index = await self.stand_at()
        with self.open_at(index) as (snapshot, _):
            job = live_job(snapshot, job_id)
            closed = closed_days_of(snapshot, job)
        return preview(_as_of_job(spec, job), from_ms=start_ms, count=count, job=job, closed=closed)

    def _node_views(self, status: LogStatus, snapshot: Snapshot) -> list[NodeView]:
        """Every member, and every other node that ever had a session."""
        sessions = {session.node: session for session in snapshot.sessions()}
        buckets = Counter(owner.node for owner in snapshot.buckets())
        skews_s = self._skews.skews_s([session.node for session in sessions.values() if session.live])
        return [
            node_view(
                sessions.get(node) or never_seen(node, self._identity.raft_addresses.get(node, "")),
                role=role_of(node, status),
                buckets=buckets[node],
                disk_low=node in status.low_disks,
                skew_s=skews_s.get(node),
            )
            for node in sorted({*status.members, *sessions})
        ]

    def ready(self) -> str | None:
        return self._not_ready()

    def metrics_text(self) -> tuple[bytes, str]:
        return self._metrics.text()

    def node_addresses(self) -> Mapping[str, str]:
        with self.open_at(0) as (snapshot, _):
            return {session.node: session.http for session in snapshot.sessions() if session.live}


def _as_of_job(spec: ScheduleSpec, job: Job) -> ScheduleSpec:
    """What the job's times would be with these expressions; with none, what they are."""
    kept = spec_of(job)
    return replace(spec, dst_gap=kept.dst_gap, dst_fold=kept.dst_fold) if spec.expressions else kept


def _attempt_of_interest(run: Run) -> int:
    """The one under way, or else the last that has ended."""
    return run.attempts[-1].attempt if run.attempts and run.state is not RunState.RUNNING else run.attempt


def _node_of_attempt(run: Run, attempt: int) -> str | None:
    """The node that has its log: the one that ran it or has it under way, or that was handed its output. None when
    there is no such attempt."""
    ended = next((one.log_node or one.node for one in run.attempts if one.attempt == attempt), None)
    return ended or (run.node if attempt == run.attempt else None)
