"""The events of applying commands: hints for the node processes, which can rebuild what they need from the state."""

from __future__ import annotations

import msgspec


class RunClaimed(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="run_claimed"):
    """To the holder's node: start this at release_ms."""

    run_id: str
    job_id: str
    job_version: int
    session: int
    token: int
    attempt: int
    attempts_max: int
    priority: int
    due_ms: int
    release_ms: int
    end_by_ms: int | None = None
    """Until when the whole run may last: an attempt must not go beyond it."""


class StopRequested(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="stop_requested"):
    """To the holder's node: end this claim now, and report what became of it."""

    run_id: str
    token: int


class JobDeleted(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="job_deleted"):
    """To every node: withdraw unstarted claims of this job."""

    job_id: str


class JobUpdated(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="job_updated"):
    """To every node: withdraw unstarted claims of this job that an earlier version made."""

    job_id: str
    version: int


class SessionEnded(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="session_ended"):
    """To every node (the ended one stops what it holds of that incarnation)."""

    node: str
    incarnation: int


class SessionRenewed(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="session_renewed"):
    """To every node: an open or renewal was applied, sent when the node's wall clock showed `wall_ms`."""

    node: str
    incarnation: int
    renewal: int
    wall_ms: int


class BucketsMoved(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="buckets_moved"):
    """To every node: the assignment changed; read it anew."""


class DueChanged(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="due_changed"):
    """To the owner of the bucket: a tick or timer at `at_ms` appeared outside the usual course (a new job, a retry)."""

    at_ms: int


class RunsPruned(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="runs_pruned"):
    """To every node: forget the logs of these runs; each with its last attempt's number."""

    runs: tuple[tuple[str, int], ...]
