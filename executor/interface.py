"""One attempt on this machine: an Assignment in, an Outcome out. Knows no raft, no job table, no schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class OutcomeKind(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    ACCEPTED = "accepted"
    """The target took the attempt over and will complete it through the API, with the attempt's token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """Everything one attempt needs. `target` is the job's target as plain values, `type` naming its kind."""

    run_id: str
    job_id: str
    attempt: int
    fence_token: int
    due_at: str
    """RFC 3339 UTC with milliseconds: byte for byte what the API shows as the run's due_at."""
    target: Mapping[str, Any]
    args: bytes
    """JSON text."""
    timeout_s: float
    started_ms: int
    """When it is handed to the executor, by the node's clock (unix milliseconds)."""
    callback_url: str | None = None
    """The run in the API of this node, for a target that completes the attempt itself: with ':complete' after it, or
    ':heartbeat'."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How the attempt ended."""

    kind: OutcomeKind
    status: int | None = None
    """HTTP status or exit code, when there was one."""
    detail: str | None = None
    """One line for a person; never a secret, never a traceback."""
    retry_after_s: float | None = None
    """How long the target asked to be left alone; whoever tries again bounds it."""


class OutputSink(Protocol):
    """Where an attempt's output goes: an http target's answer, a process's stdout and stderr."""

    def write(self, data: bytes) -> None:
        """Take what has just come, in pieces of any size. Costs microseconds, never blocks and never raises. The sink
        bounds what it keeps and counts what it cuts: an executor hands over all that it reads."""
        ...


class Executor(Protocol):
    """Runs attempts of one or more target kinds."""

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        """Run one attempt to its end, its output written to `output` as it comes. Never raises on what a target does;
        a cancelled task kills the attempt at once and re-raises CancelledError. The attempt is killed at `timeout_s`
        and ends timed_out."""
        ...

    async def close(self) -> None:
        """Release connections; running attempts have been cancelled before."""
        ...


@runtime_checkable
class InstantExecutor(Executor, Protocol):
    """An executor whose attempts need no waiting: the node may settle many of them in one go, without a task each."""

    def run_instantly(self, assignment: Assignment) -> Outcome:
        """What `run` would answer, at once. Does no I/O, has no output and never raises."""
        ...


@runtime_checkable
class ReapingExecutor(Executor, Protocol):
    """An executor whose attempts could outlive this process."""

    async def reap(self) -> int:
        """End whatever is of this node and not of an attempt that runs now: what an earlier start left behind, what
        slipped out of an attempt. Returns how many were ended. Raises Unavailable when that cannot be known."""
        ...


class Unavailable(Exception):
    """Attempts of this kind cannot run on this node now; the message is one line for a person."""
