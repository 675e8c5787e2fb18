"""Retention: what is over goes after a while, and nothing that a job or a run still needs (M11)."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import commands as c
from statemachine import retention
from statemachine.records import AttemptOutcome
from statemachine.retention import Keep
from tests.statemachine import invariants
from tests.statemachine.driver import NOW_MS, Driver, Outcome, fire, skipped, tick
from tests.statemachine.test_outbox import die

SECOND = 1000
HOUR = 3_600_000
LATER_MS = NOW_MS + HOUR
DUES = [NOW_MS + SECOND * number for number in range(1, 7)]


def run_id(due_ms: int, job_id: str = "A") -> str:
    return f"{due_ms:012x}-{job_id}"


def grow(driver: Driver, job_id: str = "A", dues: list[int] = DUES, **fields: Any) -> None:
    """A job with a run at each of the ticks, all of which succeeded; it stands at the tick after them."""
    driver.put(job_id, first_due_ms=dues[0], **fields)
    version = fields.get("version", 1)
    for due_ms in dues:
        driver.apply(fire(tick(due_ms, due_ms + SECOND, job_id=job_id, version=version)))
        driver.apply(finish(run_id(due_ms, job_id)))


def finish(ended_id: str) -> c.Finish:
    fields: dict[str, Any] = {"token": 1, "outcome": AttemptOutcome.SUCCEEDED}
    return c.Finish(now_ms=NOW_MS, run_id=ended_id, started_ms=NOW_MS, finished_ms=NOW_MS, **fields)


def wait(driver: Driver, now_ms: int = LATER_MS) -> None:
    """Let the cluster's clock move on, and settle."""
    for renewal in (1, 2):
        driver.apply(c.RenewSession(now_ms=now_ms, node="n1", incarnation=1, renewal=renewal))


def found(driver: Driver, keep: Keep, job_id: str = "A", now_ms: int = LATER_MS) -> c.PruneItem | None:
    with driver.snapshot() as snapshot:
        job = snapshot.job(job_id)
        assert job is not None
        return snapshot.forgettable(job, keep, now_ms).item


def prune(driver: Driver, *items: c.PruneItem | None, now_ms: int = LATER_MS) -> Outcome:
    outcome = driver.apply(c.PruneRuns(now_ms=now_ms, items=tuple(item for item in items if item is not None)))
    invariants.check(driver)
    return outcome


def kept(driver: Driver, job_id: str = "A") -> list[int]:
    with driver.snapshot() as snapshot:
        return [run.due_ms for run in reversed(snapshot.runs_of_job(job_id).items)]


EVERYTHING = Keep(after_ms=LATER_MS, runs=None)


def test_by_age_go_the_runs_that_ended_before(owned: Driver) -> None:
    grow(owned)
    wait(owned)
    prune(owned, found(owned, Keep(after_ms=DUES[2], runs=None)))
    assert kept(owned) == DUES[2:]


def test_by_count_go_the_oldest_whatever_their_kind(owned: Driver) -> None:
    owned.put()
    made = owned.apply(c.RunNow(now_ms=NOW_MS, job_id="A", nonce="x")).reply.run_id
    owned.apply(finish(made))
    grow(owned, version=2)
    wait(owned)
    prune(owned, found(owned, Keep(after_ms=0, runs=4)))
    assert kept(owned) == DUES[2:]


def test_the_row_that_says_where_a_job_stands_stays(owned: Driver) -> None:
    """dkron#605: a job must not fall off its schedule; here, because its history was cleaned up."""
    grow(owned)
    wait(owned)
    item = found(owned, EVERYTHING)
    assert item is not None and len(item.run_ids) == 5
    every = c.PruneItem(job_id="A", version=1, run_ids=tuple(map(run_id, DUES)))
    prune(owned, every)
    assert kept(owned) == DUES[-1:]
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == DUES[-1] + SECOND
    assert found(owned, EVERYTHING) is None


def test_so_does_that_of_a_job_whose_schedule_has_ended(owned: Driver) -> None:
    grow(owned, dues=DUES[:1])
    owned.apply(fire(tick(DUES[1], None)))
    owned.apply(finish(run_id(DUES[1])))
    wait(owned)
    prune(owned, found(owned, EVERYTHING))
    assert kept(owned) == [DUES[1]]
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") is None


def test_runs_of_ticks_that_a_changed_job_may_come_to_again_stay(owned: Driver) -> None:
    """I1, I3: made anew they would have their first token again."""
    grow(owned)
    owned.put(version=2, first_due_ms=DUES[3])
    wait(owned)
    prune(owned, c.PruneItem(job_id="A", version=2, run_ids=tuple(map(run_id, DUES))))
    assert kept(owned) == DUES[3:]


def test_what_is_not_over_or_has_just_ended_stays(owned: Driver) -> None:
    owned.put()
    owned.apply(fire(tick(DUES[0], DUES[1])))
    owned.apply(fire(tick(DUES[1], DUES[2])), finish(run_id(DUES[1])))
    owned.apply(finish(run_id(DUES[1])))
    every = c.PruneItem(job_id="A", version=1, run_ids=tuple(map(run_id, DUES)))
    prune(owned, every, now_ms=NOW_MS + 10 * SECOND)
    assert kept(owned) == DUES[:2]


def test_an_item_of_another_version_of_the_job_does_nothing(owned: Driver) -> None:
    """How much is kept may have been changed with it."""
    grow(owned)
    item = found(owned, EVERYTHING)
    owned.put(version=2, first_due_ms=DUES[-1] + SECOND)
    wait(owned)
    prune(owned, item, c.PruneItem(job_id="Z", version=1, run_ids=("x",)))
    assert kept(owned) == DUES


