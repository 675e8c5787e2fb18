"""What a chaos run leaves behind, as values: what clients asked and were told, what the log did (the truth inside),
what targets saw (the witness outside), which faults there were, and what stood at the end. Checkers read nothing else.

`at_s` is the time of the experiment's own clock, in seconds; `*_ms` are unix milliseconds of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from node.interface import Job, Run

TEAR_S = 0.5
"""So long after a pause has ended, a step that was torn from its check is done."""
EARLY_S = 0.1
"""So much may a node's clock be ahead when a start that was torn is told from one that was made after the pause."""
Answer = Literal["ok", "fail", "info"]
"""ok: it happened; fail: it did not, nor will; info: it may have, or may yet."""


Asked = Literal["create", "delete", "run_now", "cancel", "quota", "read", "read_run", "list", "list_runs"]
AskedOfJobs = Literal["pause", "resume", "update"]
AskedOddly = Literal["repeat", "misuse", "excess"]
OperationKind = Asked | AskedOfJobs | AskedOddly
"""repeat: a create again under its key; misuse: another create under that key; excess: one that is beyond a limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a read was answered. `jobs`: job id -> (name, version) of those that it found: of the one that was asked
    for, or of a whole team. `stale_s` is what the answer said of its own age: 0 for a linearizable read."""

    applied_index: int | None
    stale_s: float
    jobs: Mapping[str, tuple[str, int]]
    complete: bool = True
    """list: there were no further pages, so what is not in it did not exist."""
    run: tuple[str, int] | None = None
    """read_run: its state and token; None: it was not found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A client's request, repeated until its fate was known or the client gave up. `subject` is a job id or run id
    (None if the client never learned it). One whose answer never came is `info`, and ended when the client gave up;
    infinite if it never did."""

    kind: OperationKind
    node: str
    invoked_s: float
    ended_s: float
    answer: Answer
    client: str = ""
    subject: str | None = None
    name: str | None = None
    """create: the job's name."""
    local: bool = False
    """A read with consistency=local."""
    next_ms: int | None = None
    """create: the first tick, as it was answered."""
    seen: Seen | None = None
    """Of reads that were answered; a job that was not found is an answer too, with no jobs in it."""
    refusal: int | None = None
    """The HTTP status of a refusal; 409 on create: the name is taken."""
    detail: str = ""
    earlier: str | None = None
    """repeat, misuse: the job that was made first under the key."""
    version: int | None = None
    """pause, resume, update: what the job's definition came to."""
    effective: bool | None = None
    """pause, resume, update, delete: whether nothing starts any more that an earlier definition made; cancel: whether
    the run has ended, its attempt killed."""

    @property
    def stale_s(self) -> float:
        """How old the answer may be: as old as it says, if that was allowed."""
        return self.seen.stale_s if self.local and self.seen is not None else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Defined:
    """A job was made (version 1) or given another definition, and stands at the first tick of that."""

    index: int
    job_id: str
    version: int
    first_ms: int | None
    misfire_grace_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired:
    """An item of a Fire that was accepted: which ticks of a job got a run, and which were skipped."""

    index: int
    job_id: str
    runs_ms: Sequence[int]
    skips: Sequence[tuple[int, int, int, str]]
    """(from_ms, until_ms, count, reason)."""
    at_s: float | None = None
    """When the first replica applied it."""
    version: int = 1
    """Of the job's definition by which it was fired."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """A run was handed to a session."""

    index: int
    at_s: float
    run_id: str
    job_id: str
    token: int
    attempt: int
    attempts_max: int
    node: str
    session: int
    release_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A report of an attempt's end, and what the state machine said to it."""

    index: int
    run_id: str
    token: int
    outcome: str
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdrawn:
    """The holder of a claim gave it back unstarted, and what the state machine said to it."""

    index: int
    run_id: str
    token: int
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOpened:
    index: int
    at_s: float
    node: str
    incarnation: int
    room: int | None = None
    """How many claims it will hold at once, due or ahead of their time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOver:
    """`at_s`: when the first replica applied it, which is when another node may be given its claims."""

    index: int
    at_s: float
    node: str
    incarnation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaSet:
    """From this index on, nodes may hold so many claims of a team's runs at once (None: any number)."""

    index: int
    team: str
    max_concurrent: int | None


