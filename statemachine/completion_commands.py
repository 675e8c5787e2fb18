"""The commands of an attempt that its target completes itself (completion.py)."""

from __future__ import annotations

from statemachine.command_types import Command, Count, NodeId, RunId, TimeMs
from statemachine.records import AttemptOutcome


class Detach(Command, frozen=True, kw_only=True, tag="detach"):
    """The target took the attempt over and will complete it (HTTP 202): the holder lets go of it. `left_ms` is left of
    the attempt's timeout, `heartbeat_ms` how long it may go unheard, `backoff_ms` the wait before the next attempt,
    should it go unheard for longer."""

    run_id: RunId
    token: Count
    started_ms: TimeMs
    left_ms: TimeMs
    heartbeat_ms: TimeMs
    backoff_ms: TimeMs
    log_bytes: Count | None = None


class Heartbeat(Command, frozen=True, kw_only=True, tag="heartbeat"):
    """The target is still at it: extends the lease of a detached attempt, at most to the end of its timeout."""

    run_id: RunId
    token: Count
    progress: str | None = None


class Complete(Command, frozen=True, kw_only=True, tag="complete"):
    """The target's own report of the end (succeeded or failed), by any node; it may overtake the holder's Detach. A
    repeat with the same token and outcome is answered ok. `retry_at_ms` as in Finish. `log_bytes`: the target's output,
    which `log_node` keeps in the place of what it answered at first."""

    run_id: RunId
    token: Count
    outcome: AttemptOutcome
    detail: str | None = None
    retry_at_ms: TimeMs | None = None
    log_node: NodeId | None = None
    log_bytes: Count | None = None
