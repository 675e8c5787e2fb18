"""Who is handed which run (beyond what the transcripts show)."""

from __future__ import annotations

import pytest

from statemachine.commands import (
    AssignBuckets,
    BucketMove,
    DeleteJob,
    Finish,
    Release,
    RenewSession,
    RunClaimed,
    RunNow,
    Withdraw,
)
from statemachine.keys import bucket_of, run_id_of
from statemachine.limits import HANDOUT_MAX
from statemachine.records import AttemptOutcome, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver, Outcome, Proposal, fire, open_session, tick

SECOND = 1000


def run_now(job_id: str, nonce: str, now_ms: int = NOW_MS) -> RunNow:
    return RunNow(now_ms=now_ms, job_id=job_id, nonce=nonce)


def manual(job_id: str, nonce: str, due_ms: int = NOW_MS) -> str:
    return run_id_of(job_id, due_ms, RunKind.MANUAL, nonce)


def claims(outcome: Outcome) -> list[tuple[str, str]]:
    return [(node, event.run_id) for node, event in outcome.sent(RunClaimed)]


def finish(run_id: str, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED, token: int = 1) -> Finish:
    return Finish(
        now_ms=NOW_MS,
        run_id=run_id,
        token=token,
        outcome=outcome,
        started_ms=NOW_MS,
        finished_ms=NOW_MS,
        retry_at_ms=NOW_MS,
    )


def test_the_claim_says_what_the_node_needs_to_start_it(owned: Driver) -> None:
    owned.put("A", priority=7, max_retries=2)
    item = tick(NOW_MS + SECOND, release_ms=NOW_MS + SECOND + 5)
    [(node, claim)] = owned.apply(fire(item)).sent(RunClaimed)
    assert node == "n1"
    assert claim == RunClaimed(
        run_id=run_id_of("A", NOW_MS + SECOND),
        job_id="A",
        job_version=1,
        session=1,
        token=1,
        attempt=1,
        attempts_max=3,
        priority=7,
        due_ms=NOW_MS + SECOND,
        release_ms=NOW_MS + SECOND + 5,
    )


def test_the_owners_own_session_comes_first_then_the_one_with_most_room(driver: Driver) -> None:
    driver.open("n1", slots=1)
    driver.open("n2", slots=3)
    driver.open("n3", slots=9)
    driver.put("A")
    move = BucketMove(bucket=bucket_of("A"), expected_epoch=0, node="n2")
    driver.apply(AssignBuckets(now_ms=NOW_MS, moves=(move,)))
    nodes = [claims(driver.apply(run_now("A", f"x{count}")))[0][0] for count in range(13)]
    assert nodes == ["n2"] * 3 + ["n3"] * 8 + ["n1", "n3"]


def test_equal_room_goes_by_name(driver: Driver) -> None:
    for node in ("n2", "n1"):
        driver.open(node, slots=2)
    driver.put("A")
    assert [claims(driver.apply(run_now("A", nonce)))[0][0] for nonce in "abcd"] == ["n1", "n2", "n1", "n2"]


def test_a_retry_prefers_another_node_but_takes_the_same_rather_than_wait(owned: Driver) -> None:
    owned.put("A")
    owned.apply(run_now("A", "x"))
    run_id = manual("A", "x")
    owned.apply(finish(run_id, AttemptOutcome.FAILED))
    assert claims(owned.apply(Release(now_ms=NOW_MS, run_id=run_id, token=1))) == [("n1", run_id)]
    owned.open("n2", slots=1)
    owned.apply(finish(run_id, AttemptOutcome.FAILED, token=2))
    assert claims(owned.apply(Release(now_ms=NOW_MS, run_id=run_id, token=2))) == [("n2", run_id)]


def test_runs_left_over_and_new_ones_are_one_queue(driver: Driver) -> None:
    """Some wait in the table, some were queued by this very command: the older first, whichever they are."""
    driver.put("A")
    driver.put("B")
    driver.apply(run_now("A", "a", NOW_MS + 2), run_now("B", "b", NOW_MS + 1))
    outcome = driver.apply(
        run_now("A", "c", NOW_MS),
        run_now("B", "d", NOW_MS + 3),
        open_session("n1", 1, now_ms=NOW_MS + 3, slots=3, ahead=0),
    )
    assert [run_id for _, run_id in claims(outcome)] == [
        manual("A", "c", NOW_MS),
        manual("B", "b", NOW_MS + 1),
        manual("A", "a", NOW_MS + 2),
    ]
    assert [run_id for _, run_id in claims(driver.open_more("n2", now_ms=NOW_MS + 3))] == [manual("B", "d", NOW_MS + 3)]


def test_the_turn_is_remembered(driver: Driver) -> None:
    """One run at a time, teams still alternate, over applies and over a restart (the turn is part of the state)."""
    for job_id, team in (("A", "red"), ("B", "blue"), ("C", "green")):
        driver.put(job_id, team=team)
        driver.apply(*(run_now(job_id, nonce) for nonce in "xyz"))
    served = []
    outcome = driver.open_more("n1", slots=1)
    while found := claims(outcome):
        served.append(driver.run(found[0][1]).team)
        outcome = driver.apply(finish(found[0][1]))
    assert served == ["blue", "green", "red"] * 3


