"""One wrong clock of three, and what it would do if the cluster's clock did not stand in its way: each guard's scenario
is played again with the guard off, and then fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from statemachine import clock, work
from statemachine.commands import ExpireSession, Finish, RenewSession, RunClaimed, RunNow, SuspectSession
from statemachine.records import AttemptOutcome
from tests.statemachine.driver import NOW_MS, Driver, fire, open_session, put_job, skipped, tick

DUE_MS = NOW_MS + 1000
YEAR_MS = 365 * 24 * 3600 * 1000
WRONG_MS = NOW_MS + YEAR_MS


@pytest.fixture
def three(driver: Driver) -> Driver:
    """Three nodes, of which n3 owns the buckets, and job A, which is due in a second."""
    for node in ("n1", "n2", "n3"):
        driver.apply(open_session(node, 1, slots=3, ahead=3), node=node)
    driver.own_all("n3")
    driver.put("A")
    return driver


def jump(driver: Driver) -> None:
    driver.apply(RenewSession(now_ms=WRONG_MS, node="n3", incarnation=1, renewal=1), node="n3")


def skips_ticks_to_come(driver: Driver) -> bool:
    missed = tick(DUE_MS, WRONG_MS, runs=(), skips=(skipped(DUE_MS, WRONG_MS - 1000, 31_536_000),))
    return bool(driver.apply(fire(missed, now_ms=WRONG_MS, node="n3"), node="n3").reply.codes == ("ok",))


def fires_far_ahead(driver: Driver) -> bool:
    driver.put("B", first_due_ms=WRONG_MS)
    early = tick(WRONG_MS, None, job_id="B")
    return bool(driver.apply(fire(early, now_ms=WRONG_MS, node="n3"), node="n3").reply.codes == ("ok",))


def makes_a_job_that_begins_in_a_year(driver: Driver) -> bool:
    return bool(driver.apply(put_job("C", now_ms=WRONG_MS, first_due_ms=WRONG_MS), node="n3").reply.code == "ok")


def gets_a_run(driver: Driver) -> bool:
    jump(driver)
    asked = [RunNow(now_ms=NOW_MS, job_id="A", nonce=f"r{number}") for number in range(9)]
    driver.apply(*asked)
    with driver.snapshot() as snapshot:
        return any(True for _ in snapshot.claims_of("n3", 1))


@pytest.mark.parametrize(
    ("does_harm", "guard"),
    [
        (skips_ticks_to_come, "statemachine.fire._is_ahead_of"),
        (fires_far_ahead, "statemachine.fire._is_ahead_of"),
        (makes_a_job_that_begins_in_a_year, "statemachine.work.is_off"),
        (gets_a_run, "statemachine.work.is_off"),
    ],
)
def test_one_wrong_clock_does_no_harm_and_would_without_the_guard(
    three: Driver, monkeypatch: pytest.MonkeyPatch, does_harm: Callable[[Driver], bool], guard: str
) -> None:
    assert not does_harm(three)
    monkeypatch.setattr(guard, lambda *args: False)
    assert does_harm(three)


def test_a_suspect_gets_nothing_and_would_without_the_guard(three: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    three.apply(SuspectSession(now_ms=NOW_MS, node="n3", incarnation=1, renewal=0))

    def holders(letter: str) -> set[str]:
        asked = [RunNow(now_ms=NOW_MS, job_id="A", nonce=f"{letter}{number}") for number in range(3)]
        return {topic for topic, _ in three.apply(*asked).sent(RunClaimed)}

    assert holders("x") == {"n1", "n2"}
    monkeypatch.setattr(work.Seat, "takes_claims", property(lambda seat: seat.session.live))
    assert "n3" in holders("y")


def test_the_median_of_an_even_number_is_the_one_nearer_to_what_was_agreed() -> None:
    for wrong_ms in (NOW_MS + YEAR_MS, 0):
        assert clock.median_ms([NOW_MS, wrong_ms], NOW_MS - 1500) == NOW_MS
        assert clock.median_ms([wrong_ms, NOW_MS, NOW_MS + 1000, NOW_MS + 2000], NOW_MS) in (NOW_MS, NOW_MS + 1000)
    assert clock.median_ms([3, 1, 2], None) == 2
    assert clock.median_ms([4, 1], None) == 1
    assert clock.median_ms([], 5) == 5


def test_if_no_majority_agrees_what_was_agreed_decides() -> None:
    """One clock came right and was not heard since, and another has gone wrong: the median of the three is wrong, as it
    is when any distance counts as near."""
    minute_ms = 60_000
    readings_ms = [NOW_MS + minute_ms, NOW_MS + YEAR_MS, NOW_MS]
    assert clock.median_ms(readings_ms, NOW_MS - 1500) == NOW_MS
    assert clock.median_ms(readings_ms, NOW_MS - 1500, near_ms=2 * YEAR_MS) == NOW_MS + minute_ms
    assert clock.median_ms([NOW_MS + YEAR_MS, NOW_MS + YEAR_MS, NOW_MS], NOW_MS) == NOW_MS + YEAR_MS


def test_whoever_stands_apart_does_not_make_another_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is an hour off was set right, and not heard since; the other that goes wrong then is only so far off
    that it still agrees. Counted with the first, it is the median."""
    readings_ms = [NOW_MS + 3_600_000, NOW_MS + 10_000, NOW_MS]
    assert clock.median_ms(readings_ms, NOW_MS - 1500) == NOW_MS
    assert clock.median_ms([*readings_ms, NOW_MS, NOW_MS + 10_000], NOW_MS - 1500) == NOW_MS
    monkeypatch.setattr(clock, "_agreeing", lambda ordered_ms, near_ms: ordered_ms)
    assert clock.median_ms(readings_ms, NOW_MS - 1500) == NOW_MS + 10_000


