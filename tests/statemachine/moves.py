"""Random but sensible proposals: small numbers that are made into commands by looking at where the model stands.

A mostly valid history goes deep; a part of the commands is wrong on purpose (an old token, a stale epoch, a tick fired
twice), because refusals are half of the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from statemachine import commands as c
from statemachine.keys import bucket_of
from statemachine.records import AttemptOutcome, Calendar, HttpTarget, Job, NoopTarget, Run, RunState, Team
from tests.statemachine.model import Model
from tests.statemachine.model_state import HELD

JOBS = tuple("ABCDEFGH")
TEAMS = ("t", "u")
NODES = ("n1", "n2", "n3")
SECOND = 1000
HOUR = 3600 * SECOND


class Numbers:
    """A supply of small numbers that decide what is done."""

    def __init__(self, values: list[int]) -> None:
        self._values = iter(values)

    def below(self, limit: int) -> int:
        return next(self._values, 0) % limit

    def pick(self, choices: Any) -> Any:
        choices = list(choices)
        return choices[self.below(len(choices))]

    def rarely(self) -> bool:
        return self.below(8) == 7


def command(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return numbers.pick(MOVES)(model, numbers, now_ms)


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
        target=numbers.pick((NoopTarget(), NoopTarget(), HttpTarget(url="http://a/"))),
        run_on=numbers.pick(({}, {}, {}, {"zone": "eu"}, {"zone": "eu", "disk": "ssd"})),
        priority=numbers.pick((5, 9)),
        max_retries=numbers.below(3),
        overlap_policy=numbers.pick(("allow", "allow", "skip")),
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


def delete_job(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.DeleteJob(now_ms=now_ms, job_id=numbers.pick(JOBS), expected_version=numbers.pick((None, None, 1)))


def put_team(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    name = numbers.pick(TEAMS)
    team = Team(
        team=name,
        max_jobs=numbers.pick((None, None, 2, 3)),
        max_concurrent=numbers.pick((None, None, 0, 1, 2, 3)),
        weight=numbers.pick((1, 1, 2, 3)),
    )
    return c.PutTeam(now_ms=now_ms, team=team, expected_version=_version(model, numbers, name))


def delete_team(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    name = numbers.pick(TEAMS)
    return c.DeleteTeam(now_ms=now_ms, team=name, expected_version=_version(model, numbers, name))


def _version(model: Model, numbers: Numbers, team: str) -> int | None:
    version = model.teams[team].version if team in model.teams else 0
    return numbers.pick((None, version, version, version + 1))


def fire(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    items = [_item(model, numbers) for _ in range(1 + numbers.below(3))]
    owners = [model.owner_of(item.job_id)[0] for item in items]
    node = owners[0] if owners[0] is not None and not numbers.rarely() else numbers.pick(NODES)
    return c.Fire(now_ms=now_ms, node=node, items=tuple(items))


def _item(model: Model, numbers: Numbers) -> c.FireItem:
    job_id = numbers.pick(sorted(model.due) or JOBS)
    expected_ms = model.due.get(job_id, 5 * SECOND) - (SECOND if numbers.rarely() else 0)
    version = model.jobs[job_id].version if job_id in model.jobs else 1
    runs, skips, next_ms = [], [], expected_ms
    for _ in range(1 + numbers.below(3)):
        count = numbers.below(4)
        if count == 3:
            reason = numbers.pick(("misfire", "superseded", "deadline: late"))
            skips.append(c.FireSkip(from_ms=next_ms, until_ms=next_ms + SECOND, count=2, reason=reason))
            next_ms += 2 * SECOND
        else:
            runs.append(c.FireRun(due_ms=next_ms, release_ms=next_ms + 100 * count))
            next_ms += SECOND
    return c.FireItem(
        job_id=job_id,
        expected_ms=expected_ms,
        version=version + (1 if numbers.rarely() else 0),
        epoch=model.owner_of(job_id)[1] + (1 if numbers.rarely() else 0),
        runs=tuple(runs),
        skips=tuple(skips),
        next_ms=None if numbers.rarely() else next_ms,
    )


def put_calendar(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    calendar = Calendar(name=numbers.pick("xy"), spans=numbers.pick(((), ((1, 2), (4, 4)))))
    return c.PutCalendar(now_ms=now_ms, calendar=calendar, expected_version=numbers.pick((None, 0, 1)))


def delete_calendar(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.DeleteCalendar(now_ms=now_ms, name=numbers.pick("xy"), expected_version=numbers.pick((None, None, 1)))


def run_now(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.RunNow(now_ms=now_ms, job_id=numbers.pick(JOBS), nonce=numbers.pick("xy"), args=numbers.pick((None, b"1")))


def release(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    states = (RunState.SCHEDULED, RunState.RETRYING) if numbers.below(3) else (RunState.RUNNING,)
    run_id, token = _target(model, numbers, *states)
    return c.Release(now_ms=now_ms, run_id=run_id, token=token)


def start(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, token = _target(model, numbers, *HELD)
    return c.Start(now_ms=now_ms, run_id=run_id, token=token, started_ms=now_ms)


def finish(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, token = _target(model, numbers, *HELD)
    outcomes = (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.CANCELLED)
    return c.Finish(
        now_ms=now_ms,
        run_id=run_id,
        token=token,
        outcome=numbers.pick(outcomes),
        status=numbers.pick((None, 200)),
        started_ms=now_ms,
        finished_ms=now_ms,
        retry_at_ms=now_ms + SECOND * numbers.below(3),
        log_bytes=numbers.pick((None, 7)),
    )


def withdraw(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, token = _target(model, numbers, RunState.CLAIMED)
    return c.Withdraw(now_ms=now_ms, run_id=run_id, token=token, reason=numbers.pick((None, "superseded")))


def detach(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, token = _target(model, numbers, *HELD)
    return c.Detach(
        now_ms=now_ms,
        run_id=run_id,
        token=token,
        started_ms=now_ms,
        left_ms=SECOND * (1 + numbers.below(60)),
        heartbeat_ms=SECOND * (1 + numbers.below(10)),
        backoff_ms=SECOND * numbers.below(3),
        log_bytes=numbers.pick((None, 7)),
    )


def heartbeat(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, token = _target(model, numbers, RunState.RUNNING)
    return c.Heartbeat(now_ms=now_ms, run_id=run_id, token=token, progress=numbers.pick((None, "half")))


def complete(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    over = (RunState.SUCCEEDED, RunState.RETRYING, RunState.DEAD)
    run_id, token = _target(model, numbers, *(HELD if numbers.below(4) else over))
    outcome = numbers.pick((AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED))
    retry_at_ms = now_ms + SECOND * numbers.below(3)
    return c.Complete(now_ms=now_ms, run_id=run_id, token=token, outcome=outcome, detail="x", retry_at_ms=retry_at_ms)


def cancel_run(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, _ = _target(model, numbers, *HELD, RunState.SCHEDULED, RunState.QUEUED, RunState.RETRYING)
    return c.CancelRun(now_ms=now_ms, run_id=run_id, reason=numbers.pick((None, "why")))


def _target(model: Model, numbers: Numbers, *states: RunState) -> tuple[str, int]:
    """A run in one of the states and its token; now and then another run, or an old token."""
    fitting = sorted(run_id for run_id, run in model.runs.items() if run.state in states)
    if not fitting or numbers.rarely():
        fitting = sorted(model.runs) or [f"{5000:012x}-A"]
    run_id = numbers.pick(fitting)
    run: Run | None = model.runs.get(run_id)
    token = 0 if run is None else run.token
    return run_id, max(0, token - 1) if numbers.rarely() else token


def open_session(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    node = numbers.pick(NODES)
    last = model.sessions[node].incarnation if node in model.sessions else 0
    return c.OpenSession(
        now_ms=now_ms,
        node=node,
        incarnation=last + (0 if numbers.rarely() else 1),
        http="h",
        raft="r",
        slots=numbers.below(4),
        ahead=numbers.below(4),
        version="v",
        tzdata="z",
        kind_slots=numbers.pick(({}, {}, {"http": 1}, {"http": 0, "container": 3}, {"noop": 1})),
        tags=numbers.pick(({}, {"zone": "eu"}, {"zone": "us", "disk": "ssd"}, {"zone": "eu", "disk": "ssd"})),
        takes_buckets=not numbers.rarely(),
    )


def renew_session(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    node = numbers.pick(NODES)
    incarnation, renewal = _standing(model, node)
    return c.RenewSession(
        now_ms=now_ms,
        node=node,
        incarnation=max(0, incarnation + numbers.pick((0, 0, 0, 0, -1, 1))),
        renewal=max(0, renewal + numbers.pick((1, 1, 1, 0, -1))),
        draining=numbers.rarely(),
    )


def suspect_session(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    node = numbers.pick(NODES)
    incarnation, renewal = _standing(model, node)
    return c.SuspectSession(
        now_ms=now_ms,
        node=node,
        incarnation=incarnation + (1 if numbers.rarely() else 0),
        renewal=max(0, renewal - (1 if numbers.rarely() else 0)),
    )


def expire_session(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    node = numbers.pick(NODES)
    incarnation, renewal = _standing(model, node)
    if model.ended and numbers.below(2):
        node, incarnation = numbers.pick(sorted(model.ended))
    return c.ExpireSession(
        now_ms=now_ms,
        node=node,
        incarnation=incarnation + (1 if numbers.rarely() else 0),
        renewal=max(0, renewal - (1 if numbers.rarely() else 0)),
    )


def _standing(model: Model, node: str) -> tuple[int, int]:
    session = model.sessions.get(node)
    return (0, 0) if session is None else (session.incarnation, session.renewal)


def assign_buckets(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    node = numbers.pick((*NODES, *NODES, None))
    moves = []
    for job_id in JOBS:
        if numbers.below(2):
            epoch = model.owner_of(job_id)[1] + (1 if numbers.rarely() else 0)
            moves.append(c.BucketMove(bucket=bucket_of(job_id), expected_epoch=epoch, node=node))
    return c.AssignBuckets(now_ms=now_ms, moves=tuple(moves))


MOVES: tuple[Callable[[Model, Numbers, int], c.Command], ...] = (
    put_job,
    put_job,
    put_job,
    delete_job,
    put_team,
    delete_team,
    put_calendar,
    delete_calendar,
    pause_job,
    pause_job,
    resume_job,
    resume_job,
    fire,
    fire,
    fire,
    fire,
    fire,
    fire,
    run_now,
    release,
    release,
    start,
    finish,
    finish,
    finish,
    withdraw,
    detach,
    detach,
    heartbeat,
    complete,
    complete,
    cancel_run,
    open_session,
    renew_session,
    suspect_session,
    expire_session,
    assign_buckets,
)


def beginning(now_ms: int) -> list[c.Command]:
    """Two nodes with a little room, of which the first owns every bucket that matters."""
    room = {"http": "h", "raft": "r", "slots": 2, "ahead": 2, "version": "v", "tzdata": "z"}
    moves = tuple(c.BucketMove(bucket=bucket_of(job_id), expected_epoch=0, node="n1") for job_id in JOBS)
    return [
        *(c.OpenSession(now_ms=now_ms, node=node, incarnation=1, **room) for node in NODES[:2]),
        c.AssignBuckets(now_ms=now_ms, moves=moves),
    ]


PROPOSALS = st.lists(st.lists(st.integers(0, 255), min_size=4, max_size=60), min_size=1, max_size=60)
"""A history: for each proposal, the numbers that decide its commands."""


def commands(model: Model, values: list[int], now_ms: int) -> tuple[list[c.Command], str, int]:
    """One to three commands of a proposal, whose it is, and the time at which it is made. Its clock may be wrong."""
    numbers = Numbers(values)
    now_ms += (0, 10, 100, 500, SECOND, 3 * SECOND, SECOND, 30 * SECOND)[numbers.below(8)]
    node = numbers.pick(NODES)
    wrong_ms = numbers.pick((-HOUR, -20 * SECOND, -2 * SECOND, 2 * SECOND, 20 * SECOND, HOUR)) * numbers.rarely()
    return [command(model, numbers, now_ms + wrong_ms) for _ in range(1 + numbers.below(3))], node, now_ms
