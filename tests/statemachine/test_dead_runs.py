"""The list of dead runs, and what keeps one from being tried anew."""

from __future__ import annotations

import pytest

from statemachine.commands import Finish, Redrive, RunNow
from statemachine.keys import run_id_of
from statemachine.records import AttemptOutcome, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver


def die(driver: Driver, job_id: str, nonce: str, now_ms: int = NOW_MS) -> str:
    run_id = run_id_of(job_id, now_ms, RunKind.MANUAL, nonce)
    driver.apply(RunNow(now_ms=now_ms, job_id=job_id, nonce=nonce))
    times = {"now_ms": now_ms, "started_ms": now_ms, "finished_ms": now_ms}
    driver.apply(Finish(run_id=run_id, token=1, outcome=AttemptOutcome.FAILED, **times))
    assert driver.run(run_id).state is RunState.DEAD
    return run_id


@pytest.fixture
def dead(owned: Driver) -> list[str]:
    """Three of two teams, the oldest first."""
    owned.put("A", max_retries=0)
    owned.put("B", max_retries=0, team="u")
    return [die(owned, job_id, "x", NOW_MS + number) for number, job_id in enumerate("ABA")]


def listed(driver: Driver, **which: str | int | None) -> tuple[list[str], str | None]:
    with driver.snapshot() as snapshot:
        page = snapshot.dead_runs(**which)  # type: ignore[arg-type]
    return [run.run_id for run in page.items], page.next_key


def test_the_latest_due_come_first_over_all_teams_page_by_page(owned: Driver, dead: list[str]) -> None:
    assert listed(owned) == (dead[::-1], None)
    assert listed(owned, limit=2) == ([dead[2], dead[1]], dead[1])
    assert listed(owned, limit=2, before_key=dead[1]) == ([dead[0]], None)


def test_a_teams_and_a_jobs_are_listed_alone(owned: Driver, dead: list[str]) -> None:
    assert listed(owned, team="t") == ([dead[2], dead[0]], None)
    assert listed(owned, team="u", job_id="B") == ([dead[1]], None)
    assert listed(owned, team="t", job_id="B") == listed(owned, team="x" * 500) == ([], None)


def test_nothing_is_redriven_into_a_queue_that_is_full(
    owned: Driver, dead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statemachine.overlap.PARKED_MAX", 1)
    owned.put("A", overlap_policy="queue_all", version=2)
    for nonce in "yz":
        owned.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce=nonce))
    assert owned.apply(Redrive(now_ms=NOW_MS, run_id=dead[0])).reply.code == "backlog"
    assert owned.run(dead[0]).state is RunState.DEAD
