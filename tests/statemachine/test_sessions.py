"""Sessions that end with more claims than one slice gives back, and what happens in between."""

from __future__ import annotations

import msgspec
import pytest

from statemachine.commands import (
    REAP_SLICE_MAX,
    AssignBuckets,
    AssignReply,
    BucketMove,
    ExpireSession,
    Finish,
    OpenSession,
    RenewSession,
    RunClaimed,
    RunNow,
    SessionEnded,
    SessionRenewed,
)
from statemachine.keys import run_id_of
from statemachine.records import AttemptOutcome, RunKind, RunState
from statemachine.snapshot import Snapshot
from tests.statemachine.driver import NOW_MS, Driver, fire, open_session, tick

SECOND = 1000


def expire(node: str = "n1", incarnation: int = 1, renewal: int = 0, now_ms: int = NOW_MS) -> ExpireSession:
    return ExpireSession(now_ms=now_ms, node=node, incarnation=incarnation, renewal=renewal)


def holding(driver: Driver, count: int) -> None:
    """n1 holds that many claims of due runs, each with attempts left."""
    driver.open("n1", slots=count, ahead=0)
    driver.put("A")
    for first in range(0, count, 500):
        commands = [
            RunNow(now_ms=NOW_MS, job_id="A", nonce=f"x{number:05d}")
            for number in range(first, min(first + 500, count))
        ]
        driver.apply(*commands)


def held(driver: Driver, incarnation: int = 1) -> int:
    with driver.snapshot() as snapshot:
        return len(list(snapshot.claims_of("n1", incarnation)))


def counted(snapshot: Snapshot) -> dict[str, int]:
    """How many claims each node's last session has, by its own counts."""
    return {session.node: session.held_due + session.held_ahead for session in snapshot.sessions()}


@pytest.mark.slow
def test_claims_come_back_in_slices_until_none_remain(driver: Driver) -> None:
    holding(driver, 2 * REAP_SLICE_MAX + 1)
    first = driver.apply(expire())
    assert first.reply.remaining
    assert first.sent(SessionEnded) == [("*", SessionEnded(node="n1", incarnation=1))]
    assert held(driver) == REAP_SLICE_MAX + 1
    with driver.snapshot() as snapshot:
        assert snapshot.ended_sessions() == [("n1", 1)]
        assert counted(snapshot) == {"n1": REAP_SLICE_MAX + 1}
    second = driver.apply(expire())
    assert second.reply.remaining
    assert second.sent(SessionEnded) == []
    third = driver.apply(expire())
    assert not third.reply.remaining
    assert held(driver) == 0
    with driver.snapshot() as snapshot:
        assert snapshot.ended_sessions() == []
        assert snapshot.counters().sessions_expired == 1
        assert snapshot.queue_depth()[5] == 2 * REAP_SLICE_MAX + 1


@pytest.mark.slow
def test_a_slice_that_is_exactly_full_leaves_none(driver: Driver) -> None:
    holding(driver, REAP_SLICE_MAX)
    assert not driver.apply(expire()).reply.remaining
    assert held(driver) == 0


def test_neighbours_keep_their_claims(driver: Driver) -> None:
    """The claims of n1 lie between those of n and n10."""
    driver.put("A")
    for node in ("n", "n1", "n10"):
        driver.open(node, slots=1)
        driver.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce=node))
    driver.apply(expire("n1"))
    with driver.snapshot() as snapshot:
        assert counted(snapshot) == {"n": 1, "n1": 0, "n10": 1}


def test_a_session_without_claims_leaves_nothing_to_do(driver: Driver) -> None:
    driver.open("n1")
    assert not driver.apply(expire()).reply.remaining
    with driver.snapshot() as snapshot:
        assert snapshot.ended_sessions() == []


