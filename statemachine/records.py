"""The records that the state machine keeps, and what each state of a run means.

Every value in LMDB is one format-version byte followed by msgpack of one of these (array-like: a new field goes to the
end, with a default). Times are unix milliseconds (UTC) unless a name says otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from statemachine.notify import Notify as Notify
from statemachine.notify import NotifyEvent as NotifyEvent

FORMAT_VERSION = 1
BUCKETS = 1024

OverlapPolicy = Literal["allow", "skip", "queue_one", "queue_all", "replace"]
MisfirePolicy = Literal["skip", "run_once", "catch_up"]
AfterCompletion = Literal["keep", "delete"]


class Record(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Base of what is stored: frozen, keyword-only."""


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True, tag="http", tag_field="type", forbid_unknown_fields=True):
    """An HTTP callback. `body` None means: the job's args as JSON."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    body: str | None = None
    success_codes: str = "2xx"
    verify_tls: bool = True
    follow_redirects: bool = False
    signing_secret: str | None = None
    """Shared with the target, for Standard Webhooks signatures. Shown to nobody: `repr` and the API mask it."""
    heartbeat_s: float | None = None
    """Of an attempt that the target completes later: how long it may go without a heartbeat. None: only `timeout_s`
    ends it."""

    def __repr__(self) -> str:
        """For logs and assertions: neither headers nor body nor secret, and of the url only where it leads."""
        return f"HttpTarget({self.method} {self.url.partition('?')[0].rpartition('@')[2]})"


class ContainerTarget(
    msgspec.Struct, frozen=True, kw_only=True, tag="container", tag_field="type", forbid_unknown_fields=True
):
    """A container of the Docker Engine of the node that runs it."""

    image: str
    command: tuple[str, ...] = ()
    """Empty: what the image says."""
    env: dict[str, str] = {}
    cpu: float | None = None
    """Processors that it may keep busy, such as 0.5; None: all."""
    memory_mb: int | None = None
    """MiB that it may use, without swap; None: all."""
    pull: Literal["missing", "always", "never"] = "missing"
    network: str | None = None
    """The name of a network of the engine, none, bridge or host; None: the engine's default."""


class CommandTarget(
    msgspec.Struct, frozen=True, kw_only=True, tag="command", tag_field="type", forbid_unknown_fields=True
):
    """A program on the node that runs it, started without a shell."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    """Absolute; None: the root folder."""
    memory_mb: int | None = None
    """MiB of address space that each of its processes may have; None: no limit of its own."""
    cpu_s: int | None = None
    """Seconds of processor time that each of its processes may use."""
    open_files: int | None = None
    """Files that each of its processes may have open at once."""


class NoopTarget(msgspec.Struct, frozen=True, kw_only=True, tag="noop", tag_field="type", forbid_unknown_fields=True):
    """Succeeds at once: benchmarks and smoke tests."""


Target = HttpTarget | ContainerTarget | CommandTarget | NoopTarget


class RunState(StrEnum):
    """Who moves a run on, and what ends each state: see transitions.py."""

    SCHEDULED = "scheduled"  # made ahead of its time, must be judged then: its bucket's owner proposes Release
    QUEUED = "queued"  # waits for a session with room: apply hands it out
    CLAIMED = "claimed"  # a session holds it: its node starts it at release_at
    RUNNING = "running"  # the node reported a start: Finish, or the session's end, moves it
    RETRYING = "retrying"  # failed with attempts left: the bucket's owner proposes Release at retry_at
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


FINAL_STATES = frozenset({RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED, RunState.SKIPPED})


class AttemptOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"


class SkipReason(StrEnum):
    OVERLAP = "overlap"
    MISFIRE = "misfire"
    DEADLINE = "deadline"
    PAUSED = "paused"
    SUPERSEDED = "superseded"
    CALENDAR = "calendar"


class RunKind(StrEnum):
    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"


class Job(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job's definition: written when somebody changes it, never by a tick."""

    job_id: str
    name: str
    team: str
    expressions: tuple[str, ...] = ()
    run_at_ms: int | None = None
    tz: str = "UTC"
    target: Target
    args: bytes = b"null"
    """JSON text, as it is handed to the target."""
    timeout_s: float = 60.0
    max_retries: int = 3
    backoff_base_s: float = 10.0
    backoff_multiplier: float = 2.0
    backoff_max_s: float = 3600.0
    backoff_jitter: float = 0.1
    """Fraction of the delay that is added at random, 0..1."""
    priority: int = 5
    overlap_policy: OverlapPolicy = "allow"
    misfire_policy: MisfirePolicy = "skip"
    misfire_grace_s: float = 60.0
    jitter_s: float = 0.0
    dst_gap: str = "after"
    dst_fold: str = "default"
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None
    labels: dict[str, str] = {}
    version: int = 1
    created_ms: int
    updated_ms: int
    deleted_ms: int | None = None
    first_due_ms: int | None = None
    """The first tick of this version, as its proposer computed it; next_run_at until the first Fire. Of a paused job
    the first one that has no record yet: where the paused range begins."""
    run_on: dict[str, str] = {}
    """Tags that a node must have to run it."""
    paused_ms: int | None = None
    """Since when it is paused: it stands at no tick. Other changes of the definition leave that as it is."""
    pause_reason: str | None = None
    max_runs: int | None = None
    """How many of its ticks may become runs."""
    misfire_window_s: float | None = None
    """Missed ticks that are older are skipped, whatever the misfire policy."""
    exclude_calendars: tuple[str, ...] = ()
    """Names of calendars on whose days its ticks are skipped."""
    max_concurrent: int | None = None
    """Runs of the job that may be active at once; None: one, or with overlap_policy allow as many as come."""
    start_deadline_s: float | None = None
    """How long after its release a run may begin; later it is skipped(deadline)."""
    run_timeout_s: float | None = None
    """How long a run may take from its first claim on, retries and their waits included; then it is dead."""
    notify: Notify | None = None
    """None: as the team's default says."""
    pause_on_failure: int | None = None
    """After so many dead runs in a row the job is paused."""
    after_completion: AfterCompletion = "keep"
    """What becomes of the job when no tick is to come and its last run is over."""
    keep_runs: int | None = None
    """Runs that stay in the history at most. None: as the team's default says, or any number."""
    keep_days: float | None = None
    """Days that runs stay in the history after their end. None: as the team's default says, or the cluster's."""