Truth = Defined | Fired | Claimed | Finished | Withdrawn | SessionOpened | SessionOver | QuotaSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A target was called: written by the target, not by the node."""

    at_s: float
    node: str
    run_id: str
    job_id: str
    attempt: int
    token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectEnd:
    """The call of a target ended. `how` is what the target answered: "succeeded", "failed", "timed_out" (it was given
    up in time); or "killed": the caller hung up before there was an answer. None of a node that died in between."""

    at_s: float
    node: str
    run_id: str
    token: int
    how: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What was done to the cluster. `what` begins with the kind; `node`: to one node; `until_s`: if it lasts."""

    at_s: float
    what: str
    node: str | None = None
    until_s: float | None = None

    @property
    def kind(self) -> str:
        return self.what.partition(" ")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Absence:
    """A node was really not there: from when it was killed, ended or stopped (SIGSTOP) until it was started or went on;
    `until_s` is infinite if that never came."""

    node: str
    from_s: float
    until_s: float
    how: Literal["down", "paused"]
    process: Literal["both", "node", "log"] = "both"
    """paused: one of its two processes, or both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderSeen:
    """From `at_s` on this was the leader that a majority knew; None: there was none."""

    at_s: float
    node: str | None
    term: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What one process of a node held: read from outside, now and then."""

    at_s: float
    node: str
    process: Literal["node", "log"]
    descriptors: int
    threads: int
    rss_bytes: int
    disk_bytes: int
    """Of the node's data directory: the same for both of its processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """Where a history comes from, for whoever reads its report."""

    harness: Literal["simulated", "live"]
    seed: int
    nodes: int
    commit: str
    """Of the build that was tried; empty if it is not known."""
    command: str
    """What runs the same again."""
    began_ms: int | None = None
    """Real time of the beginning; None where time is virtual."""
    real_s: float | None = None
    """How long it took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalState:
    """One node's state at the end. `jobs`: those that are known to the history, deleted ones too."""

    node: str
    applied_index: int
    digest: str
    jobs: Mapping[str, Job]
    next_ms: Mapping[str, int | None]
    runs: Mapping[str, Run]
    held: Mapping[str, int] = field(default_factory=dict)
    """Of each team with jobs: the claims that it is charged with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Everything about one run."""

    operations: Sequence[Operation]
    truth: Sequence[Truth]
    effects: Sequence[Effect]
    effect_ends: Sequence[EffectEnd]
    faults: Sequence[Fault]
    states: Sequence[FinalState]
    healed_s: float
    """When everything was healed."""
    leader_again_s: float | None
    """When all nodes knew one leader after that; None if they never did."""
    end_s: float
    epoch_ms: int
    """Unix time of at_s = 0, on a right clock."""
    broken: Sequence[str] = field(default=())
    """Invariants that broke while it ran: errors that nobody caught, replicas that parted."""
    absences: Sequence[Absence] = field(default=())
    leaders: Sequence[LeaderSeen] = field(default=())
    """In order of time, each only when it differs from the one before."""
    samples: Sequence[Sample] = field(default=())
    caught_up_s: float | None = None
    """When every node had applied what any node had applied at the healing; None if that never came."""
    witnessed: Sequence[str] = field(default=("http", "noop"))
    """The kinds of targets that write to the witness."""
    pauses_tear: bool = False
    """A pause may fall between a check and the step that follows it, as it may in real processes."""
    about: About | None = None

    def wall_ms(self, at_s: float) -> int:
        """The right wall clock at a time of the experiment."""
        return self.epoch_ms + round(at_s * 1000)

    def is_torn(self, node: str, at_s: float, release_ms: int) -> bool:
        """Whether a start of that node then may have been checked before a pause that had just ended (I9 excuses it):
        only if its time had come before the pause."""
        return self.pauses_tear and any(
            absence.node == node
            and absence.how == "paused"
            and absence.from_s < at_s <= absence.until_s + TEAR_S
            and release_ms <= self.wall_ms(absence.from_s + EARLY_S)
            for absence in self.absences
        )

    def went_down(self, node: str, from_s: float, until_s: float) -> bool:
        """Whether the node was killed or ended between then and then."""
        return any(
            absence.node == node and absence.how == "down" and from_s <= absence.from_s <= until_s
            for absence in self.absences
        )

    def absent_until(self, node: str, at_s: float) -> float | None:
        """If what runs attempts on the node was not there then: until when; else None."""
        found = [
            absence.until_s
            for absence in self.absences
            if absence.node == node and absence.process != "log" and absence.from_s <= at_s < absence.until_s
        ]
        return max(found, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A promise that was not kept: which one, and what was seen."""

    promise: str
    what: str
    decided: bool = True
    """False: the checker gave up; it is not known whether the promise was kept."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"
