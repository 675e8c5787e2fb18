"""The scheduler as its users (HTTP API, chaos suite) see it: the Scheduler protocol, the values it takes and hands out,
and the one tree of errors. The only module of node/ that httpapi/ and chaos/ may import."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from node.backfill_interface import BackfillPage as BackfillPage
from node.backfill_interface import BackfillPlan as BackfillPlan
from node.backfill_interface import BackfillScheduler
from node.backfill_interface import BackfillView as BackfillView
from node.calendar_interface import CalendarDraft as CalendarDraft
from node.calendar_interface import CalendarPage as CalendarPage
from node.calendar_interface import CalendarScheduler
from node.completion_values import Completion as Completion
from node.completion_values import CompletionOutcome as CompletionOutcome
from node.completion_values import Heartbeat as Heartbeat
from node.errors import Conflict as Conflict
from node.errors import DiskFull as DiskFull
from node.errors import Fenced as Fenced
from node.errors import FieldError as FieldError
from node.errors import HoraeError as HoraeError
from node.errors import Invalid as Invalid
from node.errors import LogElsewhere as LogElsewhere
from node.errors import Malformed as Malformed
from node.errors import NotFound as NotFound
from node.errors import OutcomeUnknown as OutcomeUnknown
from node.errors import Overloaded as Overloaded
from node.errors import PreconditionFailed as PreconditionFailed
from node.errors import TooLarge as TooLarge
from node.errors import Unavailable as Unavailable
from node.job_draft import JobDraft as JobDraft
from node.log_values import LogPiece as LogPiece
from node.log_values import RunLog as RunLog
from node.read_values import LIST_LIMIT_DEFAULT as LIST_LIMIT_DEFAULT
from node.read_values import Consistency as Consistency
from node.read_values import Read as Read
from node.team_interface import TeamDraft as TeamDraft
from node.team_interface import TeamView as TeamView
from statemachine.history_records import JobStats
from statemachine.policy_records import Backfill, Calendar
from statemachine.records import (
    FINAL_STATES,
    Attempt,
    AttemptOutcome,
    CommandTarget,
    ContainerTarget,
    HttpTarget,
    Job,
    Lease,
    NoopTarget,
    Notify,
    OverlapPolicy,
    Run,
    RunKind,
    RunState,
    SkipReason,
    Target,
    Team,
)

__all__ = [
    "FINAL_STATES",
    "Attempt",
    "AttemptOutcome",
    "Backfill",
    "Calendar",
    "CommandTarget",
    "ContainerTarget",
    "HttpTarget",
    "Job",
    "JobStats",
    "Lease",
    "NoopTarget",
    "NotFound",
    "Notify",
    "OutcomeUnknown",
    "OverlapPolicy",
    "Run",
    "RunKind",
    "RunState",
    "SkipReason",
    "Target",
    "Team",
]

ResumeFrom = Literal["now", "paused_at"]
NAME_LENGTH_MAX = 200
TEAM_LENGTH_MAX = 64
SCHEDULES_MAX = 16
LABELS_MAX = 32
ARGS_BYTES_MAX = 64 * 1024
REASON_LENGTH_MAX = 500
"""Of what somebody says about why they change something."""
LIST_LIMIT_MAX = 500
CURSOR_LENGTH_MAX = 512
PREVIEW_TICKS_MAX = 100


# --- values in and out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCreated:
    """`created` False: the same idempotency key and body had made this job before."""

    job_id: str
    version: int
    next_run_ms: int | None
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobView:
    """A job, the next tick it stands at (None: nothing is to come), and its history: a second or two behind."""

    job: Job
    next_run_ms: int | None
    stats: JobStats = field(default_factory=JobStats)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanged:
    """A job as a change left it. `effective` False: some node may still start what the definition before made; it had
    not answered in time, and will have within its session's end."""

    view: JobView
    effective: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    items: Sequence[JobView]
    next_cursor: str | None
    read: Read


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    items: Sequence[Run]
    next_cursor: str | None
    read: Read


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamPage:
    items: Sequence[TeamView]
    next_cursor: str | None
    read: Read


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCancelled:
    """A run that will end `cancelled`. `effective` False: its holder has not yet answered that the attempt is gone."""

    run: Run
    effective: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Redriven:
    """How many dead runs are tried anew, how many could not be, and whether there are more."""

    redriven: int
    refused: int
    remaining: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    node: str
    http: str
    raft: str
    role: str
    live: bool
    buckets: int
    running: int
    slots: int
    applied_index: int | None
    skew_s: float | None
    version: str
    tzdata: str
    disk_low: bool = False
    """Whether its disk is nearly full, as far as the node that answers knows."""
    kind_slots: Mapping[str, int] = field(default_factory=dict)
    """Slots of single kinds of targets, of those that it limits; 0: it cannot run them."""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    cluster_id: str
    node: str
    leader: str | None
    term: int
    applied_index: int
    quorum: bool
    tzdata: str
    nodes: Sequence[NodeView]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What a schedule means: the next ticks, in words, and what is special (gaps and folds) within a year."""

    ticks_ms: Sequence[int]
    description: str
    special: Sequence[str]
    jitter_ms: int = 0
    excluded_ms: Sequence[int] = ()
    """Ticks among them that the job's calendars exclude, as many as ticks were asked for at most."""