def test_what_a_wrong_clock_reports_counts(three: Driver) -> None:
    claims = three.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x")).sent(RunClaimed)
    [(node, claim)] = claims
    result = Finish(
        now_ms=WRONG_MS,
        run_id=claim.run_id,
        token=claim.token,
        outcome=AttemptOutcome.SUCCEEDED,
        started_ms=WRONG_MS,
        finished_ms=WRONG_MS,
    )
    assert three.apply(result, node=node).reply.code == "ok"


def test_after_an_outage_a_right_clock_is_believed_when_a_majority_has_renewed(three: Driver) -> None:
    """All three were paused for a year; each renews before it fires."""
    missed = tick(DUE_MS, WRONG_MS, runs=(), skips=(skipped(DUE_MS, WRONG_MS - 60_000, 31_536_000),))
    verdicts = []
    for node in ("n3", "n1"):
        three.apply(RenewSession(now_ms=WRONG_MS, node=node, incarnation=1, renewal=1), node=node)
        verdicts += three.apply(fire(missed, now_ms=WRONG_MS, node="n3"), node="n3").reply.codes
    assert verdicts == ["clock_off", "ok"]


def test_a_session_that_is_alone_and_always_was_is_believed_at_once(driver: Driver) -> None:
    driver.open("n1")
    driver.apply(RenewSession(now_ms=WRONG_MS, node="n1", incarnation=1, renewal=1))
    assert driver.apply(put_job("A", now_ms=WRONG_MS, first_due_ms=WRONG_MS)).reply.code == "ok"


def left_alone(driver: Driver) -> None:
    """One after another the two nodes whose clocks are right go away; the wrong one was heard all the while."""
    for renewal in range(1, 4):
        driver.apply(RenewSession(now_ms=WRONG_MS, node="n3", incarnation=1, renewal=renewal), node="n3")
    for node in ("n1", "n2"):
        driver.apply(ExpireSession(now_ms=WRONG_MS, node=node, incarnation=1, renewal=0), node="n3")


def test_a_wrong_clock_that_the_others_leave_alone_for_a_moment_does_no_harm_and_would_without_the_guard(
    three: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_alone(three)
    for renewal in (4, 5, 6):
        three.apply(RenewSession(now_ms=WRONG_MS, node="n3", incarnation=1, renewal=renewal), node="n3")
    assert not skips_ticks_to_come(three)
    monkeypatch.setattr(clock, "LEFT_ALONE_RENEWALS", clock.ALONE_RENEWALS)
    three.apply(RenewSession(now_ms=WRONG_MS, node="n3", incarnation=1, renewal=7), node="n3")
    assert skips_ticks_to_come(three)


def test_a_clock_that_was_left_alone_for_good_is_believed(three: Driver) -> None:
    left_alone(three)
    last = 3 + clock.LEFT_ALONE_RENEWALS
    verdicts = []
    for renewal in (last - 1, last):
        three.apply(RenewSession(now_ms=WRONG_MS, node="n3", incarnation=1, renewal=renewal), node="n3")
        verdicts.append(skips_ticks_to_come(three))
    assert verdicts == [False, True]


def test_whoever_comes_back_is_believed_rather_than_the_wrong_clock_that_was_alone(three: Driver) -> None:
    left_alone(three)
    three.apply(open_session("n1", 2, slots=3, ahead=3), node="n1")
    assert not skips_ticks_to_come(three)
    three.apply(RenewSession(now_ms=WRONG_MS, node="n3", incarnation=1, renewal=99), node="n3")
    three.apply(ExpireSession(now_ms=WRONG_MS, node="n1", incarnation=2, renewal=0), node="n3")
    assert not skips_ticks_to_come(three), "it counts from the moment when it was left alone again"
