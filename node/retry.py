"""When a failed attempt is tried again."""

from __future__ import annotations

from collections.abc import Callable

from statemachine.records import Job

RETRY_AFTER_MAX_S = 3600.0
"""The longest wait that a target's Retry-After may ask for."""
_EXPONENT_MAX = 64


def backoff_s(job: Job, attempt: int, random: Callable[[], float]) -> float:
    """Seconds to wait after attempt number `attempt` (from 1): base * multiplier ** (attempt - 1), at most the job's
    maximum, plus up to `backoff_jitter` of it at random: jobs that failed together do not return together."""
    exponent = min(max(attempt - 1, 0), _EXPONENT_MAX)
    delay_s = min(job.backoff_base_s * job.backoff_multiplier**exponent, job.backoff_max_s)
    return delay_s * (1 + job.backoff_jitter * random())


def retry_at_ms(
    job: Job, attempt: int, *, now_ms: int, retry_after_s: float | None, random: Callable[[], float]
) -> int:
    """The instant of the next attempt. A target that says when to ask again is obeyed, within the limit."""
    delay_s = backoff_s(job, attempt, random)
    if retry_after_s is not None:
        delay_s = max(delay_s, min(max(retry_after_s, 0.0), RETRY_AFTER_MAX_S))
    return now_ms + round(delay_s * 1000)
