"""What a run needs of a session: slots of its kind, and tags."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from statemachine.commands import DeleteJob, Release, Withdraw
from statemachine.keys import kind_of_lane, run_id_of
from statemachine.lifecycle import create
from statemachine.records import AttemptOutcome, HttpTarget, NoopTarget, Run, RunKind, RunState
from statemachine.work import Work
from tests.statemachine.driver import NOW_MS, Driver, Outcome, fire, open_session, tick
from tests.statemachine.test_handout import SECOND, claims, finish, manual, run_now

HTTP = HttpTarget(url="http://a/")


def open_node(driver: Driver, node: str = "n1", *, incarnation: int = 1, slots: int = 10, **offer: Any) -> Outcome:
    session = open_session(node, incarnation, slots=slots, ahead=slots)
    return driver.apply(replace(session, **offer))


def test_a_kind_without_slots_waits_and_keeps_no_other_waiting(driver: Driver) -> None:
    open_node(driver, kind_slots={"http": 1})
    driver.put("A", target=HTTP, priority=9)
    driver.put("B", priority=1)
    outcome = driver.apply(run_now("A", "a"), run_now("A", "b"), run_now("B", "a"), run_now("B", "b"))
    assert claims(outcome) == [("n1", manual("A", "a")), ("n1", manual("B", "a")), ("n1", manual("B", "b"))]
    assert claims(driver.apply(finish(manual("B", "a")))) == []
    assert claims(driver.apply(finish(manual("A", "a")))) == [("n1", manual("A", "b"))]


def test_a_node_that_cannot_run_a_kind_offers_none(driver: Driver) -> None:
    """The owner's own session, even: the run goes elsewhere."""
    open_node(driver, kind_slots={"http": 0})
    driver.own_all()
    driver.put("A", target=HTTP)
    assert claims(driver.apply(run_now("A", "a"))) == []
    assert claims(open_node(driver, "n2")) == [("n2", manual("A", "a"))]


def test_a_kind_that_is_short_of_slots_gets_none_ahead_of_time_but_others_do(driver: Driver) -> None:
    open_node(driver, kind_slots={"http": 1})
    driver.own_all()
    for job_id, target in (("A", HTTP), ("B", HTTP)):
        driver.put(job_id, target=target, first_due_ms=NOW_MS + SECOND)
    driver.put("C", first_due_ms=NOW_MS + SECOND)
    driver.apply(run_now("A", "a"), run_now("A", "b"))
    outcome = driver.apply(fire(*(tick(NOW_MS + SECOND, job_id=job_id) for job_id in "ABC")))
    assert claims(outcome) == [("n1", run_id_of("C", NOW_MS + SECOND))]
    outcome = driver.apply(finish(manual("A", "a")))
    assert claims(outcome) == [("n1", manual("A", "b")), ("n1", run_id_of("A", NOW_MS + SECOND))]


def test_a_kind_is_counted_until_the_claim_ends(driver: Driver) -> None:
    open_node(driver, kind_slots={"http": 1, "noop": 5})
    driver.put("A", target=HTTP)
    driver.apply(run_now("A", "a"), run_now("A", "b"))
    given_back = Withdraw(now_ms=NOW_MS, run_id=manual("A", "a"), token=1)
    assert claims(driver.apply(given_back)) == [("n1", manual("A", "a"))]
    with driver.snapshot() as snapshot:
        session = snapshot.session("n1")
        assert session is not None
        assert (session.kinds_due, session.kinds_ahead, session.held_due) == ({"http": 1}, {}, 1)


def test_run_on_goes_to_nodes_with_the_tags_only(driver: Driver) -> None:
    open_node(driver, "n1", tags={"zone": "us"})
    open_node(driver, "n2", tags={"zone": "eu", "disk": "ssd"}, slots=2)
    driver.put("A", run_on={"zone": "eu"})
    outcome = driver.apply(*(run_now("A", nonce) for nonce in "abc"))
    assert claims(outcome) == [("n2", manual("A", "a")), ("n2", manual("A", "b"))]


