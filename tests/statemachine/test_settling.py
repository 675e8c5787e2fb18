"""Settling: bounded, behind the tick's path, and right in sum."""

from __future__ import annotations

import pytest

from statemachine import commands as c
from statemachine import settling
from statemachine.codec import decode_ending
from statemachine.history_records import Ending, JobStats
from statemachine.records import AttemptOutcome, RunState
from statemachine.stats import with_ending
from tests.statemachine.driver import NOW_MS, Driver, fire, tick

DUE_MS = NOW_MS + 1000
RUN_ID = f"{DUE_MS:012x}-A"


def renew(driver: Driver, renewal: int) -> None:
    driver.apply(c.RenewSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=renewal))


def finish(run_id: str = RUN_ID, *, started_ms: int = DUE_MS, **fields: AttemptOutcome) -> c.Finish:
    outcome = fields.get("outcome", AttemptOutcome.SUCCEEDED)
    now_ms = started_ms + 1
    return c.Finish(now_ms=now_ms, run_id=run_id, token=1, outcome=outcome, started_ms=started_ms, finished_ms=now_ms)


def noted(driver: Driver) -> list[Ending]:
    return [decode_ending(value) for value in driver.table("ended").values()]


def stats(driver: Driver, job_id: str = "A") -> JobStats:
    with driver.snapshot() as snapshot:
        return snapshot.job_stats(job_id)


def test_a_renewal_settles_a_bounded_number_oldest_first(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "SETTLED_MAX", 3)
    for job_id in "CAB":
        owned.put(job_id)
        owned.apply(fire(tick(DUE_MS, None, job_id=job_id)))
        owned.apply(finish(f"{DUE_MS:012x}-{job_id}"))
    owned.put("D")
    owned.apply(fire(tick(DUE_MS, None, job_id="D")), finish(f"{DUE_MS:012x}-D"))
    owned.apply(finish(f"{DUE_MS:012x}-D"))
    renew(owned, 1)
    assert [stats(owned, job_id).succeeded for job_id in "ABCD"] == [1, 1, 1, 0]
    assert len(noted(owned)) == 1
    renew(owned, 2)
    assert stats(owned, "D").succeeded == 1
    assert noted(owned) == []


def test_what_is_refused_settles_nothing(owned: Driver) -> None:
    owned.put()
    owned.apply(fire(tick(DUE_MS)), finish())
    owned.apply(finish())
    owned.apply(c.RenewSession(now_ms=NOW_MS, node="n9", incarnation=1, renewal=1))
    assert stats(owned) == JobStats()


def test_a_late_start_is_noted_once_at_its_start_if_the_run_lasts(owned: Driver) -> None:
    owned.put()
    owned.apply(fire(tick(DUE_MS)))
    owned.apply(c.Start(now_ms=DUE_MS, run_id=RUN_ID, token=1, started_ms=DUE_MS + 5000))
    owned.apply(c.Start(now_ms=DUE_MS, run_id=RUN_ID, token=1, started_ms=DUE_MS + 6000))
    owned.apply(finish(started_ms=DUE_MS + 5000))
    assert [(ending.kind, ending.late_ms) for ending in noted(owned)] == [("started", 5000), ("ended", None)]
    renew(owned, 1)
    assert (stats(owned).succeeded, stats(owned).last_outcome) == (1, RunState.SUCCEEDED)


def test_a_start_in_time_is_not_noted_and_a_short_run_says_at_its_end_how_late_it_was(owned: Driver) -> None:
    owned.put()
    owned.apply(fire(tick(DUE_MS, DUE_MS + 1000)))
    owned.apply(c.Start(now_ms=DUE_MS, run_id=RUN_ID, token=1, started_ms=DUE_MS + 999))
    assert noted(owned) == []
    owned.apply(fire(tick(DUE_MS + 1000)))
    owned.apply(finish(f"{DUE_MS + 1000:012x}-A", started_ms=DUE_MS + 1999))
    assert [(ending.kind, ending.late_ms) for ending in noted(owned)] == [("ended", 999)]


def test_a_late_start_that_failed_is_not_late_again_when_the_run_ends_between_two_attempts(owned: Driver) -> None:
    owned.put(max_retries=1)
    owned.apply(fire(tick(DUE_MS)))
    owned.apply(finish(started_ms=DUE_MS + 5000, outcome=AttemptOutcome.FAILED))
    owned.apply(c.CancelRun(now_ms=DUE_MS, run_id=RUN_ID))
    assert [(ending.kind, ending.late_ms) for ending in noted(owned)] == [("retried", 5000), ("ended", None)]


def test_the_history_of_a_job_without_any_is_empty(driver: Driver) -> None:
    assert stats(driver) == JobStats()
    cancelled = Ending(run_id=RUN_ID, kind="ended", state=RunState.CANCELLED, at_ms=1)
    after = with_ending(with_ending(JobStats(), cancelled), cancelled)
    assert (after.cancelled, after.last_outcome, after.consecutive_failures) == (2, RunState.CANCELLED, 0)