def test_one_clock_that_is_wrong_prunes_nothing(owned: Driver) -> None:
    for node in ("n2", "n3"):
        owned.open_more(node)
    grow(owned)
    item = found(owned, EVERYTHING)
    prune(owned, item, now_ms=NOW_MS + 1000 * HOUR)
    assert kept(owned) == DUES


def test_every_node_hears_whose_logs_are_to_go(owned: Driver) -> None:
    grow(owned, dues=DUES[:2])
    wait(owned)
    outcome = prune(owned, found(owned, EVERYTHING))
    assert outcome.events == [("*", c.RunsPruned(runs=((run_id(DUES[0]), 1),)))]


def test_the_history_of_a_deleted_job_goes_and_then_the_job(owned: Driver) -> None:
    """And of no other: deleting `foo` keeps the history of `foo_bar`."""
    for job_id in ("foo", "foo_bar"):
        grow(owned, job_id)
        owned.put(job_id, version=2)
    owned.apply(c.DeleteJob(now_ms=NOW_MS, job_id="foo"))
    wait(owned)
    with owned.snapshot() as snapshot:
        assert [job.job_id for job in snapshot.deleted_jobs()] == ["foo"]
        assert snapshot.deleted_jobs(after_id="foo") == []
    prune(owned, found(owned, EVERYTHING, "foo"))
    assert kept(owned, "foo") == []
    item = found(owned, EVERYTHING, "foo")
    assert item == c.PruneItem(job_id="foo", version=2, versions=True, job=True)
    prune(owned, item)
    with owned.snapshot() as snapshot:
        assert snapshot.job("foo") is None
        assert snapshot.deleted_jobs() == []
        assert snapshot.job_stats("foo_bar").succeeded == len(DUES)
    assert kept(owned, "foo_bar") == DUES
    assert b"foo" not in owned.table("job_stats")


def test_a_job_that_was_just_deleted_is_not_forgotten(owned: Driver) -> None:
    owned.put()
    wait(owned)
    owned.apply(c.DeleteJob(now_ms=LATER_MS, job_id="A"))
    assert found(owned, EVERYTHING, now_ms=LATER_MS) is None
    prune(owned, c.PruneItem(job_id="A", version=1, job=True))
    with owned.snapshot() as snapshot:
        assert snapshot.job("A") is not None


def test_an_old_definition_stays_while_a_run_of_it_may(owned: Driver) -> None:
    grow(owned)
    stands_ms, then_ms = DUES[-1] + SECOND, NOW_MS + 200 * SECOND
    owned.put(version=2, first_due_ms=stands_ms, updated_ms=stands_ms)
    wait(owned, then_ms)
    missed, run = skipped(stands_ms, then_ms - 1, 9), c.FireRun(due_ms=then_ms, release_ms=then_ms)
    item = tick(stands_ms, then_ms + SECOND, version=2, runs=(run,), skips=(missed,))
    owned.apply(fire(item, now_ms=then_ms))
    owned.apply(finish(run_id(then_ms)))
    wait(owned)
    assert found(owned, Keep(after_ms=0, runs=None)) is None
    prune(owned, c.PruneItem(job_id="A", version=2, versions=True))
    assert len(owned.table("job_archive")) == 1
    prune(owned, found(owned, EVERYTHING))
    assert kept(owned) == [then_ms]
    last = found(owned, EVERYTHING)
    assert last == c.PruneItem(job_id="A", version=2, versions=True)
    prune(owned, last)
    assert owned.table("job_archive") == {}


def test_an_old_definition_of_a_job_without_runs_goes(owned: Driver) -> None:
    owned.put()
    owned.put(version=2)
    prune(owned, found(owned, EVERYTHING))
    assert owned.table("job_archive") == {}


def test_a_command_and_a_look_are_bounded(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(owned)
    wait(owned)
    with owned.snapshot() as snapshot:
        job = snapshot.job("A")
        assert job is not None
        item = snapshot.forgettable(job, EVERYTHING, LATER_MS, runs_max=2).item
    assert item is not None and len(item.run_ids) == 2
    monkeypatch.setattr(retention, "PRUNED_RUNS_MAX", 2)
    assert prune(owned, item, item).reply.code == "malformed"
    monkeypatch.setattr(retention, "PRUNED_RUNS_MAX", 100)
    monkeypatch.setattr(retention, "PRUNE_SCAN_MAX", 1)
    item = found(owned, EVERYTHING)
    assert item is not None and len(item.run_ids) == 1


def test_what_ended_long_ago_in_a_job_that_is_forgotten_settles_nothing(owned: Driver) -> None:
    """A backlog of ends may be older than what is kept of their job."""
    die(owned, "A", due_ms=DUES[0])
    owned.apply(c.DeleteJob(now_ms=NOW_MS, job_id="A"))
    later = c.OpenSession(
        now_ms=LATER_MS, node="n1", incarnation=2, http="", raft="", slots=1, ahead=1, version="", tzdata=""
    )
    owned.apply(later)
    every = c.PruneItem(job_id="A", version=1, run_ids=(run_id(DUES[0]),), job=True)
    owned.apply(c.PruneRuns(now_ms=LATER_MS, items=(every,)))
    owned.apply(c.RenewSession(now_ms=LATER_MS, node="n1", incarnation=2, renewal=1))
    assert owned.table("job_stats") == owned.table("ended") == owned.table("outbox") == {}