class Scheduler(BackfillScheduler, CalendarScheduler, Protocol):
    """What a node offers. Every method may raise a HoraeError; consistency 'linearizable' waits for a read barrier."""

    async def create_job(self, draft: JobDraft, *, idempotency_key: str | None = None) -> JobCreated: ...

    async def job(self, job_id: str, *, consistency: Consistency = "linearizable") -> tuple[JobView, Read]: ...

    async def jobs(
        self,
        *,
        team: str | None = None,
        name: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> JobPage: ...

    async def update_job(self, job_id: str, draft: JobDraft, *, expected_version: int | None = None) -> JobChanged:
        """Replace the job's definition whole; a paused job stays paused. The same definition changes nothing."""
        ...

    async def delete_job(self, job_id: str, *, expected_version: int | None = None) -> bool:
        """Whether it is effective already: nothing of the job starts any more."""
        ...

    async def pause_job(
        self,
        job_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        """Stop the job's schedule; what was not attempted ends skipped(paused). A paused job stays as it is."""
        ...

    async def resume_job(
        self,
        job_id: str,
        *,
        since: ResumeFrom = "now",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> JobChanged:
        """Go on: from `now` (what was due meanwhile is one skip) or from `paused_at` (the misfire policy judges it)."""
        ...

    async def run_now(
        self,
        job_id: str,
        *,
        args: Any = None,
        overlap_policy: OverlapPolicy | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """A manual run, due now; `args` and `overlap_policy` take the place of the job's for it."""
        ...

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
        """Newest first; skips are runs too. from inclusive, to exclusive (due time)."""
        ...

    async def run(self, run_id: str, *, consistency: Consistency = "linearizable") -> tuple[Run, Read]: ...

    async def cancel_run(self, run_id: str, *, reason: str | None = None) -> RunCancelled:
        """End a run that is not over: it ends `cancelled` and is not tried again. Waits a few seconds for that. A
        repeat answers the same; Conflict if it has ended otherwise."""
        ...

    async def dead_runs(
        self,
        *,
        team: str | None = None,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> RunPage:
        """Runs whose attempts were used up, of a team or of all, the latest due first."""
        ...

    async def redrive_run(self, run_id: str) -> Run:
        """Try a dead run anew, by the job's current definition."""
        ...

    async def redrive_dead(self, *, team: str | None = None, job_id: str | None = None) -> Redriven:
        """The same for the dead runs of a job or a team, the newest first, a thousand at most."""
        ...

    async def run_log(self, run_id: str, *, attempt: int | None = None, archived: bool = False) -> RunLog:
        """What THIS node kept of an attempt's output; empty when there was none. Without `attempt` the one that
        is running, or else the last. LogElsewhere names the node that ran it; NotFound: there is no such run or
        attempt, or its log is too old to be kept. `archived`: what the log store has instead."""
        ...

    async def team(self, team: str, *, consistency: Consistency = "linearizable") -> tuple[TeamView, Read]:
        """NotFound for a team that has neither settings nor jobs nor claims."""
        ...

    async def teams(
        self,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> TeamPage: ...

    async def put_team(self, team: str, draft: TeamDraft, *, expected_version: int | None = None) -> TeamView:
        """Set what a team may use; `expected_version` 0: only if it has no settings yet."""
        ...

    async def delete_team(self, team: str, *, expected_version: int | None = None) -> None:
        """Back to the defaults. NotFound if it has no settings."""
        ...

    async def complete_run(self, run_id: str, *, token: int, completion: Completion) -> Run:
        """The end of an attempt, from the target that completes it itself. To repeat it changes nothing. Fenced: the
        token is not that of the attempt under way."""
        ...

    async def heartbeat_run(self, run_id: str, *, token: int, progress: str | None = None) -> Heartbeat:
        """A target that completes an attempt itself is still at it. Fenced: it may stop, the attempt is over."""
        ...

    def follow_log(
        self, run_id: str, *, attempt: int, offset: int = 0, archived: bool = False
    ) -> AsyncIterator[LogPiece]:
        """What THIS node has of an attempt's output from `offset` on, and what comes, until the attempt has ended here;
        nothing when it does not run here. May raise LogElsewhere and NotFound before the first piece. `archived`: what
        the log store has instead."""
        ...

    async def cluster(self, *, consistency: Consistency = "linearizable") -> ClusterView: ...

    async def transfer_leadership(self, *, to: str | None = None) -> str:
        """Hand the leadership from THIS node to `to`, or to the member that has most of the log. Answers who leads
        then; naming the node that leads already changes nothing. Unavailable when another node leads, or when nobody
        could take over: then this node goes on."""
        ...

    async def preview(
        self,
        *,
        schedule: Sequence[str],
        tz: str,
        from_ms: int | None = None,
        count: int = 10,
        job_id: str | None = None,
    ) -> Preview: ...

    def ready(self) -> str | None:
        """None when this node reaches a quorum and its scheduling moves; else the reason, for /readyz."""
        ...

    def metrics_text(self) -> tuple[bytes, str]:
        """The prometheus exposition and its content type."""
        ...

    def node_addresses(self) -> Mapping[str, str]:
        """HTTP address of each node that has a session."""
        ...