class Team(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team may use. A team without a record has the defaults."""

    team: str
    max_concurrent: int | None = None
    """Claims that sessions hold of its runs at once, those ahead of their time too; None: as many as there is room."""
    weight: int = 1
    """Its share of the hand-outs beside other teams of the same priority."""
    max_jobs: int | None = None
    version: int = 1
    updated_ms: int = 0
    notify: Notify | None = None
    """Whom its jobs tell that say nothing of their own."""
    keep_runs: int | None = None
    keep_days: float | None = None
    """How much of the history of its jobs stays, if they say nothing of their own (see Job)."""


class Attempt(Record, frozen=True, kw_only=True):
    """One try of a run, kept in the run in order."""

    attempt: int
    node: str
    outcome: AttemptOutcome
    status: int | None = None
    """HTTP status or exit code, when there was one."""
    detail: str | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    token: int | None = None
    """The token with which its target completed it: a repeat of that is known by it."""
    log_node: str | None = None
    """The node that has its log, if that is not `node`: the one that its target handed the output to."""


class Lease(Record, frozen=True, kw_only=True):
    """Of an attempt that its target took over and completes itself: no session holds it, this lease does."""

    until_ms: int
    """On the cluster's clock: then the attempt ends timed_out, unless a heartbeat came first."""
    ends_ms: int
    """The end of the attempt's timeout, beyond which no heartbeat extends the lease."""
    heartbeat_ms: int
    """How far a heartbeat extends it."""
    backoff_ms: int
    """The wait before the next attempt, should the lease lapse: jitter is the proposer's to draw."""
    progress: str | None = None
    """What the last heartbeat said."""


class Run(Record, frozen=True, kw_only=True):
    """One run of a job (or, in state skipped, a range of ticks that were not run and why).

    `run_id` is the text of its key: due_ms as 12 hex digits, '-', job id, and for kinds other than `scheduled` '-' +
    the kind's first letter + nonce. Time-ordered, unique per (job, due) for scheduled runs."""

    run_id: str
    job_id: str
    job_version: int
    team: str
    kind: RunKind
    due_ms: int
    release_ms: int
    priority: int
    state: RunState
    reason: str | None = None
    """Why it is skipped, dead or cancelled (a SkipReason, maybe with ': detail')."""
    attempt: int = 1
    attempts_max: int = 1
    token: int = 0
    """Fencing token: rises by one with every claim; 0 before the first."""
    node: str | None = None
    session: int | None = None
    ahead: bool = False
    """The claim was handed out ahead of its time: it counts against the session's ahead room, not its slots."""
    args: bytes | None = None
    """Overrides the job's args (run now)."""
    created_ms: int
    claimed_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    retry_at_ms: int | None = None
    until_ms: int | None = None
    """Skip ranges: the last tick of the range."""
    count: int = 1
    """Skip ranges: how many ticks."""
    log_bytes: int | None = None
    attempts: tuple[Attempt, ...] = ()
    exclusive: bool = False
    """It was released under an overlap policy or a limit, so it stands in `active_by_job` until it is final."""
    lease: Lease | None = None
    """Set while a running attempt is its target's to complete: then no session holds the run."""
    lane: bytes = b""
    """Where it waits or waited last, by what it needs of a session (lanes.py)."""
    run_on: dict[str, str] = {}
    """The job's, as of when it began to wait."""
    stop: str | None = None
    """Somebody holds it, and is to end it for this reason: whatever is reported then ends it so (stopping.py)."""
    parked: bool = False
    """Queued, and held back by runs of its job that are active: it stands in `parked` (overlap.py)."""
    catch_up: bool = False
    """A missed tick that is made good in order: it runs alone, and newer ticks wait for it."""
    overlap_policy: OverlapPolicy | None = None
    """Overrides the job's (run now)."""
    start_by_ms: int | None = None
    """Not begun by then, it is skipped(deadline)."""
    end_by_ms: int | None = None
    """Not ended by then, it is dead; set by its first claim."""


class Session(Record, frozen=True, kw_only=True):
    """A node's lease: what it offers, and the renewals that keep it."""

    node: str
    incarnation: int
    live: bool = True
    http: str
    raft: str
    slots: int
    """Claims of due runs it holds at once."""
    ahead: int
    """Claims ahead of their time that it holds at once."""
    held_due: int = 0
    held_ahead: int = 0
    renewal: int = 0
    """Number of the last renewal applied."""
    wall_ms: int
    """The node's wall clock at that renewal, or at a later command of the node."""
    opened_ms: int
    version: str
    tzdata: str
    draining: bool = False
    """Gets no further claims and no buckets (it is leaving)."""
    applied_index: int = 0
    """Where the node's own state stood at that renewal."""
    running: int = 0
    """Attempts that were under way on the node at that renewal."""
    suspect: bool = False
    """The leader has seen no renewal for a while: gets no further claims until it renews."""
    alone: int = 0
    """Renewals in a row that found no other session open."""
    takes_buckets: bool = True
    """Whether its node fires ticks."""
    kind_slots: dict[str, int] = {}
    """Claims of single kinds of targets that it holds at once: of due runs, and as many again ahead of their time. A
    kind that is not named is bounded by `slots` and `ahead` alone."""
    tags: dict[str, str] = {}
    """What `run_on` of a job is matched with."""
    kinds_due: dict[str, int] = {}
    kinds_ahead: dict[str, int] = {}
    """What it holds of the kinds in `kind_slots`."""


class BucketOwner(Record, frozen=True, kw_only=True):
    """Who fires a bucket's ticks; the epoch rises with each assignment."""

    node: str | None
    epoch: int


class DueEntry(Record, frozen=True, kw_only=True):
    """The value at `due` key (due_ms, bucket, job_id): the tick that comes next."""

    version: int
    """The job version that this tick belongs to."""


class TimerEntry(Record, frozen=True, kw_only=True):
    """The value at `timers` key (at_ms, bucket, run_id): a run that its bucket's owner must Release then.
    Of kind `lease`: whose target has to have been heard by then."""

    token: int
    kind: Literal["release", "retry", "lease"]


class TargetScore(Record, frozen=True, kw_only=True):
    """How much trouble a target made lately (targets.py)."""

    target: str
    score: int = 0
    slow: bool = False


class Counters(Record, frozen=True, kw_only=True):
    """What the cluster counted, replicated so that no failover resets it."""

    fenced_writes: int = 0
    sessions_expired: int = 0
    runs_succeeded: int = 0
    runs_dead: int = 0
    runs_skipped: int = 0
    runs_cancelled: int = 0
    attempts_retried: int = 0
    jobs: int = 0
    ticks_skipped: dict[str, int] = {}
    """By SkipReason; a skipped range counts each of its ticks."""
    dead_by_team: dict[str, int] = {}
    runs_pruned: int = 0
    notifications_sent: int = 0
    notifications_failed: int = 0
    """Given up after the last try, or not even kept for want of room."""