def test_ten_thousand_of_one_team_do_not_keep_another_waiting(driver: Driver) -> None:
    driver.put("A", team="crowd")
    driver.put("B", team="single")
    for first in range(0, 400, 100):
        driver.apply(*(run_now("A", f"x{count}") for count in range(first, first + 100)))
    driver.apply(run_now("B", "y", NOW_MS + 1))
    outcome = driver.open_more("n1", slots=2, now_ms=NOW_MS + 1)
    assert [driver.run(run_id).team for _, run_id in claims(outcome)] == ["crowd", "single"]


def test_priority_goes_before_turns_and_time(driver: Driver) -> None:
    driver.put("A", priority=2)
    driver.put("B", priority=8)
    driver.apply(run_now("A", "x", NOW_MS), run_now("B", "x", NOW_MS + 1), run_now("B", "y", NOW_MS + 2))
    outcome = driver.open_more("n1", slots=9, now_ms=NOW_MS + 2)
    assert [driver.run(run_id).priority for _, run_id in claims(outcome)] == [8, 8, 2]


def test_nothing_is_handed_out_ahead_while_something_due_waits(driver: Driver) -> None:
    driver.open("n1", slots=1, ahead=5)
    driver.own_all()
    driver.put("A", priority=0)
    driver.put("B", priority=9, first_due_ms=NOW_MS + SECOND)
    driver.apply(run_now("A", "x"), run_now("A", "y"))
    ahead = fire(tick(NOW_MS + SECOND, job_id="B"))
    assert claims(driver.apply(ahead)) == []
    outcome = driver.apply(finish(manual("A", "x")))
    assert claims(outcome) == [("n1", manual("A", "y")), ("n1", run_id_of("B", NOW_MS + SECOND))]


def test_a_claim_handed_out_ahead_counts_as_ahead_until_it_ends(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND)))
    late = finish(run_id_of("A", NOW_MS + SECOND))

    def held() -> tuple[int, int]:
        with owned.snapshot() as snapshot:
            session = snapshot.session("n1")
            assert session is not None
            return session.held_due, session.held_ahead

    owned.apply(RenewSession(now_ms=NOW_MS + 2 * SECOND, node="n1", incarnation=1, renewal=1))
    assert held() == (0, 1)
    owned.apply(late)
    assert held() == (0, 0)


def test_time_alone_makes_a_waiting_run_due(driver: Driver) -> None:
    """Its owner had no room for it ahead of its time; the next command of anybody hands it out."""
    driver.open("n1", slots=1, ahead=0)
    driver.own_all()
    driver.put("A")
    assert claims(driver.apply(fire(tick(NOW_MS + SECOND)))) == []
    outcome = driver.apply(RenewSession(now_ms=NOW_MS + SECOND, node="n1", incarnation=1, renewal=1))
    assert claims(outcome) == [("n1", run_id_of("A", NOW_MS + SECOND))]
    assert not driver.run(run_id_of("A", NOW_MS + SECOND)).ahead


def test_a_proposal_that_nobody_understands_hands_out_nothing(driver: Driver) -> None:
    """It has no clock, and without one nothing is due."""
    driver.put("A")
    driver.apply(run_now("A", "x"))
    driver.open("n1", slots=0, ahead=5)
    assert driver.propose(Proposal(seq=99, commands=[b"nonsense"])).events == []
    assert driver.run(manual("A", "x")).state is RunState.QUEUED


def test_a_draining_session_gets_nothing_back(owned: Driver) -> None:
    owned.put("A")
    owned.apply(run_now("A", "x"))
    owned.apply(RenewSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=1, draining=True))
    given_back = Withdraw(now_ms=NOW_MS, run_id=manual("A", "x"), token=1)
    assert claims(owned.apply(given_back)) == []
    run = owned.run(manual("A", "x"))
    assert (run.state, run.attempt, run.token, run.node) == (RunState.QUEUED, 1, 1, None)
    assert claims(owned.open_more("n2")) == [("n2", manual("A", "x"))]
    assert owned.run(manual("A", "x")).token == 2


@pytest.mark.slow
def test_one_apply_hands_out_a_bounded_number(driver: Driver) -> None:
    """Heartbeats wait for an apply: what is left goes out with the next ones."""
    driver.put("A")
    total = HANDOUT_MAX + 10
    for first in range(0, total, 500):
        driver.apply(*(run_now("A", f"x{count}") for count in range(first, min(first + 500, total))))
    outcome = driver.open_more("n1", slots=10_000)
    assert len(claims(outcome)) == HANDOUT_MAX
    renewal = RenewSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=1)
    assert len(claims(driver.apply(renewal))) == 10


@pytest.mark.slow
def test_so_it_is_with_runs_of_a_deleted_job(driver: Driver) -> None:
    driver.put("A")
    total = HANDOUT_MAX + 10
    for first in range(0, total, 500):
        driver.apply(*(run_now("A", f"x{count}") for count in range(first, min(first + 500, total))))
    driver.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    driver.put("B")
    driver.apply(run_now("B", "y"))
    assert claims(driver.open_more("n1")) == []
    renewal = RenewSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=1)
    assert claims(driver.apply(renewal)) == [("n1", manual("B", "y"))]
    with driver.snapshot() as snapshot:
        assert snapshot.counters().runs_skipped == total
        assert sum(snapshot.queue_depth()) == 0