def test_a_run_that_no_node_has_the_tags_for_waits_and_blocks_nobody(driver: Driver) -> None:
    """Not its own team, not its class, not what is ahead of its time; and it starts when such a node comes."""
    open_node(driver, "n1")
    driver.own_all()
    driver.put("A", run_on={"zone": "mars"}, priority=9)
    driver.put("B", priority=0, first_due_ms=NOW_MS + SECOND)
    driver.apply(run_now("A", "a"))
    assert claims(driver.apply(run_now("B", "a"))) == [("n1", manual("B", "a"))]
    outcome = driver.apply(fire(tick(NOW_MS + SECOND, job_id="B")))
    assert claims(outcome) == [("n1", run_id_of("B", NOW_MS + SECOND))]
    assert claims(open_node(driver, "n2", tags={"zone": "mars"})) == [("n2", manual("A", "a"))]


def test_a_retry_of_a_job_that_was_changed_needs_what_its_own_version_needed(driver: Driver) -> None:
    open_node(driver, "n1", tags={"zone": "eu"})
    driver.own_all()
    driver.put("A", run_on={"zone": "eu"}, target=HTTP)
    driver.apply(run_now("A", "a"))
    driver.apply(finish(manual("A", "a"), AttemptOutcome.FAILED))
    driver.put("A", version=2, run_on={"zone": "us"})
    outcome = driver.apply(release_of("A", "a"))
    assert claims(outcome) == [("n1", manual("A", "a"))]
    driver.apply(finish(manual("A", "a"), AttemptOutcome.FAILED, token=2))
    driver.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    driver.apply(release_of("A", "a", token=2))
    assert driver.run(manual("A", "a")).run_on == {"zone": "eu"}


def release_of(job_id: str, nonce: str, token: int = 1) -> Any:

    return Release(now_ms=NOW_MS, run_id=manual(job_id, nonce), token=token)


def test_a_class_with_several_needs_serves_each_team_by_who_waited_longest(driver: Driver) -> None:
    for job_id, target, team in (("A", HTTP, "t"), ("B", NoopTarget(), "t"), ("C", NoopTarget(), "u")):
        driver.put(job_id, team=team, target=target)
    at = {"A": (1, 4), "B": (2, 5), "C": (3, 6)}
    driver.apply(*(run_now(job_id, "x", NOW_MS + ms) for job_id, times in at.items() for ms in times))
    outcome = driver.open_more("n1", now_ms=NOW_MS + 9)
    expected = [("A", 1), ("C", 3), ("B", 2), ("C", 6), ("A", 4), ("B", 5)]
    assert [run_id for _, run_id in claims(outcome)] == [manual(job_id, "x", NOW_MS + ms) for job_id, ms in expected]


def test_whoever_makes_a_run_that_waits_need_not_know_of_lanes(driver: Driver) -> None:
    driver.put("A", target=HTTP, run_on={"zone": "eu"}, priority=3)
    run = Run(
        run_id=manual("A", "x"),
        job_id="A",
        job_version=1,
        team="t",
        kind=RunKind.MANUAL,
        due_ms=NOW_MS,
        release_ms=NOW_MS,
        priority=3,
        state=RunState.QUEUED,
        created_ms=NOW_MS,
    )
    with driver.environment.begin(write=True) as transaction:
        made = create(Work(transaction, driver.machine.tables(transaction), "n1"), run)
    assert (kind_of_lane(made.lane), made.run_on) == ("http", {"zone": "eu"})


def test_what_waits_is_seen_lane_by_lane(driver: Driver) -> None:
    """For a scrape: a seek a lane, however many runs wait in it."""
    driver.put("A")
    driver.put("B", team="u")
    driver.put("C", target=HTTP, run_on={"zone": "eu"}, priority=9)
    driver.apply(*(run_now(job_id, nonce) for job_id in "ABC" for nonce in "xyz"))
    with driver.snapshot() as snapshot:
        lanes = list(snapshot.lanes_waiting())
        assert [(kind_of_lane(lane), run.job_id) for lane, run in lanes] == [("http", "C"), ("noop", "A")]
        assert [snapshot.lane_depth(lane, 5) for lane, _ in lanes] == [3, 5]
