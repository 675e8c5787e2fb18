"""The back-off of failed attempts."""

from __future__ import annotations

import msgspec
import pytest

from node.retry import RETRY_AFTER_MAX_S, backoff_s, retry_at_ms
from statemachine.records import Job, NoopTarget

JOB = Job(job_id="j", name="a", team="t", target=NoopTarget(), created_ms=0, updated_ms=0)
"""With the defaults: 10 s, doubling, at most an hour, up to a tenth more at random."""


def nothing() -> float:
    return 0.0


def almost_one() -> float:
    return 0.999_999


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 10), (2, 20), (3, 40), (9, 2560), (10, 3600), (100, 3600), (10**9, 3600)]
)
def test_it_doubles_up_to_a_maximum(attempt: int, seconds: float) -> None:
    """(M3)"""
    assert backoff_s(JOB, attempt, nothing) == seconds


def test_the_jitter_only_adds_and_at_most_its_fraction() -> None:
    assert 10.99 < backoff_s(JOB, 1, almost_one) < 11
    without = msgspec.structs.replace(JOB, backoff_jitter=0.0)
    assert backoff_s(without, 1, almost_one) == 10


def test_a_target_that_names_a_later_time_is_obeyed_within_the_limit() -> None:
    def at(retry_after_s: float | None) -> int:
        return retry_at_ms(JOB, 1, now_ms=1000, retry_after_s=retry_after_s, random=nothing)

    assert at(None) == at(0) == at(-5) == at(3) == 11_000
    assert at(120) == 121_000
    assert at(1e9) == 1000 + round(RETRY_AFTER_MAX_S * 1000)
