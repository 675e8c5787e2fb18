"""The commands of the log, their replies and the events of applying them.

A command is one format-version byte followed by tagged msgpack. Each is idempotent or a compare-and-set; each carries
what its proposer decided (ids, times, jitter, the next instants), and `now_ms`, the proposer's wall clock, which is
believed as far as the cluster's allows (clock.py). A bad command is a value in the reply, never an exception.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from statemachine.backfill_commands import BackfillReply as BackfillReply
from statemachine.backfill_commands import CancelBackfill as CancelBackfill
from statemachine.backfill_commands import StartBackfill as StartBackfill
from statemachine.backfill_commands import StepBackfill as StepBackfill
from statemachine.calendar_commands import CalendarReply as CalendarReply
from statemachine.calendar_commands import DeleteCalendar as DeleteCalendar
from statemachine.calendar_commands import PutCalendar as PutCalendar
from statemachine.command_types import (
    Address,
    Count,
    NodeId,
    Reason,
    RunId,
    Slots,
    Tag,
    TimeMs,
    Word,
)
from statemachine.command_types import Command as Command  # it is one of these, wherever it is defined
from statemachine.command_types import Reply as Reply
from statemachine.completion_commands import Complete as Complete
from statemachine.completion_commands import Detach as Detach
from statemachine.completion_commands import Heartbeat as Heartbeat
from statemachine.definition_commands import DeleteJob as DeleteJob
from statemachine.definition_commands import FireSkip as FireSkip
from statemachine.definition_commands import PauseJob as PauseJob
from statemachine.definition_commands import PutJob as PutJob
from statemachine.definition_commands import ResumeJob as ResumeJob
from statemachine.events import BucketsMoved as BucketsMoved
from statemachine.events import DueChanged as DueChanged
from statemachine.events import JobDeleted as JobDeleted
from statemachine.events import JobUpdated as JobUpdated
from statemachine.events import RunClaimed as RunClaimed
from statemachine.events import RunsPruned as RunsPruned
from statemachine.events import SessionEnded as SessionEnded
from statemachine.events import SessionRenewed as SessionRenewed
from statemachine.events import StopRequested as StopRequested
from statemachine.history_commands import PruneItem as PruneItem
from statemachine.history_commands import PruneRuns as PruneRuns
from statemachine.history_commands import ReportNotification as ReportNotification
from statemachine.limits import (
    INT_MAX,
    KIND_SLOTS_MAX,
    MOVES_MAX,
    TAGS_MAX,
)
from statemachine.records import AttemptOutcome
from statemachine.run_commands import CancelRun as CancelRun
from statemachine.run_commands import Deadline as Deadline
from statemachine.run_commands import Redrive as Redrive
from statemachine.run_commands import Release as Release
from statemachine.run_commands import RunNow as RunNow
from statemachine.team_commands import DeleteTeam as DeleteTeam
from statemachine.team_commands import PutTeam as PutTeam

FIRE_ITEMS_MAX = 512
FIRE_RUNS_MAX = 64
"""Runs that one item of a Fire may create."""
REAP_SLICE_MAX = 1000
"""Claims that one ExpireSession gives back; the reply says whether more remain."""


class FireRun(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    due_ms: int
    release_ms: int
    catch_up: bool = False
    """A missed tick that is to be made good in order (overlap.py)."""


class FireItem(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """One job's step: from the tick it stands at to the next, with everything in between accounted for.

    Runs and skips, in order of time, do not overlap; the first of them is at `expected_ms`, the last before `next_ms`
    (None: no tick is to come). An item that accounts for nothing is `malformed`."""

    job_id: str
    expected_ms: int
    version: int
    epoch: int
    runs: tuple[FireRun, ...] = ()
    skips: tuple[FireSkip, ...] = ()
    next_ms: int | None


class Fire(Command, frozen=True, kw_only=True, tag="fire"):
    """Create runs and move next_run_at past them, in one step. Verdict an item in FireReply.codes."""

    node: str
    items: Annotated[tuple[FireItem, ...], Meta(max_length=FIRE_ITEMS_MAX)]


class Start(Command, frozen=True, kw_only=True, tag="start"):
    """A report (not a gate) that an attempt has started."""

    run_id: RunId
    token: Count
    started_ms: TimeMs


class Finish(Command, frozen=True, kw_only=True, tag="finish"):
    """An attempt's end. `retry_at_ms` is the proposer's choice of when to try again, used if attempts are left; as a
    delay from `now_ms` if that clock is off."""

    run_id: RunId
    token: Count
    outcome: AttemptOutcome
    status: Annotated[int, Meta(ge=-INT_MAX, le=INT_MAX)] | None = None
    detail: str | None = None
    started_ms: TimeMs
    finished_ms: TimeMs
    retry_at_ms: TimeMs | None = None
    log_bytes: Count | None = None


class Withdraw(Command, frozen=True, kw_only=True, tag="withdraw"):
    """The holder gives an unstarted claim back. reason None: to the queue (draining; no attempt is used); else the run
    ends skipped with that reason."""

    run_id: RunId
    token: Count
    reason: Reason | None = None


class OpenSession(Command, frozen=True, kw_only=True, tag="open_session"):
    """Open a node's session. Refused unless `incarnation` is newer than the node's last; ends an older one at once."""

    node: NodeId
    incarnation: Count
    http: Address
    raft: Address
    slots: Slots
    ahead: Slots
    version: Word
    tzdata: Word
    takes_buckets: bool = True
    """Whether the node fires ticks: a worker-only node runs what others fired."""
    kind_slots: Annotated[dict[Word, Slots], Meta(max_length=KIND_SLOTS_MAX)] = msgspec.field(default_factory=dict)
    tags: Annotated[dict[Tag, Tag], Meta(max_length=TAGS_MAX)] = msgspec.field(default_factory=dict)


class RenewSession(Command, frozen=True, kw_only=True, tag="renew_session"):
    """Renew a session (now_ms is the node's wall clock); renewals count up. `draining` asks for no further claims."""

    node: NodeId
    incarnation: Count
    renewal: Count
    draining: bool = False
    applied_index: Count = 0
    """Where the node's own state stood when it sent this: shown to people, decides nothing."""
    running: Count = 0
    """Attempts under way on the node then: likewise."""


class SuspectSession(Command, frozen=True, kw_only=True, tag="suspect_session"):
    """The leader has seen no renewal newer than `renewal` for a while: the session gets no further claims until its
    next one. Refused if a newer renewal was applied."""

    node: NodeId
    incarnation: Count
    renewal: Count


class ExpireSession(Command, frozen=True, kw_only=True, tag="expire_session"):
    """End a session: the leader saw no renewal newer than `renewal` for a TTL, or the node itself leaves (its own last
    renewal). Refused if a newer renewal was applied. Gives back up to REAP_SLICE_MAX claims; repeat while the reply
    says `remaining`."""

    node: NodeId
    incarnation: Count
    renewal: Count


class BucketMove(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    bucket: int
    expected_epoch: int
    node: str | None


class AssignBuckets(Command, frozen=True, kw_only=True, tag="assign_buckets"):
    """Move buckets; each move is a compare-and-set on the bucket's epoch, which it raises by one. Verdict a move in
    AssignReply.codes: ok | stale_epoch | unknown_session (the node has no live one) | draining | takes_no_buckets |
    malformed."""

    moves: Annotated[tuple[BucketMove, ...], Meta(max_length=MOVES_MAX)]


AnyCommand = (
    PutJob
    | DeleteJob
    | PauseJob
    | ResumeJob
    | PutCalendar
    | DeleteCalendar
    | StartBackfill
    | StepBackfill
    | CancelBackfill
    | RunNow
    | Fire
    | Release
    | Start
    | Finish
    | Withdraw
    | Detach
    | Heartbeat
    | Complete
    | CancelRun
    | Deadline
    | Redrive
    | OpenSession
    | RenewSession
    | SuspectSession
    | ExpireSession
    | AssignBuckets
    | PutTeam
    | DeleteTeam
    | ReportNotification
    | PruneRuns
)


class PlainReply(Reply, frozen=True, kw_only=True, tag="plain"):
    """Nothing to add to the code."""


class JobReply(Reply, frozen=True, kw_only=True, tag="job"):
    """code: ok | existing | idempotency_conflict | name_taken | version_conflict | unknown_job | jobs_limit |
    clock_off."""

    job_id: str | None = None
    version: int | None = None
    next_ms: int | None = None


class TeamReply(Reply, frozen=True, kw_only=True, tag="team"):
    """code: ok | version_conflict | unknown_team | teams_limit; `version` is the one that the team has now."""

    version: int | None = None


class RunReply(Reply, frozen=True, kw_only=True, tag="run"):
    """code: ok | existing | idempotency_conflict | clock_off."""

    run_id: str | None = None


class LeaseReply(Reply, frozen=True, kw_only=True, tag="lease"):
    """Until when the target may go unheard (None: the node that called it has not let go of the run yet)."""

    until_ms: int | None = None


class FireReply(Reply, frozen=True, kw_only=True, tag="fire"):
    """codes: one an item: ok | not_due (compare-and-set failed) | stale_epoch | stale_version | clock_off |
    backlog (so many runs that catch up are enough) | malformed."""

    codes: tuple[str, ...] = ()


class SessionReply(Reply, frozen=True, kw_only=True, tag="session"):
    remaining: bool = False


class AssignReply(Reply, frozen=True, kw_only=True, tag="assign"):
    codes: tuple[str, ...] = ()


AnyReply = (
    PlainReply
    | JobReply
    | TeamReply
    | RunReply
    | LeaseReply
    | BackfillReply
    | CalendarReply
    | FireReply
    | SessionReply
    | AssignReply
)

REFUSALS = {
    "malformed": "the command's bytes do not decode, or break a named limit",
    "unknown_job": "no such job, or it is deleted",
    "unknown_run": "no such run",
    "unknown_notification": "nothing is owed at this place: its delivery was reported before",
    "unknown_session": "no such session, or it has ended",
    "draining": "the node's session is leaving",
    "takes_no_buckets": "the node runs what others fired, and fires nothing itself",
    "unknown_team": "the team has no settings of its own",
    "jobs_limit": "the team has as many jobs as it may have",
    "teams_limit": "there are as many teams with settings as there may be",
    "name_taken": "another job of the team has this name",
    "unknown_backfill": "no such backfill",
    "backfills_limit": "there are as many backfills running as there may be",
    "backlog": "so many runs that are not over are enough",
    "unknown_calendar": "no such calendar",
    "calendar_in_use": "a job names the calendar",
    "calendars_limit": "there are as many calendars as there may be",
    "idempotency_conflict": "the idempotency key was used with another body",
    "version_conflict": "the version is not the expected one",
    "not_due": "the job's next tick is not the expected one",
    "stale_epoch": "the bucket has been assigned anew",
    "stale_version": "the job was changed",
    "clock_off": "the proposer's wall clock is too far from the cluster's",
    "stale_incarnation": "a newer incarnation of the proposer or session exists",
    "stale_proposal": "the proposer has acknowledged this result before; it is no longer kept",
    "renewed": "a newer renewal was applied",
    "no_deadline": "the run has another deadline, or none",
    "fenced": "the fencing token is not the run's current one",
    "leased": "the lease of the run's target has not lapsed",
    "illegal_state": "the run's state does not allow this move",
}


AnyEvent = (
    RunClaimed
    | StopRequested
    | JobDeleted
    | JobUpdated
    | SessionEnded
    | SessionRenewed
    | BucketsMoved
    | DueChanged
    | RunsPruned
)
