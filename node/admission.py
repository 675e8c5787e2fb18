"""From a request's draft to a job: everything that could be wrong with it is said now, field by field, with what to
write instead. Pure but for the time and the identifier that it is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from executor import check_target
from node.aftermath_rules import keep_faults, notify_faults, pause_faults
from node.interface import (
    ARGS_BYTES_MAX,
    LABELS_MAX,
    NAME_LENGTH_MAX,
    TEAM_LENGTH_MAX,
    FieldError,
    Invalid,
    JobDraft,
)
from node.plans import Plan
from node.schedule import (
    InvalidSchedule,
    Schedule,
    ScheduleSpec,
    compile_schedule,
    instant_text,
    parse_run_at,
    stable_jitter_ms,
)
from node.schedule_hash import JITTER_S_MAX
from node.text_rules import identifier_fault, label_fault, name_fault
from statemachine.limits import JOB_CALENDARS_MAX, JOB_CONCURRENT_MAX, RUN_ON_MAX, TIME_MS_MAX
from statemachine.records import Job, MisfirePolicy

PRIORITIES = {"low": 2, "normal": 5, "high": 8}
TIMEOUT_S_MIN, TIMEOUT_S_MAX = 0.001, 24 * 3600.0
DEADLINE_S_MAX = 30 * 24 * 3600.0
RETRIES_MAX = 100
BACKOFF_S_MAX = 7 * 24 * 3600.0
MULTIPLIER_MAX = 100.0
GRACE_S_MAX = 366 * 24 * 3600.0
MAX_RUNS_MAX = 1_000_000_000
TZ_WITHOUT_WALL_TIMES = "UTC"
"""Kept for a job whose times need no zone: a default for the others would be a guess that fires at the wrong hour."""
_OFFSET = re.compile(r"([Zz]|[+-]\d\d:\d\d)\s*\Z", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """When the job is due, as far as it could be read."""

    spec: ScheduleSpec
    first_due_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """A job that is to be replaced, and the first of its ticks that has no record (None: none is to come)."""

    job: Job
    unrecorded_ms: int | None


class _Refused(Exception):
    """A field that cannot be accepted, on the way to the list of errors."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.message)
        self.error = error


def _refuse(path: str, message: str) -> NoReturn:
    raise _Refused(FieldError(path=path, message=message))


def admit(
    draft: JobDraft, *, job_id: str, now_ms: int, allow_link_local: bool = False, before: Before | None = None
) -> Job:
    """The job that the draft means; with `before`, its next version. Raises Invalid, naming every field that cannot be
    accepted."""
    errors = [*_plain_faults(draft), *_number_faults(draft), *_target_faults(draft, allow_link_local)]
    if before is not None:
        errors += _replacement_faults(draft, before.job)
    errors += notify_faults(draft.notify, allow_link_local=allow_link_local)
    errors += keep_faults(draft.keep_runs, draft.keep_days)
    errors += pause_faults(draft.pause_on_failure)
    args = _args(draft.args, errors)
    misfire_policy: MisfirePolicy = draft.misfire_policy or ("run_once" if draft.run_at is not None else "skip")
    times = _maybe_times(draft, job_id, now_ms, errors, before)
    if errors or times is None:
        raise Invalid(errors=errors)
    return Job(
        job_id=job_id,
        name=draft.name,
        team=draft.team,
        expressions=times.spec.expressions,
        run_at_ms=times.spec.run_at_ms,
        tz=times.spec.tz,
        target=draft.target,
        args=args,
        timeout_s=float(draft.timeout_s),
        max_retries=draft.max_retries,
        backoff_base_s=float(draft.backoff_base_s),
        backoff_multiplier=float(draft.backoff_multiplier),
        backoff_max_s=float(draft.backoff_max_s),
        backoff_jitter=float(draft.backoff_jitter),
        priority=PRIORITIES[draft.priority] if isinstance(draft.priority, str) else draft.priority,
        overlap_policy=draft.overlap_policy,
        max_concurrent=draft.max_concurrent,
        start_deadline_s=_float_or_none(draft.start_deadline_s),
        run_timeout_s=_float_or_none(draft.run_timeout_s),
        misfire_policy=misfire_policy,
        misfire_grace_s=float(draft.misfire_grace_s),
        misfire_window_s=None if draft.misfire_window_s is None else float(draft.misfire_window_s),
        max_runs=draft.max_runs,
        exclude_calendars=tuple(draft.exclude_calendars),
        jitter_s=float(draft.jitter_s),
        dst_gap=draft.dst_gap,
        dst_fold=draft.dst_fold,
        starts_at_ms=times.spec.starts_at_ms,
        ends_at_ms=times.spec.ends_at_ms,
        labels=draft.labels,
        run_on=draft.run_on,
        notify=draft.notify,
        pause_on_failure=draft.pause_on_failure,
        after_completion=draft.after_completion,
        keep_runs=draft.keep_runs,
        keep_days=draft.keep_days,
        version=1 if before is None else before.job.version + 1,
        created_ms=now_ms if before is None else before.job.created_ms,
        updated_ms=now_ms,
        first_due_ms=times.first_due_ms,
    )


