"""The limits of a Fire item, and the rows that say where a job stands."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine.commands import FIRE_RUNS_MAX, Finish, FireItem, FireRun, Release
from statemachine.keys import run_id_of
from statemachine.limits import CATCH_UP_PARKED_MAX, FIRE_SKIPS_MAX, TIME_MS_MAX
from statemachine.records import AttemptOutcome
from tests.statemachine.driver import NOW_MS, Driver, fire, skipped, tick

DUE_MS = NOW_MS + 1000


def runs(count: int) -> tuple[FireRun, ...]:
    return tuple(FireRun(due_ms=DUE_MS + place, release_ms=DUE_MS + place) for place in range(count))


def item(**fields: Any) -> FireItem:
    return tick(DUE_MS, **({"next_ms": DUE_MS + 10_000} | fields))


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"runs": runs(FIRE_RUNS_MAX)}, "ok"),
        ({"runs": runs(FIRE_RUNS_MAX + 1)}, "malformed"),
        ({"runs": (), "skips": tuple(skipped(DUE_MS + n, DUE_MS + n, 1) for n in range(FIRE_SKIPS_MAX))}, "ok"),
        (
            {"runs": (), "skips": tuple(skipped(DUE_MS + n, DUE_MS + n, 1) for n in range(FIRE_SKIPS_MAX + 1))},
            "malformed",
        ),
        ({"skips": (skipped(DUE_MS + 1, DUE_MS + 1, 0),)}, "malformed"),
        ({"skips": (skipped(DUE_MS + 1, DUE_MS + 5, 6),)}, "malformed"),
        ({"skips": (skipped(DUE_MS + 1, DUE_MS + 5, 5, "misfire: " + "x" * 1000),)}, "malformed"),
        ({"skips": (skipped(DUE_MS + 1, DUE_MS + 5, 5, "misfire: late"),)}, "ok"),
        ({"skips": (skipped(DUE_MS + 1, DUE_MS + 10_000, 2),)}, "malformed"),
        ({"skips": (skipped(DUE_MS + 1, DUE_MS, 1),)}, "malformed"),
        ({"runs": (*runs(1), FireRun(due_ms=DUE_MS + 5, release_ms=DUE_MS + 4))}, "malformed"),
        ({"next_ms": TIME_MS_MAX}, "ok"),
        ({"next_ms": TIME_MS_MAX + 1}, "malformed"),
        ({"next_ms": None, "runs": (FireRun(due_ms=DUE_MS, release_ms=TIME_MS_MAX),)}, "ok"),
        ({"next_ms": None, "runs": (FireRun(due_ms=DUE_MS, release_ms=TIME_MS_MAX + 1),)}, "malformed"),
        ({"next_ms": None, "runs": (), "skips": (skipped(DUE_MS, TIME_MS_MAX + 1, 2),)}, "malformed"),
        ({"job_id": ""}, "malformed"),
        ({"job_id": "A" * 41}, "malformed"),
        ({"job_id": "B"}, "not_due"),
        ({"epoch": -1}, "stale_epoch"),
    ],
)
def test_limits_of_an_item(owned: Driver, fields: dict[str, Any], verdict: str) -> None:
    owned.put("A")
    before = owned.table("due")
    assert owned.apply(fire(item(**fields), now_ms=DUE_MS + 10_000)).reply.codes == (verdict,)
    assert (owned.table("due") != before) == (verdict == "ok")
    assert (owned.table("runs") != {}) == (verdict == "ok")


@pytest.mark.parametrize("expected_ms", [-1, TIME_MS_MAX + 1])
def test_a_tick_outside_of_time_is_malformed(owned: Driver, expected_ms: int) -> None:
    assert owned.apply(fire(tick(expected_ms))).reply.codes == ("malformed",)


def test_a_fire_by_another_node_than_the_owner_is_stale(owned: Driver) -> None:
    owned.put("A")
    assert owned.apply(fire(item(), node="n2")).reply.codes == ("stale_epoch",)


def test_the_next_tick_is_that_of_the_last_step_in_time(owned: Driver) -> None:
    """Runs are written before skips; a skip in the middle must not be taken for the end."""
    owned.put("A")
    last = FireRun(due_ms=DUE_MS + 9, release_ms=DUE_MS + 9)
    steps = item(runs=(*runs(1), last), skips=(skipped(DUE_MS + 3, DUE_MS + 5, 2),))
    owned.apply(fire(steps, now_ms=DUE_MS + 10))
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == DUE_MS + 10_000
        assert [run.due_ms - DUE_MS for run in snapshot.runs_of_job("A").items] == [9, 3, 0]


def test_a_job_without_a_first_tick_never_stands_anywhere(owned: Driver) -> None:
    owned.put("A", first_due_ms=None)
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") is None
    assert owned.table("due") == {}


def test_rows_of_an_older_version_beyond_the_new_first_tick_are_stepped_over(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(item(runs=runs(5))))
    owned.put("A", version=2, first_due_ms=DUE_MS + 2)
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == DUE_MS + 2
    second = tick(DUE_MS + 2, DUE_MS + 3, version=2)
    assert owned.apply(fire(second)).reply.codes == ("ok",)
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == DUE_MS + 3


def test_missed_ticks_are_made_good_slice_by_slice(owned: Driver) -> None:
    """While so many runs of a job wait for one another, it comes no further; afterwards it does (M19)."""
    owned.put("A", misfire_policy="catch_up", first_due_ms=0)
    most = CATCH_UP_PARKED_MAX + 2
    missed = tuple(FireRun(due_ms=number, release_ms=number, catch_up=True) for number in range(most))
    assert owned.apply(fire(tick(0, 50, runs=missed[:50]))).reply.codes == ("ok",)
    assert owned.apply(fire(tick(50, most, runs=missed[50:]))).reply.codes == ("ok",)
    owned.apply(*(Release(now_ms=NOW_MS, run_id=run_id_of("A", run.due_ms), token=0) for run in missed))
    assert len(owned.table("parked")) == CATCH_UP_PARKED_MAX + 1
    more = FireRun(due_ms=most, release_ms=most, catch_up=True)
    assert owned.apply(fire(tick(most, None, runs=(more,)))).reply.codes == ("backlog",)
    first = Finish(
        now_ms=NOW_MS,
        run_id=run_id_of("A", 0),
        token=1,
        outcome=AttemptOutcome.SUCCEEDED,
        started_ms=NOW_MS,
        finished_ms=NOW_MS,
    )
    owned.apply(first)
    assert owned.apply(fire(tick(most, None, runs=(more,)))).reply.codes == ("ok",)
