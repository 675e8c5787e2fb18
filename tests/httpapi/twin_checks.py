"""What the in-memory scheduler checks and computes: drafts, zones, ticks of ordinary schedules, cursors."""

from __future__ import annotations

import base64
import datetime
import re
import zoneinfo
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from croniter import croniter

from executor.admission import check_target
from node.aftermath_rules import keep_faults, notify_faults, pause_faults
from node.interface import (
    ARGS_BYTES_MAX,
    FINAL_STATES,
    NAME_LENGTH_MAX,
    FieldError,
    Invalid,
    Job,
    JobDraft,
    JobStats,
    Malformed,
    Run,
    RunState,
    TeamDraft,
)

Faults = Iterator[tuple[str, str]]


def check(*faults: Faults) -> None:
    found = [FieldError(path=path, message=message) for some in faults for path, message in some]
    if found:
        raise Invalid(errors=found)


def draft_faults(draft: JobDraft) -> Faults:
    if not draft.name or len(draft.name) > NAME_LENGTH_MAX:
        yield "name", f"must have 1 to {NAME_LENGTH_MAX} characters"
    if (draft.schedule is None) == (draft.run_at is None):
        yield "schedule", "give exactly one of schedule and run_at"
    yield from schedule_faults(expressions_of(draft))
    yield from check_target(msgspec.to_builtins(draft.target))
    if isinstance(draft.priority, int) and not 0 <= draft.priority <= 9:
        yield "priority", "must be 0 to 9"
    for name, value in (("start_deadline_s", draft.start_deadline_s), ("run_timeout_s", draft.run_timeout_s)):
        if value is not None and not 0.001 <= value <= 2592000:
            yield name, "must be from 0.001 to 2.592e+06; leave it out for no limit"
    if draft.max_concurrent is not None and not 1 <= draft.max_concurrent <= 1000:
        yield "max_concurrent", "must be from 1 to 1000; leave it out for no limit"
    yield from ((error.path, error.message) for error in notify_faults(draft.notify, allow_link_local=False))
    yield from ((error.path, error.message) for error in keep_faults(draft.keep_runs, draft.keep_days))
    yield from ((error.path, error.message) for error in pause_faults(draft.pause_on_failure))
    if not 0 <= draft.max_retries <= 100:
        yield "max_retries", "must be 0 to 100"
    if len(msgspec.json.encode(draft.args)) > ARGS_BYTES_MAX:
        yield "args", f"are longer than {ARGS_BYTES_MAX} bytes of JSON"


def team_faults(team: str, draft: TeamDraft) -> Faults:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", team):
        yield "team", "is not a team's name"
    if draft.max_concurrent is not None and draft.max_concurrent < 0:
        yield "max_concurrent", "must not be negative"
    if not 1 <= draft.weight <= 1000:
        yield "weight", "must be 1 to 1000"
    if draft.max_jobs is not None and draft.max_jobs < 0:
        yield "max_jobs", "must not be negative"
    yield from ((error.path, error.message) for error in notify_faults(draft.notify, allow_link_local=False))
    yield from ((error.path, error.message) for error in keep_faults(draft.keep_runs, draft.keep_days))


def replacement_faults(draft: JobDraft, job: Job) -> Faults:
    if draft.team != job.team:
        yield "team", "a job stays with its team"
    if draft.idempotency_key is not None:
        yield "idempotency_key", "is for creating"


def schedule_faults(expressions: Iterable[str]) -> Faults:
    for expression in expressions:
        if not expression.startswith("@every ") and not croniter.is_valid(expression):
            yield "schedule", f"{expression!r} is not a schedule"


def zone_faults(tz: str) -> Faults:
    try:
        zoneinfo.ZoneInfo(tz)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        yield "tz", f"{tz!r} is not an IANA time zone"


def expressions_of(draft: JobDraft) -> tuple[str, ...]:
    if draft.schedule is None:
        return ()
    return (draft.schedule,) if isinstance(draft.schedule, str) else tuple(draft.schedule)


def local_ms(text: str, tz: str) -> int:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(errors=[FieldError(path="run_at", message="is not a time")]) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zoneinfo.ZoneInfo(tz))
    return int(aware.timestamp() * 1000)


def ticks_after(expressions: Sequence[str], tz: str, after_ms: int) -> Iterator[int]:
    """The union of the expressions' ticks, strictly after `after_ms`."""
    while True:
        after_ms = min(next_tick(expression, tz, after_ms) for expression in expressions)
        yield after_ms


def next_tick(expression: str, tz: str, after_ms: int) -> int:
    if expression.startswith("@every "):
        every_ms = int(expression.removeprefix("@every ").removesuffix("s")) * 1000
        return (after_ms // every_ms + 1) * every_ms
    start = datetime.datetime.fromtimestamp(after_ms / 1000, zoneinfo.ZoneInfo(tz))
    following: datetime.datetime = croniter(expression, start).get_next(datetime.datetime)
    return int(following.timestamp() * 1000)


def cut(keys: list[str], limit: int) -> tuple[list[str], str | None]:
    shown = keys[:limit]
    more = len(keys) > limit
    return shown, base64.urlsafe_b64encode(shown[-1].encode()).decode() if more else None


def decode_cursor(cursor: str | None) -> str | None:
    try:
        return None if cursor is None else base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except ValueError:
        raise Malformed(errors=[FieldError(path="cursor", message="is not a cursor of this list")]) from None


def stats_of(runs: Sequence[Run]) -> JobStats:
    """A job's history, counted over all of its runs in order of their due times."""
    states = Counter(run.state.value for run in runs)
    ended = [run for run in runs if run.state in FINAL_STATES and run.state is not RunState.SKIPPED]
    failures = takewhile(lambda run: run.state is RunState.DEAD, reversed(ended))
    return JobStats(
        **{state.value: states[state.value] for state in FINAL_STATES},
        ticks_skipped=sum(run.count for run in runs if run.state is RunState.SKIPPED),
        consecutive_failures=len(list(failures)),
        last_outcome=ended[-1].state if ended else None,
        last_run_id=ended[-1].run_id if ended else None,
        last_ms=ended[-1].finished_ms if ended else None,
        **_last_of(ended, RunState.SUCCEEDED, "success"),
        **_last_of(ended, RunState.DEAD, "failure"),
    )


def _last_of(ended: Sequence[Run], state: RunState, name: str) -> dict[str, Any]:
    runs = [run for run in ended if run.state is state]
    return {f"last_{name}_run_id": runs[-1].run_id, f"last_{name}_ms": runs[-1].finished_ms} if runs else {}
