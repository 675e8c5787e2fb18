"""Pause and resume: what they promise (M4: pause, resume; I8), beside the transcript."""

from __future__ import annotations

from statemachine.commands import DeleteJob, PauseJob, PutJob, Release, ResumeJob, RunNow, Withdraw
from statemachine.keys import run_id_of
from statemachine.limits import JOB_VERSIONS_KEPT_MAX
from statemachine.records import RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver, a_job, fire, skipped, tick

SECOND = 1000
YEAR_MS = 365 * 24 * 3600 * SECOND


def pause(driver: Driver, **fields: object) -> object:
    return driver.apply(PauseJob(**({"now_ms": NOW_MS, "job_id": "A"} | fields))).reply


def test_nothing_that_was_made_before_a_pause_starts_after_it(owned: Driver) -> None:
    """I8 (M4): whatever waits is skipped when it would be handed out, whatever is held is withdrawn; neither starts."""
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    held = owned.run(run_id_of("A", NOW_MS + SECOND))
    assert held.state is RunState.CLAIMED
    pause(owned)
    owned.apply(Withdraw(now_ms=NOW_MS, run_id=held.run_id, token=held.token, reason="superseded"))
    assert (owned.run(held.run_id).state, owned.run(held.run_id).reason) == (RunState.SKIPPED, "paused")
    assert owned.table("due") == {} and owned.table("waiting") == {} and owned.table("claims") == {}


def test_a_run_that_waits_for_its_time_is_recorded_as_paused_then(owned: Driver) -> None:
    owned.put("A", overlap_policy="skip")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    pause(owned)
    run_id = run_id_of("A", NOW_MS + SECOND)
    owned.apply(Release(now_ms=NOW_MS + SECOND, run_id=run_id, token=0))
    assert owned.run(run_id).reason == "paused"


def test_what_a_pause_ended_is_called_paused_after_a_resume_too_while_that_is_known(owned: Driver) -> None:
    owned.put("A", overlap_policy="skip")
    owned.apply(fire(tick(NOW_MS + SECOND, None, runs=(*tick(NOW_MS + SECOND).runs, *tick(NOW_MS + 2 * SECOND).runs))))
    pause(owned)
    owned.apply(ResumeJob(now_ms=NOW_MS, job_id="A", expected_version=2, first_due_ms=None))
    first, second = (run_id_of("A", NOW_MS + number * SECOND) for number in (1, 2))
    owned.apply(Release(now_ms=NOW_MS + SECOND, run_id=first, token=0))
    for version in range(4, 4 + JOB_VERSIONS_KEPT_MAX):
        owned.apply(PutJob(now_ms=NOW_MS, job=a_job(version=version), expected_version=version - 1))
    owned.apply(Release(now_ms=NOW_MS + SECOND, run_id=second, token=0))
    assert (owned.run(first).reason, owned.run(second).reason) == ("paused", "superseded")


def test_a_year_of_seconds_is_one_record_however_it_is_resumed(owned: Driver) -> None:
    """A per-second job paused for a year resumes with one decision and O(1) records."""
    owned.put("A")
    pause(owned)
    before = len(owned.table("runs"))
    skip = skipped(NOW_MS + SECOND, NOW_MS + YEAR_MS, YEAR_MS // SECOND, "paused")
    now_ms = NOW_MS + YEAR_MS
    for renewal in (1, 2):
        owned.renew(renewal=renewal, now_ms=now_ms)
    resume = ResumeJob(now_ms=now_ms, job_id="A", expected_version=2, first_due_ms=now_ms + SECOND, skip=skip)
    assert owned.apply(resume).reply.code == "ok"
    assert len(owned.table("runs")) == before + 1
    assert owned.run(run_id_of("A", NOW_MS + SECOND)).count == YEAR_MS // SECOND


def test_a_job_without_ticks_to_come_is_paused_and_resumed_all_the_same(owned: Driver) -> None:
    owned.put("A", first_due_ms=None)
    pause(owned)
    reply = owned.apply(ResumeJob(now_ms=NOW_MS, job_id="A", expected_version=2, first_due_ms=None)).reply
    assert (reply.code, reply.next_ms) == ("ok", None)


def test_the_last_ticks_of_a_schedule_may_all_fall_into_a_pause(owned: Driver) -> None:
    owned.put("A", first_due_ms=NOW_MS - SECOND)
    pause(owned)
    skip = skipped(NOW_MS - SECOND, NOW_MS, 2, "paused")
    reply = owned.apply(ResumeJob(now_ms=NOW_MS, job_id="A", expected_version=2, first_due_ms=None, skip=skip)).reply
    assert (reply.code, reply.next_ms) == ("ok", None)
    assert owned.table("due") == {}


def test_where_a_jobs_records_end_is_known_while_it_is_paused_too(owned: Driver) -> None:
    owned.put("A")
    for version in (1, 2):
        with owned.snapshot() as snapshot:
            assert snapshot.first_unrecorded_ms("A") == NOW_MS + SECOND
            assert snapshot.next_run_ms("A") == (NOW_MS + SECOND if version == 1 else None)
        pause(owned)
    owned.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    with owned.snapshot() as snapshot:
        assert snapshot.first_unrecorded_ms("A") is None
        assert snapshot.first_unrecorded_ms("B") is None


def test_the_claims_of_a_job_are_told_from_those_of_its_likes(owned: Driver) -> None:
    """`foo` is not `foo_bar`, nor the `o` in it; another job's nonce may look like this one's id."""
    for job_id in ("o", "foo", "foo_bar"):
        owned.put(job_id)
    owned.apply(*(RunNow(now_ms=NOW_MS, job_id=job_id, nonce="foo") for job_id in ("o", "foo", "foo_bar")))
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND, job_id="foo")))
    with owned.snapshot() as snapshot:
        found = list(snapshot.claims_of_job("foo"))
    assert len(found) == 4
    mine = {run_id_of("foo", NOW_MS, RunKind.MANUAL, "foo"), run_id_of("foo", NOW_MS + SECOND)}
    assert {run_id for run_id in found if run_id is not None} == mine


def test_a_run_of_this_very_definition_that_is_called_superseded_ends(owned: Driver) -> None:
    """A holder that could not find the definition says so; nobody else counts on that run."""
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    run_id = run_id_of("A", NOW_MS + SECOND)
    owned.apply(Withdraw(now_ms=NOW_MS, run_id=run_id, token=1, reason="superseded"))
    assert (owned.run(run_id).state, owned.run(run_id).reason) == (RunState.SKIPPED, "superseded")


def test_a_pause_and_a_resume_drop_a_backlog(owned: Driver) -> None:
    """cronicle#263: no way to drop a backlog. What waited for room when the job was paused does not run when it is
    resumed from now, however much it was; it costs nothing until there is room for it."""
    owned.open("n1", 2, slots=0, ahead=0)
    owned.put("A")
    due = [NOW_MS + (1 + number) * SECOND for number in range(60)]
    runs = tuple(run for due_ms in due for run in tick(due_ms).runs)
    owned.apply(fire(tick(due[0], due[-1] + SECOND, runs=runs)))
    pause(owned)
    resume = ResumeJob(now_ms=NOW_MS, job_id="A", expected_version=2, first_due_ms=due[-1] + SECOND)
    assert owned.apply(resume).reply.code == "ok"
    assert len(owned.table("waiting")) == 60
    owned.open("n1", 3, slots=1, ahead=1)
    assert {owned.run(run_id_of("A", due_ms)).reason for due_ms in due} == {"paused"}
    assert owned.table("waiting") == {} and owned.table("claims") == {}
