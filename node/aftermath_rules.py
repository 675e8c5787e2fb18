"""What a job or a team may ask for after its runs: whom to tell, and how much history to keep. Told field by field."""

from __future__ import annotations

from collections.abc import Iterator

from executor import check_target
from node.interface import FieldError, Notify
from statemachine.limits import KEEP_RUNS_MAX

THRESHOLD_MAX = 1_000_000
SILENCE_S_MAX = 30 * 24 * 3600.0
LATE_S_MAX = 24 * 3600.0
KEEP_DAYS_MAX = 400


def notify_faults(notify: Notify | None, *, allow_link_local: bool) -> Iterator[FieldError]:
    """An error for each field that cannot be accepted."""
    if notify is None:
        return
    if notify.url:
        for path, message in check_target({"type": "http", "url": notify.url}, allow_link_local=allow_link_local):
            yield FieldError(path=path.replace("target", "notify", 1), message=message)
    elif notify.on:
        yield FieldError(path="notify.url", message="is required, for example https://alerts.example/horae")
    ranges: tuple[tuple[str, float, float, float], ...] = (
        ("threshold", notify.threshold, 1, THRESHOLD_MAX),
        ("silence_s", notify.silence_s, 0, SILENCE_S_MAX),
        ("late_s", notify.late_s, 0, LATE_S_MAX),
    )
    for name, value, least, most in ranges:
        if not least <= value <= most:  # NaN is within no range
            yield FieldError(path=f"notify.{name}", message=f"must be from {least:g} to {most:g}")
    if len(set(notify.on)) != len(notify.on):
        yield FieldError(path="notify.on", message="names an event twice")


def keep_faults(runs: int | None, days: float | None) -> Iterator[FieldError]:
    """An error for each field that cannot be accepted."""
    if runs is not None and not 1 <= runs <= KEEP_RUNS_MAX:
        yield FieldError(path="keep_runs", message=f"must be from 1 to {KEEP_RUNS_MAX}, or null")
    if days is not None and not 0 < days <= KEEP_DAYS_MAX:
        yield FieldError(path="keep_days", message=f"must be above 0 and at most {KEEP_DAYS_MAX}, or null")


def pause_faults(failures: int | None) -> Iterator[FieldError]:
    """An error if so many failures cannot be waited for."""
    if failures is not None and not 1 <= failures <= THRESHOLD_MAX:
        yield FieldError(path="pause_on_failure", message=f"must be from 1 to {THRESHOLD_MAX}, or null")