def make_plan(job: Job) -> Plan:
    """A stored job with its schedule ready to be asked. Raises InvalidSchedule if this version cannot read it."""
    return Plan(
        job=job,
        ticks=compile_schedule(spec_of(job), job.job_id),
        jitter_ms=stable_jitter_ms(job.job_id, job.jitter_s),
    )


def spec_of(job: Job) -> ScheduleSpec:
    """What a stored job says about its times."""
    return ScheduleSpec(
        expressions=job.expressions,
        run_at_ms=job.run_at_ms,
        tz=job.tz,
        dst_gap=job.dst_gap,  # type: ignore[arg-type]  # a plain word in the record, checked at admission
        dst_fold=job.dst_fold,  # type: ignore[arg-type]
        starts_at_ms=job.starts_at_ms,
        ends_at_ms=job.ends_at_ms,
    )


def _float_or_none(value: float | None) -> float | None:
    return None if value is None else float(value)


def parse_args(args: Any) -> bytes:
    """Args as JSON text. Raises Invalid."""
    errors: list[FieldError] = []
    text = _args(args, errors)
    if errors:
        raise Invalid(errors=errors)
    return text


def _args(args: Any, errors: list[FieldError]) -> bytes:
    text = msgspec.json.encode(args)
    if len(text) > ARGS_BYTES_MAX:
        errors.append(FieldError(path="args", message=f"is longer than {ARGS_BYTES_MAX} bytes of JSON"))
    return text


def _plain_faults(draft: JobDraft) -> list[FieldError]:
    faults = [
        ("name", name_fault(draft.name, NAME_LENGTH_MAX)),
        ("team", identifier_fault(draft.team, TEAM_LENGTH_MAX)),
    ]
    if len(draft.exclude_calendars) > JOB_CALENDARS_MAX:
        faults.append(("exclude_calendars", f"has more than {JOB_CALENDARS_MAX} calendars"))
    elif len(set(draft.exclude_calendars)) < len(draft.exclude_calendars):
        faults.append(("exclude_calendars", "names a calendar twice"))
    if len(draft.labels) > LABELS_MAX:
        faults.append(("labels", f"has more than {LABELS_MAX} labels"))
    else:
        faults += [(f"labels.{name}", label_fault(name, value)) for name, value in draft.labels.items()]
    if len(draft.run_on) > RUN_ON_MAX:
        faults.append(("run_on", f"has more than {RUN_ON_MAX} tags"))
    else:
        faults += [(f"run_on.{name}", label_fault(name, value)) for name, value in draft.run_on.items()]
    return [FieldError(path=path, message=message) for path, message in faults if message is not None]


