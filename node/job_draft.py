"""What a client asks for when it creates a job. Users take it from interface.py."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from statemachine.records import AfterCompletion, MisfirePolicy, Notify, OverlapPolicy, Target


class JobDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/jobs. Exactly one of `schedule` and `run_at`. Absent fields have the defaults shown."""

    name: str
    team: str = "default"
    schedule: str | list[str] | None = None
    run_at: str | None = None
    tz: str | None = None
    """An IANA zone. May be absent only where no wall clock is meant: `@every`, and a run_at with an offset."""
    target: Target
    args: Any = None
    timeout_s: float = 60.0
    max_retries: int = 3
    backoff_base_s: float = 10.0
    backoff_multiplier: float = 2.0
    backoff_max_s: float = 3600.0
    backoff_jitter: float = 0.1
    priority: int | Literal["low", "normal", "high"] = 5
    overlap_policy: OverlapPolicy = "allow"
    max_concurrent: int | None = None
    """Runs that may be active at once; absent: one, or with overlap_policy allow as many as come."""
    start_deadline_s: float | None = None
    """How long after its release a run may begin; later it is skipped(deadline)."""
    run_timeout_s: float | None = None
    """How long a run may take from its first claim on, retries and their waits included; then it is dead."""
    misfire_policy: MisfirePolicy | None = None
    """Absent: skip for recurring jobs, run_once for one-offs."""
    misfire_grace_s: float = 60.0
    misfire_window_s: float | None = None
    """Missed ticks that are older never run; null: however old they are."""
    max_runs: int | None = None
    """How many ticks may become runs, counted from when this is set; null: no limit."""
    exclude_calendars: list[str] = []
    """Names of calendars on whose days its ticks are skipped."""
    jitter_s: float = 0.0
    dst_gap: Literal["after", "skip"] = "after"
    dst_fold: Literal["default", "first", "both", "last"] = "default"
    starts_at: str | None = None
    ends_at: str | None = None
    labels: dict[str, str] = {}
    run_on: dict[str, str] = {}
    """Tags that a node must have to run it (`horae serve --tag`)."""
    notify: Notify | None = None
    """Absent: the team's default."""
    pause_on_failure: int | None = None
    after_completion: AfterCompletion = "keep"
    keep_runs: int | None = None
    keep_days: float | None = None
    """How much of the history stays. Absent: the team's default, or the cluster's."""
    idempotency_key: str | None = None