def test_the_claims_of_an_older_incarnation_come_back_too(driver: Driver) -> None:
    """The node restarted before anybody noticed: it opens anew, and the leader goes on with the ended one."""
    holding(driver, 3)
    outcome = driver.apply(
        OpenSession(
            now_ms=NOW_MS, node="n1", incarnation=2, http="h", raft="r", slots=5, ahead=0, version="v", tzdata="z"
        )
    )
    assert [type(event) for _, event in outcome.events] == [SessionEnded, SessionRenewed]
    assert held(driver, 1) == 3
    outcome = driver.apply(expire(incarnation=1))
    assert not outcome.reply.remaining
    assert [event.session for _, event in outcome.sent(RunClaimed)] == [2, 2, 2]
    assert [event.token for _, event in outcome.sent(RunClaimed)] == [2, 2, 2]
    assert (held(driver, 1), held(driver, 2)) == (0, 3)
    assert driver.apply(expire(incarnation=1)).reply.code == "ok"
    assert held(driver, 2) == 3


def test_a_result_that_comes_before_its_claim_is_taken_back_counts(driver: Driver) -> None:
    """The token is still the current one: the work was done, and nobody else has been given it."""
    holding(driver, 1)
    run_id = run_id_of("A", NOW_MS, RunKind.MANUAL, "x00000")
    driver.open("n1", 2, slots=0)
    result = Finish(
        now_ms=NOW_MS,
        run_id=run_id,
        token=1,
        outcome=AttemptOutcome.SUCCEEDED,
        started_ms=NOW_MS,
        finished_ms=NOW_MS,
    )
    assert driver.apply(result).reply.code == "ok"
    assert not driver.apply(expire(incarnation=1)).reply.remaining
    assert driver.run(run_id).state is RunState.SUCCEEDED
    with driver.snapshot() as snapshot:
        assert snapshot.ended_sessions() == []


def test_a_run_that_was_lost_for_the_last_time_is_dead(owned: Driver) -> None:
    owned.put("A", max_retries=0)
    owned.apply(fire(tick(NOW_MS + SECOND)))
    owned.apply(expire(now_ms=NOW_MS + SECOND))
    run = owned.run(run_id_of("A", NOW_MS + SECOND))
    assert (run.state, run.reason) == (RunState.DEAD, "lost")
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.LOST]


def test_a_claim_that_is_a_moment_ahead_of_its_time_uses_no_attempt(owned: Driver) -> None:
    owned.put("A", max_retries=0)
    owned.apply(fire(tick(NOW_MS + SECOND)))
    owned.apply(expire(now_ms=NOW_MS + SECOND - 1))
    run = owned.run(run_id_of("A", NOW_MS + SECOND))
    assert (run.state, run.attempt, run.attempts) == (RunState.QUEUED, 1, ())


def test_renewals_keep_the_wall_clock_of_the_node(driver: Driver) -> None:
    driver.open("n1")
    driver.apply(RenewSession(now_ms=NOW_MS + 77, node="n1", incarnation=1, renewal=3))
    with driver.snapshot() as snapshot:
        session = snapshot.session("n1")
    assert session is not None
    assert (session.renewal, session.wall_ms, session.opened_ms, session.live) == (3, NOW_MS + 77, NOW_MS, True)
    assert (session.http, session.raft, session.tzdata) == ("n1:8101", "n1:7101", "2026a")


def test_a_node_that_takes_no_buckets_is_assigned_none(driver: Driver) -> None:
    """A worker-only node (M25) has claims handed out to it all the same."""
    driver.open("n1", slots=0)
    driver.apply(msgspec.structs.replace(open_session("w1", 1, slots=5, ahead=0), takes_buckets=False))
    moves = tuple(BucketMove(bucket=bucket, expected_epoch=0, node="w1") for bucket in range(2))
    reply = driver.apply(AssignBuckets(now_ms=NOW_MS, moves=moves)).reply
    assert reply == AssignReply(codes=("takes_no_buckets", "takes_no_buckets"))
    driver.put("A")
    driver.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    assert driver.run(run_id_of("A", NOW_MS, RunKind.MANUAL, "x")).node == "w1"
