"""Attempts that their targets complete, beyond what the transcript shows."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import commands as c
from statemachine.keys import run_id_of
from statemachine.limits import DETAIL_LENGTH_MAX, TIME_MS_MAX
from statemachine.records import AttemptOutcome, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver

RUN_ID = run_id_of("A", NOW_MS, RunKind.MANUAL, "x")
SECOND = 1000


@pytest.fixture
def detached(owned: Driver) -> Driver:
    owned.put("A", max_retries=3)
    owned.apply(c.RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    assert owned.apply(detach()).reply.code == "ok"
    return owned


def detach(token: int = 1, now_ms: int = NOW_MS, **fields: Any) -> c.Detach:
    usual = {"started_ms": now_ms, "left_ms": 60 * SECOND, "heartbeat_ms": 10 * SECOND, "backoff_ms": SECOND}
    return c.Detach(now_ms=now_ms, run_id=RUN_ID, token=token, **(usual | fields))


def complete(token: int = 1, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED, **fields: Any) -> c.Complete:
    return c.Complete(run_id=RUN_ID, token=token, outcome=outcome, **({"now_ms": NOW_MS} | fields))


def lapse(driver: Driver, now_ms: int, renewal: int) -> Any:
    """The owner finds the timer at this time, which is the cluster's, too."""
    driver.apply(c.RenewSession(now_ms=now_ms, node="n1", incarnation=1, renewal=renewal))
    return driver.apply(c.Release(now_ms=now_ms, run_id=RUN_ID, token=1)).reply


def held_due(driver: Driver) -> int:
    with driver.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None
    return session.held_due


def test_the_slot_is_free_while_the_target_works(detached: Driver) -> None:
    """(N18) The node that sent the request holds nothing of it any more."""
    assert (detached.run(RUN_ID).state, held_due(detached)) == (RunState.RUNNING, 0)
    assert detached.table("claims") == {}


def test_a_wrong_clock_cannot_end_a_lease_early(detached: Driver) -> None:
    """The owner's clock says that the lease has lapsed; the cluster's does not."""
    detached.open("n2", slots=0)
    detached.open("n3", slots=0)
    early = c.Release(now_ms=NOW_MS + 14 * SECOND, run_id=RUN_ID, token=1)
    assert detached.apply(early).reply.code == "leased"
    assert detached.run(RUN_ID).lease is not None


def test_a_target_that_reports_in_time_is_never_cut_off(detached: Driver) -> None:
    for step in range(1, 7):
        assert lapse(detached, NOW_MS + 9 * step * SECOND, step).code == "leased"
        beat = c.Heartbeat(now_ms=NOW_MS + 9 * step * SECOND, run_id=RUN_ID, token=1)
        assert detached.apply(beat).reply.until_ms == NOW_MS + min(9 * step + 10, 60) * SECOND
    assert lapse(detached, NOW_MS + 60 * SECOND, 7).code == "ok"
    assert detached.run(RUN_ID).attempts[0].detail == "not completed within timeout_s"


def test_a_repeated_completion_is_known_when_the_next_attempt_is_under_way(detached: Driver) -> None:
    failed = complete(outcome=AttemptOutcome.FAILED, retry_at_ms=NOW_MS)
    assert detached.apply(failed).reply.code == "ok"
    detached.apply(c.Release(now_ms=NOW_MS, run_id=RUN_ID, token=1))
    detached.apply(detach(2))
    before = detached.run(RUN_ID)
    assert detached.apply(failed).reply.code == "ok"
    assert detached.apply(complete()).reply.code == "fenced"
    assert (detached.run(RUN_ID), before.token, before.attempt) == (before, 2, 2)


def test_a_completion_of_a_held_run_frees_its_slot(owned: Driver) -> None:
    owned.put("A")
    owned.apply(c.RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    assert held_due(owned) == 1
    assert owned.apply(complete()).reply.code == "ok"
    assert (held_due(owned), owned.run(RUN_ID).state) == (0, RunState.SUCCEEDED)
    assert owned.apply(detach()).reply.code == "illegal_state"


def test_what_the_target_says_is_cut_to_its_limit(detached: Driver) -> None:
    long = "x" * 5000
    detached.apply(c.Heartbeat(now_ms=NOW_MS, run_id=RUN_ID, token=1, progress=long))
    lease = detached.run(RUN_ID).lease
    assert lease is not None and lease.progress == "x" * DETAIL_LENGTH_MAX
    detached.apply(complete(detail=long))
    assert detached.run(RUN_ID).attempts[0].detail == "x" * DETAIL_LENGTH_MAX


def test_a_heartbeat_without_progress_keeps_the_last(detached: Driver) -> None:
    for progress in ("half", None):
        detached.apply(c.Heartbeat(now_ms=NOW_MS, run_id=RUN_ID, token=1, progress=progress))
    lease = detached.run(RUN_ID).lease
    assert lease is not None and lease.progress == "half"


def test_durations_at_their_edge_stay_times(owned: Driver) -> None:
    owned.put("A")
    owned.apply(c.RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    edges = {"left_ms": TIME_MS_MAX, "heartbeat_ms": TIME_MS_MAX, "backoff_ms": TIME_MS_MAX}
    assert owned.apply(detach(**edges)).reply.code == "ok"
    lease = owned.run(RUN_ID).lease
    assert lease is not None and lease.until_ms == lease.ends_ms == TIME_MS_MAX
