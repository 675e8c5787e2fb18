"""Overlap: limits hold at every index whatever happens, places are freed by every end, and nothing waits for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from statemachine import commands as c
from statemachine.concurrency import limit_of
from statemachine.keys import run_id_of
from statemachine.records import FINAL_STATES, AttemptOutcome, Run, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver, fire, put_job, tick
from tests.statemachine.model import Model
from tests.statemachine.moves import PROPOSALS, beginning, commands
from tests.statemachine.test_model import SLOW

SECOND = 1000


def run_now(nonce: str, **fields: Any) -> c.RunNow:
    return c.RunNow(now_ms=NOW_MS, job_id="A", nonce=nonce, **fields)


def manual(nonce: str) -> str:
    return run_id_of("A", NOW_MS, RunKind.MANUAL, nonce)


def finish(run_id: str, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED) -> c.Finish:
    times = {"now_ms": NOW_MS, "started_ms": NOW_MS, "finished_ms": NOW_MS, "retry_at_ms": NOW_MS}
    return c.Finish(run_id=run_id, token=1, outcome=outcome, **times)


def states(driver: Driver, *run_ids: str) -> list[tuple[str, bool]]:
    return [(driver.run(run_id).state.value, driver.run(run_id).parked) for run_id in run_ids]


ENDS: dict[str, list[c.Command]] = {
    "success": [finish(manual("a"))],
    "the last failure": [finish(manual("a"), AttemptOutcome.FAILED)],
    "cancel": [c.CancelRun(now_ms=NOW_MS, run_id=manual("a")), finish(manual("a"), AttemptOutcome.CANCELLED)],
    "a lost session": [c.ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0)],
    "withdrawn": [c.Withdraw(now_ms=NOW_MS, run_id=manual("a"), token=1, reason="deadline: late")],
    "a lapsed lease": [
        c.Detach(
            now_ms=NOW_MS, run_id=manual("a"), token=1, started_ms=NOW_MS, left_ms=5, heartbeat_ms=5, backoff_ms=0
        ),
        c.RenewSession(now_ms=NOW_MS + 10, node="n1", incarnation=1, renewal=1),
        c.Release(now_ms=NOW_MS + 10, run_id=manual("a"), token=1),
    ],
}


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_the_active_run_lets_the_parked_one_go(owned: Driver, end: str) -> None:
    """No orphan run and no dead worker can block a job for ever (dkron#349, dkron#316), nor does a run rest in an
    intermediate state (quartz#145)."""
    owned.put("A", overlap_policy="queue_all", max_retries=0)
    owned.apply(run_now("a"))
    owned.apply(run_now("b"))
    assert states(owned, manual("b")) == [("queued", True)]
    for command in ENDS[end]:
        owned.apply(command)
    assert owned.run(manual("a")).state in FINAL_STATES
    assert states(owned, manual("b"))[0][1] is False
    assert owned.table("parked") == {}


@pytest.mark.parametrize("policy", ["skip", "queue_one", "queue_all", "replace"])
def test_a_policy_holds_through_the_loss_of_a_session_and_against_run_now(owned: Driver, policy: Any) -> None:
    """A lost run that is tried again stands in the way as before (nomad#11052), and so does one that was asked for by
    hand (nomad#5487)."""
    owned.put("A", overlap_policy=policy, max_retries=3)
    owned.apply(run_now("a"))
    owned.apply(c.ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0))
    assert states(owned, manual("a")) == [("queued", False)]
    owned.open("n1", 2)
    assert states(owned, manual("a")) == [("claimed", False)]
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.apply(c.Release(now_ms=NOW_MS + SECOND, run_id=run_id_of("A", NOW_MS + SECOND), token=0))
    run = owned.run(run_id_of("A", NOW_MS + SECOND))
    if policy == "skip":
        assert (run.state, run.reason) == (RunState.SKIPPED, f"overlap: {manual('a')}"), "it names the run in its way"
    else:
        assert (run.state, run.parked) == (RunState.QUEUED, True)
    assert owned.run(manual("a")).stop == (f"replaced: {run.run_id}" if policy == "replace" else None)


def test_a_lost_session_of_a_replaced_run_frees_its_place(owned: Driver) -> None:
    owned.put("A", overlap_policy="replace", max_retries=3)
    owned.apply(run_now("a"))
    owned.apply(run_now("b"))
    owned.apply(c.ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0))
    assert (owned.run(manual("a")).state, owned.run(manual("a")).reason) == (
        RunState.CANCELLED,
        f"replaced: {manual('b')}",
    )
    assert states(owned, manual("b")) == [("queued", False)]


def test_a_cancel_outranks_a_replacement(owned: Driver) -> None:
    """(I8) It was promised to somebody."""
    owned.put("A", overlap_policy="replace")
    owned.apply(run_now("a"))
    owned.apply(run_now("b"))
    owned.apply(c.CancelRun(now_ms=NOW_MS, run_id=manual("a"), reason="mine"))
    owned.apply(run_now("c"))
    owned.apply(finish(manual("a")))
    assert owned.run(manual("a")).reason == "cancelled: mine"


