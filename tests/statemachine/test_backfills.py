"""Backfills: what the transcript does not show."""

from __future__ import annotations

import pytest

from statemachine.commands import StartBackfill, StepBackfill
from statemachine.limits import BACKFILL_OUTSTANDING_MAX
from tests.statemachine.driver import NOW_MS, Driver

SECOND = 1000


def start(driver: Driver, backfill_id: str = "b") -> str:
    command = StartBackfill(now_ms=NOW_MS, backfill_id=backfill_id, job_id="A", from_ms=0, to_ms=500 * SECOND)
    return str(driver.apply(command).reply.code)


def step(driver: Driver, first: int, count: int) -> str:
    """Runs of so many seconds, from this one on."""
    due_ms = tuple(SECOND * (first + number) for number in range(count))
    places = {"expected_ms": SECOND * first, "due_ms": due_ms, "next_ms": SECOND * (first + max(count, 1))}
    command = StepBackfill(now_ms=NOW_MS, node="n1", epoch=1, backfill_id="b", job_version=1, **places)
    return str(driver.apply(command).reply.code)


def test_so_many_runs_of_a_backfill_are_not_over_at_once(owned: Driver) -> None:
    owned.put("A")
    assert start(owned) == "ok"
    assert step(owned, 0, BACKFILL_OUTSTANDING_MAX - 1) == "ok"
    assert step(owned, BACKFILL_OUTSTANDING_MAX - 1, 2) == "backlog"
    assert step(owned, BACKFILL_OUTSTANDING_MAX - 1, 1) == "ok"
    assert step(owned, BACKFILL_OUTSTANDING_MAX, 1) == "backlog"
    with owned.snapshot() as snapshot:
        assert snapshot.backfill_outstanding("b") == BACKFILL_OUTSTANDING_MAX
        (active,) = snapshot.active_backfills()
        assert (active.made, active.next_ms) == (BACKFILL_OUTSTANDING_MAX, BACKFILL_OUTSTANDING_MAX * SECOND)


def test_so_many_backfills_run_at_once(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.backfills.BACKFILLS_ACTIVE_MAX", 2)
    owned.put("A")
    assert [start(owned, backfill_id) for backfill_id in ("b", "c", "d", "b")] == ["ok", "ok", "backfills_limit", "ok"]
    with owned.snapshot() as snapshot:
        assert [one.backfill_id for one in snapshot.backfills_of("A")] == ["b", "c"]
        assert [one.backfill_id for one in snapshot.backfills_of("A", "b")] == ["c"]
        assert snapshot.backfill("") is None and snapshot.backfill("z") is None
