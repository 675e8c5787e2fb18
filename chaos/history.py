"""What a chaos run leaves behind, as values: what clients asked and were told, what the log did (the truth inside),
what targets saw (the witness outside), which faults there were, and what stood at the end. Checkers read nothing else.

`at_s` is the time of the experiment's own clock, in seconds; `*_ms` are unix milliseconds of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from node.interface import Job, Run

Answer = Literal["ok", "fail", "info"]
"""ok: it happened; fail: it did not, nor will; info: it may have, or may yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A client's request. `subject` is a job id or run id (None if the client never learned it)."""

    kind: Literal["create", "delete", "run_now", "read"]
    node: str
    invoked_s: float
    ended_s: float
    answer: Answer
    subject: str | None = None
    next_ms: int | None = None
    """create: the first tick, as it was answered."""
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired:
    """An item of a Fire that was accepted: which ticks of a job got a run, and which were skipped."""

    index: int
    job_id: str
    runs_ms: Sequence[int]
    skips: Sequence[tuple[int, int, int, str]]
    """(from_ms, until_ms, count, reason)."""


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
class SessionOpened:
    index: int
    at_s: float
    node: str
    incarnation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOver:
    """`at_s`: when the first replica applied it, which is when another node may be given its claims."""

    index: int
    at_s: float
    node: str
    incarnation: int


Truth = Fired | Claimed | Finished | SessionOpened | SessionOver


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
    """The call of a target ended, or was killed ("killed"); none of a node that died in between."""

    at_s: float
    node: str
    run_id: str
    token: int
    how: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    at_s: float
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalState:
    """One node's state at the end. `jobs`: those that are known to the history, deleted ones too."""

    node: str
    applied_index: int
    digest: str
    jobs: Mapping[str, Job]
    next_ms: Mapping[str, int | None]
    runs: Mapping[str, Run]


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

    def wall_ms(self, at_s: float) -> int:
        """The right wall clock at a time of the experiment."""
        return self.epoch_ms + round(at_s * 1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A promise that was not kept: which one, and what was seen."""

    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"