def test_missed_ticks_are_made_good_one_after_another_and_newer_ones_wait_for_them(owned: Driver) -> None:
    """(M19) In order of their due times, whatever the policy."""
    owned.put("A", overlap_policy="skip", first_due_ms=NOW_MS)
    dues = [NOW_MS + number * SECOND for number in range(4)]
    runs = tuple(c.FireRun(due_ms=due_ms, release_ms=due_ms, catch_up=number < 3) for number, due_ms in enumerate(dues))
    owned.apply(fire(tick(dues[0], dues[3] + SECOND, runs=runs)))
    ids = [run_id_of("A", due_ms) for due_ms in dues]
    for run_id in (ids[0], ids[2], ids[1], ids[3]):
        owned.apply(c.Release(now_ms=dues[3], run_id=run_id, token=0))
    assert states(owned, *ids) == [("claimed", False), ("queued", True), ("queued", True), ("queued", True)]
    for number, run_id in enumerate(ids):
        assert states(owned, *ids[number:])[0] == ("claimed", False)
        assert all(state == ("queued", True) for state in states(owned, *ids[number + 1 :]))
        owned.apply(finish(run_id))


def test_somebody_who_asks_for_it_is_not_kept_waiting_by_missed_ticks(owned: Driver) -> None:
    owned.put("A", overlap_policy="skip", first_due_ms=NOW_MS)
    runs = (c.FireRun(due_ms=NOW_MS, release_ms=NOW_MS, catch_up=True),)
    owned.apply(fire(tick(NOW_MS, NOW_MS + SECOND, runs=runs)))
    owned.apply(c.Release(now_ms=NOW_MS, run_id=run_id_of("A", NOW_MS), token=0))
    owned.apply(run_now("a", overlap_policy="allow"))
    owned.apply(run_now("b"))
    assert states(owned, manual("a"), manual("b")) == [("claimed", False), ("queued", True)]


def test_so_many_are_parked_and_no_more(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.overlap.PARKED_MAX", 2)
    owned.put("A", overlap_policy="queue_all")
    for nonce in "abcd":
        owned.apply(run_now(nonce))
    assert owned.run(manual("d")).reason == f"overlap: {manual('a')}"


def test_a_change_or_a_delete_ends_what_is_parked(owned: Driver) -> None:
    """(I8) Nothing of it waits for the active run to end."""
    for change in (put_job("A", version=2), c.DeleteJob(now_ms=NOW_MS, job_id="A")):
        owned.put("A", overlap_policy="queue_all") if isinstance(change, c.PutJob) else None
        owned.apply(run_now(f"x{change.__struct_config__.tag}", overlap_policy="queue_all"))
        owned.apply(run_now(f"y{change.__struct_config__.tag}", overlap_policy="queue_all"))
        owned.apply(change)
        assert owned.table("parked") == {}


def test_a_raised_limit_lets_parked_runs_go(owned: Driver) -> None:
    owned.put("A", max_concurrent=1, max_retries=1)
    owned.apply(run_now("a"))
    owned.apply(run_now("b"))
    assert states(owned, manual("b")) == [("queued", True)]
    owned.apply(finish(manual("a"), AttemptOutcome.FAILED))
    owned.put("A", max_concurrent=2, version=2)
    assert owned.table("parked") == {}


def active_runs(model: Model, job_id: str) -> list[Run]:
    """Recounted from the states alone: released, not parked, not final."""
    idle = (*FINAL_STATES, RunState.SCHEDULED)
    return [run for run in model.runs_of(job_id) if run.state not in idle and not run.parked]


def limits_hold(model: Model, before: dict[str, int]) -> None:
    """(C8) No more than the limit are active, unless they were before it was set; a quota that is lowered drains."""
    for job_id, job in model.jobs.items():
        active = active_runs(model, job_id)
        judged = [run for run in active if (run.overlap_policy or job.overlap_policy) != "allow"]
        if job.max_concurrent is not None:
            assert len(active) <= max(job.max_concurrent, before.get(job_id, 0))
        elif limit_of(job, job.overlap_policy) is not None:
            assert len(judged) <= max(1, before.get(job_id, 0))


@pytest.mark.slow
@SLOW
@given(PROPOSALS)
def test_limits_hold_at_every_index_and_places_are_freed_exactly_once(history: list[list[int]]) -> None:
    """(I7, C8) Over policies, limits, retries, cancels and sessions that are lost at any point; the machine does what
    the model does (test_model.py), so its state is looked at through it."""
    model, now_ms = Model(), 10_000_000
    model.apply(beginning(now_ms))
    for values in history:
        before = {job_id: len(active_runs(model, job_id)) for job_id in model.jobs}
        sent, node, now_ms = commands(model, values, now_ms)
        model.apply(sent, node)
        limits_hold(model, before)
