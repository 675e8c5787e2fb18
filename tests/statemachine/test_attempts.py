"""Reports of attempts, beyond what the transcripts show."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine.commands import ExpireSession, Finish, Release, RunClaimed, RunNow, Start, Withdraw
from statemachine.keys import run_id_of
from statemachine.limits import ATTEMPTS_KEPT_MAX, DETAIL_LENGTH_MAX
from statemachine.records import AttemptOutcome, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver

RUN_ID = run_id_of("A", NOW_MS, RunKind.MANUAL, "x")


def finish(token: int = 1, outcome: AttemptOutcome = AttemptOutcome.FAILED, **fields: Any) -> Finish:
    times = {"now_ms": NOW_MS, "started_ms": NOW_MS, "finished_ms": NOW_MS}
    return Finish(run_id=RUN_ID, token=token, outcome=outcome, **(times | fields))


@pytest.fixture
def claimed(owned: Driver) -> Driver:
    owned.put("A", max_retries=100)
    owned.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    return owned


def test_the_result_is_kept_with_its_attempt(claimed: Driver) -> None:
    claimed.apply(
        finish(outcome=AttemptOutcome.SUCCEEDED, status=201, detail="created", finished_ms=NOW_MS + 9, log_bytes=12)
    )
    run = claimed.run(RUN_ID)
    [attempt] = run.attempts
    assert (attempt.attempt, attempt.node, attempt.status, attempt.detail) == (1, "n1", 201, "created")
    assert (attempt.started_ms, attempt.finished_ms) == (NOW_MS, NOW_MS + 9) == (run.started_ms, run.finished_ms)
    assert run.log_bytes == 12


def test_a_detail_too_long_is_cut(claimed: Driver) -> None:
    """A refusal would leave the run without an end."""
    assert claimed.apply(finish(detail="x" * 5000)).reply.code == "ok"
    detail = claimed.run(RUN_ID).attempts[0].detail
    assert detail == "x" * DETAIL_LENGTH_MAX


def test_a_run_remembers_its_last_attempts(claimed: Driver) -> None:
    for token in range(1, ATTEMPTS_KEPT_MAX + 6):
        claimed.apply(finish(token))
        claimed.apply(Release(now_ms=NOW_MS, run_id=RUN_ID, token=token))
    attempts = claimed.run(RUN_ID).attempts
    assert [attempt.attempt for attempt in attempts] == list(range(6, ATTEMPTS_KEPT_MAX + 6))


def test_a_running_attempt_that_is_lost_keeps_its_start(claimed: Driver) -> None:
    claimed.apply(Start(now_ms=NOW_MS, run_id=RUN_ID, token=1, started_ms=NOW_MS + 3))
    claimed.apply(ExpireSession(now_ms=NOW_MS + 9, node="n1", incarnation=1, renewal=0))
    run = claimed.run(RUN_ID)
    assert (run.state, run.attempt, run.started_ms) == (RunState.QUEUED, 2, None)
    assert (run.attempts[0].started_ms, run.attempts[0].finished_ms) == (NOW_MS + 3, NOW_MS + 9)


def test_a_repeated_result_is_told_from_a_fenced_one(claimed: Driver) -> None:
    claimed.apply(finish(outcome=AttemptOutcome.SUCCEEDED))
    assert claimed.apply(finish(outcome=AttemptOutcome.SUCCEEDED)).reply.code == "illegal_state"
    assert claimed.apply(finish(2, AttemptOutcome.SUCCEEDED)).reply.code == "fenced"
    with claimed.snapshot() as snapshot:
        assert snapshot.counters().fenced_writes == 1


@pytest.mark.parametrize("report", [finish(), Start(now_ms=1, run_id="x", token=1, started_ms=1)])
def test_reports_of_unknown_runs_are_not_counted_as_fenced(driver: Driver, report: Finish | Start) -> None:
    assert driver.apply(report).reply.code == "unknown_run"
    with driver.snapshot() as snapshot:
        assert snapshot.counters().fenced_writes == 0


def test_a_claim_given_back_is_no_longer_the_holders(claimed: Driver) -> None:
    claimed.open("n1", 2, slots=0)
    claimed.apply(Withdraw(now_ms=NOW_MS, run_id=RUN_ID, token=1))
    assert claimed.run(RUN_ID).state is RunState.QUEUED
    for late in (
        finish(),
        Start(now_ms=NOW_MS, run_id=RUN_ID, token=1, started_ms=NOW_MS),
        Withdraw(now_ms=NOW_MS, run_id=RUN_ID, token=1),
    ):
        assert claimed.apply(late).reply.code == "fenced"


def test_a_withdrawn_run_keeps_its_reason(claimed: Driver) -> None:
    claimed.apply(Withdraw(now_ms=NOW_MS, run_id=RUN_ID, token=1, reason="paused: by the owner"))
    run = claimed.run(RUN_ID)
    assert (run.state, run.reason, run.finished_ms) == (RunState.SKIPPED, "paused: by the owner", NOW_MS)
    with claimed.snapshot() as snapshot:
        assert snapshot.counters().ticks_skipped == {"paused": 1}


def test_a_retry_without_a_proposed_time_is_due_at_once(claimed: Driver) -> None:
    claimed.apply(finish(retry_at_ms=None, now_ms=NOW_MS + 50))
    assert claimed.run(RUN_ID).retry_at_ms == NOW_MS + 50


def test_a_retry_outlives_the_node_that_failed_and_goes_to_another(claimed: Driver) -> None:
    """(M3, M17) It waits in the state, so no leader or worker takes it along, and it is pinned to none (dkron#1585)."""
    claimed.open_more("n2")
    claimed.apply(finish(retry_at_ms=NOW_MS + 1000))
    claimed.apply(ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0))
    claimed.own_all("n2", epoch=1)
    released = claimed.apply(Release(now_ms=NOW_MS + 1000, run_id=RUN_ID, token=1), node="n2")
    [(node, claim)] = released.sent(RunClaimed)
    assert (node, claim.attempt, claim.token) == ("n2", 2, 2)
