"""Records → the JSON of the API: field names, their order, and times as RFC 3339 UTC with milliseconds."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from node.interface import (
    Attempt,
    BackfillPlan,
    BackfillView,
    Calendar,
    ClusterView,
    Heartbeat,
    Job,
    JobCreated,
    JobStats,
    JobView,
    NodeView,
    Preview,
    Run,
    RunCancelled,
    Target,
    TeamView,
)

Json = dict[str, Any]
T = TypeVar("T")

SECRET_MASK = "whsec_********"
"""In the place of a secret. It is refused as one, so that what was read cannot be written back by mistake."""


def instant(unix_ms: int) -> str:
    """Unix milliseconds as RFC 3339 UTC: '2026-11-30T01:00:00.000Z'."""
    moment = datetime.datetime.fromtimestamp(unix_ms // 1000, datetime.UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='seconds')}.{unix_ms % 1000:03d}Z"


def instant_or_null(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else instant(unix_ms)


def job_created(created: JobCreated) -> Json:
    return {
        "job_id": created.job_id,
        "next_run_at": instant_or_null(created.next_run_ms),
        "version": created.version,
    }


def job(view: JobView) -> Json:
    """Every field of the draft with its value, then what the cluster added."""
    record = view.job
    return {
        "job_id": record.job_id,
        **job_definition(record),
        "state": "active" if record.paused_ms is None else "paused",
        "paused_at": instant_or_null(record.paused_ms),
        "pause_reason": record.pause_reason,
        "version": record.version,
        "next_run_at": instant_or_null(view.next_run_ms),
        "created_at": instant(record.created_ms),
        "updated_at": instant(record.updated_ms),
        "stats": _stats(view.stats),
    }


def job_definition(record: Job) -> Json:
    """Every field of the draft with its value: as the body of a PUT, it changes nothing."""
    return {
        "name": record.name,
        "team": record.team,
        "schedule": _schedule(record),
        "run_at": instant_or_null(record.run_at_ms),
        "tz": record.tz,
        "target": _target(record.target),
        "args": msgspec.json.decode(record.args),
        "timeout_s": record.timeout_s,
        "max_retries": record.max_retries,
        "backoff_base_s": record.backoff_base_s,
        "backoff_multiplier": record.backoff_multiplier,
        "backoff_max_s": record.backoff_max_s,
        "backoff_jitter": record.backoff_jitter,
        "priority": record.priority,
        "overlap_policy": record.overlap_policy,
        "max_concurrent": record.max_concurrent,
        "start_deadline_s": record.start_deadline_s,
        "run_timeout_s": record.run_timeout_s,
        "misfire_policy": record.misfire_policy,
        "misfire_grace_s": record.misfire_grace_s,
        "misfire_window_s": record.misfire_window_s,
        "max_runs": record.max_runs,
        "jitter_s": record.jitter_s,
        "dst_gap": record.dst_gap,
        "dst_fold": record.dst_fold,
        "starts_at": instant_or_null(record.starts_at_ms),
        "ends_at": instant_or_null(record.ends_at_ms),
        "exclude_calendars": list(record.exclude_calendars),
        "labels": record.labels,
        "run_on": record.run_on,
        "notify": msgspec.to_builtins(record.notify),
        "pause_on_failure": record.pause_on_failure,
        "after_completion": record.after_completion,
        "keep_runs": record.keep_runs,
        "keep_days": record.keep_days,
    }


def _stats(stats: JobStats) -> Json:
    """A job's history added up; it follows the runs by a second or two."""
    return {
        "runs": {
            "succeeded": stats.succeeded,
            "dead": stats.dead,
            "cancelled": stats.cancelled,
            "skipped": stats.skipped,
        },
        "ticks_skipped": stats.ticks_skipped,
        "attempts_retried": stats.retried,
        "consecutive_failures": stats.consecutive_failures,
        "last_outcome": None if stats.last_outcome is None else stats.last_outcome.value,
        "last_run": _ended_run(stats.last_run_id, stats.last_ms),
        "last_success": _ended_run(stats.last_success_run_id, stats.last_success_ms),
        "last_failure": _ended_run(stats.last_failure_run_id, stats.last_failure_ms),
    }


def _ended_run(run_id: str | None, at_ms: int | None) -> Json | None:
    return None if run_id is None or at_ms is None else {"run_id": run_id, "at": instant(at_ms)}


def _target(target: Target) -> Json:
    """As it was given, but for what was given to keep: a secret is never shown again."""
    shown: Json = msgspec.to_builtins(target)
    if shown.get("signing_secret") is not None:
        shown["signing_secret"] = SECRET_MASK
    return shown


def _schedule(record: Job) -> str | list[str] | None:
    if not record.expressions:
        return None
    return record.expressions[0] if len(record.expressions) == 1 else list(record.expressions)


