"""Ageing: what has waited long enough counts one class higher, at a bounded cost."""

from __future__ import annotations

import pytest

from statemachine import aging
from statemachine.commands import RenewSession
from statemachine.limits import AGED_AFTER_MS
from tests.statemachine.driver import NOW_MS, Driver, Outcome
from tests.statemachine.test_handout import claims, finish, manual, run_now

LATER_MS = NOW_MS + AGED_AFTER_MS


def begun(driver: Driver) -> Driver:
    """One slot, which a run of the highest priority has; the clock goes on with renewals."""
    driver.open("n1", slots=1, ahead=0)
    driver.put("Z", priority=9, name="z")
    driver.apply(run_now("Z", "z"))
    return driver


def renew(driver: Driver, now_ms: int, renewal: int) -> Outcome:
    return driver.apply(RenewSession(now_ms=now_ms, node="n1", incarnation=1, renewal=renewal))


def order(driver: Driver, first: str) -> list[str]:
    """The runs in the order in which one slot gets them."""
    served, run_id = [], first
    while found := claims(driver.apply(finish(run_id))):
        [(_, run_id)] = found
        served.append(run_id)
    return served


def test_a_run_that_waited_five_minutes_counts_one_class_higher(driver: Driver) -> None:
    """(M9) There it takes its turn by time; and not two classes, however long it waits."""
    begun(driver)
    driver.put("A", priority=4)
    driver.put("B", priority=5)
    driver.put("C", priority=6)
    driver.apply(run_now("A", "old"))
    driver.apply(run_now("B", "new", LATER_MS - 1), run_now("C", "new", LATER_MS - 1))
    renew(driver, LATER_MS - 1, 1)
    renew(driver, LATER_MS, 2)
    renew(driver, LATER_MS, 3)
    expected = [("C", "new", LATER_MS - 1), ("A", "old", NOW_MS), ("B", "new", LATER_MS - 1)]
    assert order(driver, manual("Z", "z")) == [manual(*one) for one in expected]


def test_not_a_moment_earlier_and_not_beyond_the_highest(driver: Driver) -> None:
    begun(driver)
    driver.put("A", priority=4)
    driver.put("B", priority=5)
    driver.put("C", priority=9)
    driver.apply(run_now("A", "old"), run_now("C", "old"))
    renew(driver, LATER_MS - 1, 1)
    driver.apply(run_now("B", "new", LATER_MS - 1))
    expected = [("C", "old", NOW_MS), ("B", "new", LATER_MS - 1), ("A", "old", NOW_MS)]
    assert order(driver, manual("Z", "z")) == [manual(*one) for one in expected]


def test_once_handed_out_it_is_of_its_own_class_again(driver: Driver) -> None:
    """What it waits for next it has not waited for yet."""
    begun(driver)
    driver.put("A", priority=4)
    driver.apply(run_now("A", "old"))
    renew(driver, LATER_MS, 1)
    assert driver.run(manual("A", "old")).lane[0] == 9 - 5
    driver.apply(finish(manual("Z", "z")))
    assert driver.run(manual("A", "old")).priority == 4
    renewal = RenewSession(now_ms=LATER_MS, node="n1", incarnation=1, renewal=2, draining=True)
    driver.apply(renewal)
    with driver.snapshot() as snapshot:
        assert snapshot.queue_depth() == [0] * 10


@pytest.mark.parametrize("lanes", [1, 2, 3, 100])
def test_all_lanes_are_gone_through_a_few_at_a_time(
    driver: Driver, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aging, "AGING_LANES_MAX", lanes)
    monkeypatch.setattr(aging, "AGING_RUNS_MAX", 2)
    begun(driver)
    for number, job_id in enumerate("ABCDE"):
        driver.put(job_id, priority=number, team=f"t{number % 3}")
        driver.apply(*(run_now(job_id, nonce) for nonce in "xyz"))
    for renewal in range(1, 30):
        renew(driver, LATER_MS, renewal)
    aged = [driver.run(manual(job_id, nonce)).lane[0] for job_id in "ABCDE" for nonce in "xyz"]
    assert aged == [8] * 3 + [7] * 3 + [6] * 3 + [5] * 3 + [4] * 3