def _number_faults(draft: JobDraft) -> list[FieldError]:
    ranges: tuple[tuple[str, float | None, float, float], ...] = (
        ("timeout_s", draft.timeout_s, TIMEOUT_S_MIN, TIMEOUT_S_MAX),
        ("max_retries", draft.max_retries, 0, RETRIES_MAX),
        ("backoff_base_s", draft.backoff_base_s, 0, BACKOFF_S_MAX),
        ("backoff_multiplier", draft.backoff_multiplier, 1, MULTIPLIER_MAX),
        ("backoff_max_s", draft.backoff_max_s, 0, BACKOFF_S_MAX),
        ("backoff_jitter", draft.backoff_jitter, 0, 1),
        ("misfire_grace_s", draft.misfire_grace_s, 0, GRACE_S_MAX),
        ("misfire_window_s", draft.misfire_window_s, 0, GRACE_S_MAX),
        ("max_runs", draft.max_runs, 1, MAX_RUNS_MAX),
        ("jitter_s", draft.jitter_s, 0, JITTER_S_MAX),
    )
    faults = [
        FieldError(path=path, message=f"must be from {least:g} to {most:g}")
        for path, value, least, most in ranges
        if value is not None and not least <= value <= most  # NaN is within no range
    ]
    for path, value in (("start_deadline_s", draft.start_deadline_s), ("run_timeout_s", draft.run_timeout_s)):
        if value is not None and not TIMEOUT_S_MIN <= value <= DEADLINE_S_MAX:
            message = f"must be from {TIMEOUT_S_MIN:g} to {DEADLINE_S_MAX:g}; leave it out for no limit"
            faults.append(FieldError(path=path, message=message))
    if draft.max_concurrent is not None and not 1 <= draft.max_concurrent <= JOB_CONCURRENT_MAX:
        message = f"must be from 1 to {JOB_CONCURRENT_MAX}; leave it out for no limit"
        faults.append(FieldError(path="max_concurrent", message=message))
    if not isinstance(draft.priority, str) and not 0 <= draft.priority <= 9:
        faults.append(FieldError(path="priority", message="must be 0 to 9 (9 first), or low, normal or high"))
    return faults


def _target_faults(draft: JobDraft, allow_link_local: bool) -> list[FieldError]:
    target = msgspec.to_builtins(draft.target)
    return [
        FieldError(path=path, message=message)
        for path, message in check_target(target, allow_link_local=allow_link_local)
    ]


def _replacement_faults(draft: JobDraft, job: Job) -> list[FieldError]:
    faults = []
    if draft.team != job.team:
        message = f"is {draft.team}, but the job is team {job.team}'s and stays so; create it anew in the other team"
        faults.append(FieldError(path="team", message=message))
    if draft.idempotency_key is not None:
        message = "is for creating; a replacement may be repeated as it is, so leave it out"
        faults.append(FieldError(path="idempotency_key", message=message))
    return faults


def _maybe_times(
    draft: JobDraft, job_id: str, now_ms: int, errors: list[FieldError], before: Before | None
) -> Times | None:
    """The schedule and its first tick; None (and an error) when it cannot be read."""
    if (draft.schedule is None) == (draft.run_at is None):
        message = "give either schedule (recurring) or run_at (once)"
        errors.append(FieldError(path="schedule", message=message))
        return None
    try:
        spec = _spec(draft, _zone(draft))
        schedule = compile_schedule(spec, job_id)
        if before is not None and spec == spec_of(before.job):
            return Times(spec=spec, first_due_ms=_goes_on_at(draft, schedule, job_id, now_ms, before))
        since_ms = now_ms if before is None else _since_ms(draft, job_id, now_ms, before)
        first_due_ms = _first_due_ms(draft, schedule, spec, now_ms, since_ms)
    except InvalidSchedule as error:
        errors.append(field_error(error))
        if error.field == "tz":
            errors += _faults_in_any_zone(draft, job_id)
        return None
    except _Refused as error:
        errors.append(error.error)
        return None
    return Times(spec=spec, first_due_ms=first_due_ms)


def _faults_in_any_zone(draft: JobDraft, job_id: str) -> list[FieldError]:
    """What is wrong with the times whatever zone was meant: a missing zone must not hide that a run_at is no time."""
    try:
        compile_schedule(_spec(draft, TZ_WITHOUT_WALL_TIMES), job_id)
    except InvalidSchedule as error:
        return [field_error(error)]
    except _Refused as error:
        return [error.error]
    return []