def run(record: Run) -> Json:
    """A run. What follows `log_url` is there only when it says something: `log_bytes`, what is kept of its last
    attempt's output, `retry_at` of a run that waits for its next attempt, `parked` of one that others of its job hold
    back, `catch_up` of one that makes a missed tick good, `overlap_policy` of one that has its own, `stop` of one that
    is being ended and why, `lease_until` and `progress` of one that its target completes, `until_at` and `count` of a
    range of skipped ticks."""
    body: Json = {
        "run_id": record.run_id,
        "job_id": record.job_id,
        "team": record.team,
        "kind": record.kind.value,
        "state": record.state.value,
        "due_at": instant(record.due_ms),
        "release_at": instant(record.release_ms),
        "started_at": instant_or_null(record.started_ms),
        "finished_at": instant_or_null(record.finished_ms),
        "attempt": record.attempt,
        "node": record.node,
        "fence_token": record.token,
        "reason": record.reason,
        "job_version": record.job_version,
        "attempts": [_attempt(one) for one in record.attempts],
        "log_url": f"/v1/runs/{record.run_id}/log",
    }
    if record.log_bytes is not None:
        body["log_bytes"] = record.log_bytes
    if record.retry_at_ms is not None:
        body["retry_at"] = instant(record.retry_at_ms)
    if record.parked:
        body["parked"] = True
    if record.catch_up:
        body["catch_up"] = True
    if record.overlap_policy is not None:
        body["overlap_policy"] = record.overlap_policy
    if record.stop is not None:
        body["stop"] = record.stop
    if record.lease is not None:
        body["lease_until"] = instant(record.lease.until_ms)
        body["progress"] = record.lease.progress
    if record.until_ms is not None:
        body["until_at"] = instant(record.until_ms)
        body["count"] = record.count
    return body


def run_cancelled(cancelled: RunCancelled) -> Json:
    return run(cancelled.run) | {"effective": cancelled.effective}


def heartbeat(run_id: str, beat: Heartbeat) -> Json:
    return {"run_id": run_id, "lease_until": instant_or_null(beat.until_ms)}


def _attempt(record: Attempt) -> Json:
    body: Json = {
        "attempt": record.attempt,
        "node": record.node,
        "outcome": record.outcome.value,
        "status": record.status,
        "started_at": instant_or_null(record.started_ms),
        "finished_at": instant_or_null(record.finished_ms),
    }
    if record.detail is not None:
        body["detail"] = record.detail
    return body


def backfill_plan(plan: BackfillPlan) -> Json:
    return {
        "count": plan.count,
        "first_at": instant_or_null(plan.first_ms),
        "last_at": instant_or_null(plan.last_ms),
    }


def backfill(view: BackfillView) -> Json:
    record = view.backfill
    return {
        "backfill_id": record.backfill_id,
        "job_id": record.job_id,
        "team": record.team,
        "state": record.state,
        "from": instant(record.from_ms),
        "to": instant(record.to_ms),
        "next_at": instant_or_null(record.next_ms),
        "overlap_policy": record.overlap_policy,
        "made": record.made,
        "outstanding": view.outstanding,
        "reason": record.reason,
        "created_at": instant(record.created_ms),
        "finished_at": instant_or_null(record.finished_ms),
    }


def calendar(record: Calendar) -> Json:
    """A calendar; each of its days or spans as text, in order."""
    return {
        "name": record.name,
        "tz": record.tz,
        "days": [_span(*span) for span in record.spans],
        "version": record.version,
        "updated_at": instant(record.updated_ms),
    }


def _span(first: int, last: int) -> str:
    days = [datetime.date.fromordinal(day).isoformat() for day in (first, last)]
    return days[0] if first == last else "/".join(days)


def team(view: TeamView) -> Json:
    """Settings, then what the team has. Version 0 and no time: it has the defaults."""
    record = view.team
    return {
        "team": record.team,
        "max_concurrent": record.max_concurrent,
        "weight": record.weight,
        "max_jobs": record.max_jobs,
        "notify": msgspec.to_builtins(record.notify),
        "keep_runs": record.keep_runs,
        "keep_days": record.keep_days,
        "version": record.version,
        "jobs": view.jobs,
        "claims": view.held,
        "updated_at": instant(record.updated_ms) if record.version else None,
    }


def cluster(view: ClusterView) -> Json:
    return {
        "cluster_id": view.cluster_id,
        "node": view.node,
        "leader": view.leader,
        "term": view.term,
        "applied_index": view.applied_index,
        "quorum": view.quorum,
        "tzdata": view.tzdata,
        "nodes": [_node(one) for one in view.nodes],
    }


def _node(view: NodeView) -> Json:
    return {
        "node": view.node,
        "http": view.http,
        "raft": view.raft,
        "role": view.role,
        "live": view.live,
        "buckets": view.buckets,
        "running": view.running,
        "slots": view.slots,
        "kind_slots": dict(view.kind_slots),
        "tags": dict(view.tags),
        "applied_index": view.applied_index,
        "skew_s": view.skew_s,
        "disk_low": view.disk_low,
        "version": view.version,
    }


def preview(view: Preview, *, schedule: Iterable[str], tz: str) -> Json:
    return {
        "schedule": list(schedule),
        "tz": tz,
        "description": view.description,
        "ticks": [instant(tick_ms) for tick_ms in view.ticks_ms],
        "special": list(view.special),
        "jitter_s": view.jitter_ms / 1000,
        "excluded": [instant(tick_ms) for tick_ms in view.excluded_ms],
    }


def page(items: Iterable[T], next_cursor: str | None, render_item: Callable[[T], Json]) -> Json:
    return {"items": [render_item(item) for item in items], "next_cursor": next_cursor}
