"""Slow targets: they hold a share of the slots, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine.commands import DeleteJob, Finish, Release
from statemachine.records import AttemptOutcome, CommandTarget, ContainerTarget, HttpTarget, NoopTarget
from statemachine.targets import target_name
from tests.statemachine.driver import NOW_MS, Driver, Outcome
from tests.statemachine.test_handout import claims, finish, manual, run_now

SLOW_URL = "http://slow.example/hook"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (HttpTarget(url="https://user:secret@A.example:8443/x?y"), "host a.example:8443"),
        (HttpTarget(url="http://[bad/"), "host http://[bad/"),
        (ContainerTarget(image="busybox:1"), "image busybox:1"),
        (CommandTarget(argv=("/bin/report", "-v")), "program /bin/report"),
        (NoopTarget(), None),
    ],
)
def test_what_the_runs_of_a_target_have_in_common(target: Any, name: str | None) -> None:
    assert target_name(target) == name


def begun(driver: Driver, slots: int = 8) -> Driver:
    driver.open("n1", slots=slots, ahead=0)
    driver.put("A", target=HttpTarget(url=SLOW_URL), max_retries=0)
    driver.put("B", target=HttpTarget(url="http://good.example/"), team="u")
    return driver


def ran(driver: Driver, nonce: str, outcome: AttemptOutcome, took_s: float = 1.0, job_id: str = "A") -> Outcome:
    """One run, from its hand-out to its end."""
    driver.apply(run_now(job_id, nonce))
    return driver.apply(ended(nonce, outcome, took_s, job_id))


def ended(nonce: str, outcome: AttemptOutcome, took_s: float = 1.0, job_id: str = "A") -> Finish:
    return Finish(
        now_ms=NOW_MS,
        run_id=manual(job_id, nonce),
        token=1,
        outcome=outcome,
        started_ms=NOW_MS - round(took_s * 1000),
        finished_ms=NOW_MS,
        retry_at_ms=NOW_MS,
    )


def make_slow(driver: Driver) -> None:
    for number in range(3):
        ran(driver, f"t{number}", AttemptOutcome.TIMED_OUT)


def test_a_slow_target_holds_a_quarter_of_the_slots_and_others_the_rest(driver: Driver) -> None:
    """(M9) Whatever its priority."""
    begun(driver)
    make_slow(driver)
    outcome = driver.apply(*(run_now("A", f"a{number}") for number in range(9)))
    assert len(claims(outcome)) == 2
    with driver.snapshot() as snapshot:
        assert snapshot.slow_targets() == ["host slow.example"]
    outcome = driver.apply(*(run_now("B", f"b{number}") for number in range(9)))
    assert len(claims(outcome)) == 6
    outcome = driver.apply(ended("a0", AttemptOutcome.TIMED_OUT))
    assert [driver.run(run_id).job_id for _, run_id in claims(outcome)] == ["A"]


def test_before_it_is_slow_it_may_hold_everything_and_what_waited_is_held_back_then(driver: Driver) -> None:
    begun(driver)
    driver.apply(*(run_now("A", f"a{number:02}") for number in range(20)))
    for number in range(3):
        driver.apply(ended(f"a{number:02}", AttemptOutcome.TIMED_OUT))
    with driver.snapshot() as snapshot:
        [session] = snapshot.sessions()
    assert session.held_due == 8
    driver.apply(*(ended(f"a{number:02}", AttemptOutcome.TIMED_OUT) for number in range(3, 10)))
    driver.apply(run_now("B", "x"))
    assert driver.run(manual("B", "x")).node == "n1"
    with driver.snapshot() as snapshot:
        [session] = snapshot.sessions()
    assert session.held_due == 2 + 1


def test_all_slow_targets_together_hold_a_half(driver: Driver) -> None:
    driver.open("n1", slots=8, ahead=0)
    names = ("A", "B", "C", "D")
    for job_id in names:
        driver.put(job_id, target=HttpTarget(url=f"http://{job_id}.example/"), max_retries=0)
        for number in range(3):
            ran(driver, f"t{number}", AttemptOutcome.TIMED_OUT, job_id=job_id)
    outcome = driver.apply(*(run_now(job_id, nonce) for job_id in names for nonce in "xyz"))
    assert len(claims(outcome)) == 4


def test_it_comes_right_with_attempts_that_succeed_in_time(driver: Driver) -> None:
    """What waits in the lane of the slow ones goes on with the others."""
    begun(driver)
    make_slow(driver)
    driver.apply(*(run_now("A", f"a{number}") for number in range(9)))
    outcome = driver.apply(ended("a0", AttemptOutcome.SUCCEEDED), ended("a1", AttemptOutcome.SUCCEEDED))
    assert len(claims(outcome)) == 2
    outcome = driver.apply(ended("a2", AttemptOutcome.SUCCEEDED), ended("a3", AttemptOutcome.SUCCEEDED))
    assert len(claims(outcome)) == 5
    for nonce in ("a4", "a5"):
        driver.apply(ended(nonce, AttemptOutcome.SUCCEEDED))
    assert driver.table("targets") == {}


@pytest.mark.parametrize(
    ("took_s", "outcome", "is_slow"),
    [
        (55.0, AttemptOutcome.SUCCEEDED, True),
        (55.0, AttemptOutcome.FAILED, True),
        (53.0, AttemptOutcome.SUCCEEDED, False),
        (0.1, AttemptOutcome.FAILED, False),
    ],
)
def test_attempts_that_nearly_timed_out_count_half(
    driver: Driver, took_s: float, outcome: AttemptOutcome, is_slow: bool
) -> None:
    """One that fails at once holds no slot, and a long one that is told so in its timeout_s (60 s here) is none."""
    begun(driver)
    for number in range(6):
        ran(driver, f"t{number}", outcome, took_s)
    outcome_of_more = driver.apply(*(run_now("A", f"a{number}") for number in range(8)))
    assert len(claims(outcome_of_more)) == (2 if is_slow else 8)


def test_a_target_without_trouble_has_no_score(driver: Driver) -> None:
    begun(driver)
    ran(driver, "a", AttemptOutcome.SUCCEEDED)
    assert driver.table("targets") == {}
    ran(driver, "b", AttemptOutcome.TIMED_OUT)
    ran(driver, "b", AttemptOutcome.SUCCEEDED, job_id="B")
    assert len(driver.table("targets")) == 1
    driver.put("N", target=NoopTarget())
    ran(driver, "n", AttemptOutcome.TIMED_OUT, job_id="N")
    assert len(driver.table("targets")) == 1


def test_one_slot_is_left_to_it_in_a_small_cluster(driver: Driver) -> None:
    begun(driver, slots=1)
    make_slow(driver)
    assert len(claims(driver.apply(run_now("A", "a")))) == 1
    assert len(claims(driver.apply(run_now("A", "b")))) == 0
    assert len(claims(driver.apply(ended("a", AttemptOutcome.TIMED_OUT)))) == 1


def test_a_retry_of_a_changed_job_stays_in_the_lane_of_its_own_definition(driver: Driver) -> None:
    begun(driver)
    make_slow(driver)
    driver.put("A", version=2, target=HttpTarget(url=SLOW_URL), max_retries=1)
    driver.apply(run_now("A", "a"))
    driver.apply(finish(manual("A", "a"), AttemptOutcome.FAILED))
    driver.put("A", version=3, target=NoopTarget())
    outcome = driver.apply(Release(now_ms=NOW_MS, run_id=manual("A", "a"), token=1))
    assert claims(outcome) == [("n1", manual("A", "a"))]
    assert driver.run(manual("A", "a")).lane[1] & 0x40


def test_what_a_deleted_job_called_is_not_judged(driver: Driver) -> None:
    begun(driver)
    driver.apply(run_now("A", "a"))
    driver.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    driver.apply(ended("a", AttemptOutcome.TIMED_OUT))
    assert driver.table("targets") == {}