def _spec(draft: JobDraft, tz: str) -> ScheduleSpec:
    if draft.run_at is not None:
        for field in ("starts_at", "ends_at"):
            if getattr(draft, field) is not None:
                _refuse(field, "is for recurring jobs only; a run_at says itself when it is due")
        return ScheduleSpec(run_at_ms=parse_run_at(draft.run_at, tz), tz=tz)
    expressions = (draft.schedule,) if isinstance(draft.schedule, str) else tuple(draft.schedule or ())
    return ScheduleSpec(
        expressions=expressions,
        tz=tz,
        dst_gap=draft.dst_gap,
        dst_fold=draft.dst_fold,
        starts_at_ms=None if draft.starts_at is None else parse_run_at(draft.starts_at, tz, field="starts_at"),
        ends_at_ms=None if draft.ends_at is None else parse_run_at(draft.ends_at, tz, field="ends_at"),
    )


def _zone(draft: JobDraft) -> str:
    """The zone that the job's times are read in; an empty one, which is refused, where one is needed and missing."""
    if draft.tz is not None:
        return draft.tz
    expressions = [draft.schedule] if isinstance(draft.schedule, str) else draft.schedule or []
    instants = [text for text in (draft.run_at, draft.starts_at, draft.ends_at) if text is not None]
    on_a_wall_clock = not all(text.strip().lower().startswith("@every") for text in expressions)
    is_naive = not all(_OFFSET.search(text) for text in instants)
    return "" if on_a_wall_clock or is_naive else TZ_WITHOUT_WALL_TIMES


def _since_ms(draft: JobDraft, job_id: str, now_ms: int, before: Before) -> int:
    """A changed job goes on with the first tick whose release is still to come, or was when it was paused."""
    paused_ms = before.job.paused_ms
    return (now_ms if paused_ms is None else paused_ms) - stable_jitter_ms(job_id, draft.jitter_s)


def _goes_on_at(draft: JobDraft, schedule: Schedule, job_id: str, now_ms: int, before: Before) -> int | None:
    """Where a job goes on whose times are as they were: a tick that is late keeps its turn."""
    next_ms = schedule.next(_since_ms(draft, job_id, now_ms, before))
    return min((at_ms for at_ms in (next_ms, before.unrecorded_ms) if at_ms is not None), default=None)


def _first_due_ms(draft: JobDraft, schedule: Schedule, spec: ScheduleSpec, now_ms: int, since_ms: int) -> int:
    """The tick that the job begins at. A one-off may be a little late: its request may have taken a while."""
    if spec.run_at_ms is not None:
        _check_run_at(draft, spec.run_at_ms, now_ms)
        return spec.run_at_ms
    first_due_ms = schedule.next(since_ms)
    if first_due_ms is None:
        field = "schedule" if spec.ends_at_ms is None else "ends_at"
        _refuse(field, f"no tick would ever come after now, {instant_text(now_ms)}")
    if not 0 <= first_due_ms <= TIME_MS_MAX:
        _refuse("schedule", "the first tick is too far away")
    return first_due_ms


def _check_run_at(draft: JobDraft, run_at_ms: int, now_ms: int) -> None:
    late_s = (now_ms - run_at_ms) / 1000
    if late_s > draft.misfire_grace_s:
        _refuse(
            "run_at",
            f"{instant_text(run_at_ms)} was {late_s:.0f} s ago, more than misfire_grace_s ({draft.misfire_grace_s:g}); "
            "give a time to come, or a longer grace to run it at once",
        )
    if not 0 <= run_at_ms <= TIME_MS_MAX:
        _refuse("run_at", "is too far away")


def field_error(error: InvalidSchedule) -> FieldError:
    """A schedule's refusal as the API tells it."""
    path = error.field if error.index is None else f"{error.field}[{error.index}]"
    return FieldError(path=path, message=f'{error.reason}; write "{error.remedy}" instead')
