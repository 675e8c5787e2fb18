"""What is wrong with a job's definition, if anything: the last line of defence behind the API's own checks.

The API refuses more, and in better words; here only what the machine relies on (keys that fit, numbers in range).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from statemachine.keys import JOB_ID_PATTERN
from statemachine.limits import (
    ARGS_BYTES_MAX,
    ARGUMENT_LENGTH_MAX,
    ARGUMENTS_MAX,
    CALENDAR_NAME_LENGTH_MAX,
    DAY_S,
    DURATION_S_MAX,
    EXPRESSION_LENGTH_MAX,
    EXPRESSIONS_MAX,
    HEADER_LENGTH_MAX,
    HEADERS_MAX,
    IMAGE_LENGTH_MAX,
    INT_MAX,
    JOB_CALENDARS_MAX,
    JOB_CONCURRENT_MAX,
    KEEP_RUNS_MAX,
    LABEL_LENGTH_MAX,
    LABELS_MAX,
    MULTIPLIER_MAX,
    NAME_LENGTH_MAX,
    NETWORK_LENGTH_MAX,
    NOTIFY_EVENTS_MAX,
    PATH_LENGTH_MAX,
    RESOURCE_MAX,
    RETRIES_MAX,
    RUN_ON_MAX,
    SECRET_LENGTH_MAX,
    TEAM_LENGTH_MAX,
    TIME_MS_MAX,
    URL_LENGTH_MAX,
    VARIABLE_LENGTH_MAX,
    VARIABLES_MAX,
    WORD_LENGTH_MAX,
)
from statemachine.records import CommandTarget, ContainerTarget, HttpTarget, Job, Notify

_JOB_ID = re.compile(JOB_ID_PATTERN, re.ASCII)


def flaw_of(job: Job) -> str | None:
    """The first field that is out of its limits, for a person; None if the machine can live with the job."""
    for field, is_right in _CHECKS:
        if not is_right(job):
            return f"job.{field} is out of its limits"
    return None


def _is_name(text: str, length_max: int) -> bool:
    """Not empty, and without the byte that separates the parts of a key."""
    return 1 <= len(text) <= length_max and "\0" not in text


def _is_short(texts: Iterable[str], length_max: int) -> bool:
    return all(len(text) <= length_max for text in texts)


def _are_times(*times: int | None) -> bool:
    return all(time is None or 0 <= time <= TIME_MS_MAX for time in times)


def _is_map(entries: dict[str, str], count_max: int, length_max: int) -> bool:
    return len(entries) <= count_max and _is_short(entries, length_max) and _is_short(entries.values(), length_max)


def _is_target(job: Job) -> bool:
    match job.target:
        case HttpTarget() as target:
            return _is_http(target)
        case ContainerTarget() as target:
            return _is_container(target)
        case CommandTarget() as target:
            return _is_command(target)
        case _:
            return True


def _is_http(target: HttpTarget) -> bool:
    return (
        len(target.url) <= URL_LENGTH_MAX
        and _is_short((target.method, target.success_codes), WORD_LENGTH_MAX)
        and _is_map(target.headers, HEADERS_MAX, HEADER_LENGTH_MAX)
        and len(target.body or "") <= ARGS_BYTES_MAX
        and len(target.signing_secret or "") <= SECRET_LENGTH_MAX
        and (target.heartbeat_s is None or 0 < target.heartbeat_s <= DURATION_S_MAX)
    )


def _is_container(target: ContainerTarget) -> bool:
    return (
        1 <= len(target.image) <= IMAGE_LENGTH_MAX
        and _are_arguments(target.command)
        and _is_map(target.env, VARIABLES_MAX, VARIABLE_LENGTH_MAX)
        and (target.cpu is None or 0 < target.cpu <= RESOURCE_MAX)
        and _are_resources(target.memory_mb)
        and len(target.network or "") <= NETWORK_LENGTH_MAX
    )


def _is_command(target: CommandTarget) -> bool:
    return (
        len(target.argv) > 0
        and _are_arguments(target.argv)
        and _is_map(target.env, VARIABLES_MAX, VARIABLE_LENGTH_MAX)
        and len(target.cwd or "") <= PATH_LENGTH_MAX
        and _are_resources(target.memory_mb, target.cpu_s, target.open_files)
    )


def _are_arguments(arguments: tuple[str, ...]) -> bool:
    return len(arguments) <= ARGUMENTS_MAX and _is_short(arguments, ARGUMENT_LENGTH_MAX)


def _are_resources(*amounts: int | None) -> bool:
    return all(amount is None or 1 <= amount <= RESOURCE_MAX for amount in amounts)


def is_notify(notify: Notify | None) -> bool:
    """Whether the numbers of a job's or a team's `notify` are in their limits."""
    if notify is None:
        return True
    return (
        len(notify.on) <= NOTIFY_EVENTS_MAX
        and len(notify.url) <= URL_LENGTH_MAX
        and 1 <= notify.threshold <= INT_MAX
        and 0 <= notify.silence_s <= DURATION_S_MAX
        and 0 <= notify.late_s <= DURATION_S_MAX
    )


def is_keep(runs: int | None, days: float | None) -> bool:
    """Whether so much history can be kept."""
    return (runs is None or 0 <= runs <= KEEP_RUNS_MAX) and (days is None or 0 <= days * DAY_S <= DURATION_S_MAX)


# A NaN compares false with everything, so each range refuses it.
_CHECKS: tuple[tuple[str, Callable[[Job], bool]], ...] = (
    ("job_id", lambda job: _JOB_ID.fullmatch(job.job_id) is not None),
    ("name", lambda job: _is_name(job.name, NAME_LENGTH_MAX)),
    ("team", lambda job: _is_name(job.team, TEAM_LENGTH_MAX)),
    (
        "expressions",
        lambda job: len(job.expressions) <= EXPRESSIONS_MAX and _is_short(job.expressions, EXPRESSION_LENGTH_MAX),
    ),
    ("tz", lambda job: _is_short((job.tz, job.dst_gap, job.dst_fold), WORD_LENGTH_MAX)),
    ("target", _is_target),
    ("args", lambda job: len(job.args) <= ARGS_BYTES_MAX),
    ("timeout_s", lambda job: 0 < job.timeout_s <= DURATION_S_MAX),
    ("max_retries", lambda job: 0 <= job.max_retries <= RETRIES_MAX),
    ("backoff_base_s", lambda job: 0 <= job.backoff_base_s <= DURATION_S_MAX),
    ("backoff_multiplier", lambda job: 0 <= job.backoff_multiplier <= MULTIPLIER_MAX),
    ("backoff_max_s", lambda job: 0 <= job.backoff_max_s <= DURATION_S_MAX),
    ("backoff_jitter", lambda job: 0 <= job.backoff_jitter <= 1),
    ("priority", lambda job: 0 <= job.priority <= 9),
    ("max_concurrent", lambda job: job.max_concurrent is None or 1 <= job.max_concurrent <= JOB_CONCURRENT_MAX),
    ("start_deadline_s", lambda job: job.start_deadline_s is None or 0 < job.start_deadline_s <= DURATION_S_MAX),
    ("run_timeout_s", lambda job: job.run_timeout_s is None or 0 < job.run_timeout_s <= DURATION_S_MAX),
    ("misfire_grace_s", lambda job: 0 <= job.misfire_grace_s <= DURATION_S_MAX),
    ("jitter_s", lambda job: 0 <= job.jitter_s <= DURATION_S_MAX),
    ("run_on", lambda job: _is_map(job.run_on, RUN_ON_MAX, LABEL_LENGTH_MAX)),
    ("labels", lambda job: _is_map(job.labels, LABELS_MAX, LABEL_LENGTH_MAX)),
    ("created_ms", lambda job: _are_times(job.created_ms, job.updated_ms, job.starts_at_ms, job.ends_at_ms)),
    ("first_due_ms", lambda job: _are_times(job.first_due_ms, job.run_at_ms)),
    ("notify", lambda job: is_notify(job.notify)),
    ("pause_on_failure", lambda job: job.pause_on_failure is None or 1 <= job.pause_on_failure <= INT_MAX),
    ("keep_runs", lambda job: is_keep(job.keep_runs, job.keep_days)),
    ("deleted_ms", lambda job: job.deleted_ms is None),
    ("max_runs", lambda job: job.max_runs is None or 1 <= job.max_runs <= INT_MAX),
    ("misfire_window_s", lambda job: job.misfire_window_s is None or 0 <= job.misfire_window_s <= DURATION_S_MAX),
    (
        "exclude_calendars",
        lambda job: (
            len(job.exclude_calendars) == len(set(job.exclude_calendars)) <= JOB_CALENDARS_MAX
            and all(_is_name(name, CALENDAR_NAME_LENGTH_MAX) for name in job.exclude_calendars)
        ),
    ),
    ("paused_ms", lambda job: job.paused_ms is None and job.pause_reason is None),
)
