"""Moves that change what a job is, or a calendar that it names."""

from __future__ import annotations

from typing import Any

from statemachine import commands as c
from statemachine.policy_records import Calendar
from statemachine.records import HttpTarget, Job, NoopTarget, Notify
from tests.statemachine.drawn_numbers import JOBS, SECOND, TEAMS, Numbers
from tests.statemachine.model import Model

NOTIFIES = (
    None,
    Notify(on=("dead", "failed", "recovered", "late", "skipped"), url="http://a", late_s=2),
    Notify(on=("dead", "recovered"), url="http://a", threshold=2, silence_s=3),
    Notify(on=("failed", "skipped"), url="http://a", threshold=3, silence_s=1),
)


def put_job(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    job_id = numbers.pick(JOBS)
    version = model.jobs[job_id].version if job_id in model.jobs else 0
    expected = version if numbers.below(4) else numbers.below(3)
    first_due_ms = (now_ms // SECOND + 1 + numbers.below(3)) * SECOND
    if job_id in model.due and numbers.rarely():
        first_due_ms = model.due[job_id]
    job = Job(
        job_id=job_id,
        name=numbers.pick((job_id, job_id, "a", "b")),
        team=TEAMS[JOBS.index(job_id) % 2],
        target=numbers.pick((NoopTarget(), HttpTarget(url="http://a/"), HttpTarget(url="http://a/x"))),
        run_on=numbers.pick(({}, {}, {}, {"zone": "eu"}, {"zone": "eu", "disk": "ssd"})),
        priority=numbers.pick((5, 9)),
        max_retries=numbers.below(3),
        overlap_policy=numbers.pick(("allow", "allow", "skip", "queue_one", "queue_all", "replace")),
        start_deadline_s=numbers.pick((None, None, None, 1.5, 20)),
        run_timeout_s=numbers.pick((None, None, None, 2.5, 40)),
        max_concurrent=numbers.pick((None, None, None, 1, 2)),
        misfire_policy=numbers.pick(("skip", "skip", "skip", "catch_up")),
        notify=numbers.pick(NOTIFIES),
        pause_on_failure=numbers.pick((None, 1, 2)),
        after_completion=numbers.pick(("keep", "delete")),
        max_runs=numbers.pick((None, None, 1, 3)),
        exclude_calendars=numbers.pick(((), (), ("x",), ("y", "x"))) if numbers.rarely() else (),
        version=expected + 1,
        created_ms=now_ms,
        updated_ms=now_ms,
        first_due_ms=None if numbers.rarely() else first_due_ms,
    )
    return c.PutJob(
        now_ms=now_ms,
        job=job,
        expected_version=expected,
        skip=_passed_over(model, numbers, job_id, now_ms),
        **_key(numbers),
    )


def _key(numbers: Numbers) -> dict[str, Any]:
    return {
        "idempotency_key": numbers.pick((None, None, "k", "l")),
        "body_digest": numbers.pick((b"one", b"two")),
    }


def _passed_over(model: Model, numbers: Numbers, job_id: str, now_ms: int) -> c.FireSkip | None:
    """The ticks of every second, from the first that has no record, that are past."""
    job = model.jobs.get(job_id)
    if job is None or numbers.rarely():
        return None
    from_ms = model.due.get(job_id) if job.paused_ms is None else job.first_due_ms
    until_ms = job.paused_ms or now_ms
    if from_ms is None or from_ms >= until_ms:
        return None
    count = 1 + (until_ms - from_ms) // SECOND
    return c.FireSkip(from_ms=from_ms, until_ms=from_ms + (count - 1) * SECOND, count=count, reason="superseded")


def delete_job(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.DeleteJob(now_ms=now_ms, job_id=numbers.pick(JOBS), expected_version=numbers.pick((None, None, 1)))


def pause_job(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.PauseJob(
        now_ms=now_ms,
        job_id=numbers.pick(JOBS),
        reason=numbers.pick((None, "why")),
        expected_version=numbers.pick((None, None, 1)),
        **_key(numbers),
    )


def resume_job(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    """From now on, or from when it was paused; now and then with a hole between."""
    paused = sorted(job_id for job_id, job in model.jobs.items() if job.paused_ms is not None)
    job_id = numbers.pick(paused or JOBS)
    job = model.jobs.get(job_id)
    first_ms = None if job is None or numbers.rarely() else job.first_due_ms
    first_due_ms: int | None = (now_ms // SECOND + 1) * SECOND
    skip = None
    if first_ms is not None and first_ms < now_ms:
        count = 1 + (now_ms - first_ms) // SECOND
        skip = c.FireSkip(from_ms=first_ms, until_ms=first_ms + (count - 1) * SECOND, count=count, reason="paused")
        if numbers.below(2):
            skip, first_due_ms = None, first_ms - SECOND * numbers.below(2)
    return c.ResumeJob(
        now_ms=now_ms,
        job_id=job_id,
        expected_version=(1 if job is None else job.version) + (1 if numbers.rarely() else 0),
        first_due_ms=None if numbers.rarely() else first_due_ms,
        skip=skip,
        **_key(numbers),
    )


def put_calendar(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    calendar = Calendar(name=numbers.pick("xy"), spans=numbers.pick(((), ((1, 2), (4, 4)))))
    return c.PutCalendar(now_ms=now_ms, calendar=calendar, expected_version=numbers.pick((None, 0, 1)))


def delete_calendar(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.DeleteCalendar(now_ms=now_ms, name=numbers.pick("xy"), expected_version=numbers.pick((None, None, 1)))
