"""The collected cases: public bug reports of other crons, and vectors on which two independent computations agreed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from node.schedule import InvalidSchedule, Schedule, ScheduleSpec, compile_schedule, instant_text, parse_run_at

DATA = Path(__file__).resolve().parent.parent / "data" / "cron"
FAR_MS = 200_000_000_000_000


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


CASES = lines("cases.jsonl")


def schedule(expression: str, tz: str) -> Schedule:
    return compile_schedule(ScheduleSpec(expressions=(expression,), tz=tz), "job")


def ticks(expression: str, tz: str, start_ms: int, count: int) -> list[str]:
    compiled = schedule(expression, tz)
    found = []
    after_ms: int | None = start_ms
    while len(found) < count:
        assert after_ms is not None
        after_ms = compiled.next(after_ms)
        assert after_ms is not None
        found.append(instant_text(after_ms))
    assert [instant_text(t) for t in compiled.between(start_ms, FAR_MS, count)] == found
    return found


@pytest.mark.parametrize("case", [c for c in CASES if "reject" not in c], ids=lambda c: c["id"])
def test_a_reported_case_ticks_as_expected(case: dict[str, Any]) -> None:
    start_ms = parse_run_at(case["start_utc"], "UTC")
    assert ticks(case["expr"], case["tz"], start_ms, len(case["expect_utc"])) == case["expect_utc"], case["why"]


@pytest.mark.parametrize("case", [c for c in CASES if "reject" in c], ids=lambda c: c["id"])
def test_a_reported_case_is_refused_with_a_remedy_that_works(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        schedule(case["expr"], case["tz"])
    assert refused.value.field == "schedule"
    assert schedule(refused.value.remedy, case["tz"]).next(0) is not None
    assert refused.value.remedy in str(refused.value)
    assert len(str(refused.value)) < 1000


@pytest.mark.slow
def test_the_vectors_tick_as_expected() -> None:
    rows = lines("vectors.jsonl")
    assert len(rows) == 2848
    wrong = [
        (expression, tz, start, found, expected)
        for expression, tz, start, expected in rows
        if (found := ticks(expression, tz, parse_run_at(start, "UTC"), len(expected))) != expected
    ]
    assert wrong == []
