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
from statemachine.records import AttemptOutcome, Run, RunState, Team
from tests.statemachine.drawn_numbers import HOUR, JOBS, NODES, SECOND, TEAMS, Numbers
from tests.statemachine.model import Model
from tests.statemachine.model_state import HELD
from tests.statemachine.moves_backfills import cancel_backfill, start_backfill, step_backfill
from tests.statemachine.moves_jobs import delete_calendar, delete_job, pause_job, put_calendar, put_job, resume_job


def command(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return numbers.pick(MOVES)(model, numbers, now_ms)


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
            release_ms = next_ms + 100 * count
            runs.append(c.FireRun(due_ms=next_ms, release_ms=release_ms, catch_up=numbers.rarely()))
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


def run_now(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    policy = numbers.pick((None, None, None, "allow", "skip", "queue_one", "queue_all", "replace"))
    args = numbers.pick((None, b"1"))
    job_id, nonce = numbers.pick(JOBS), numbers.pick("xy")
    return c.RunNow(now_ms=now_ms, job_id=job_id, nonce=nonce, args=args, overlap_policy=policy)


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
        outcome=numbers.pick((*outcomes, AttemptOutcome.TIMED_OUT)),
        status=numbers.pick((None, 200)),
        started_ms=now_ms - numbers.pick((0, 0, 0, 55 * SECOND)),
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
    log: dict[str, Any] = numbers.pick(({}, {"log_node": "n2", "log_bytes": 3}))
    return c.Complete(
        now_ms=now_ms, run_id=run_id, token=token, outcome=outcome, detail="x", retry_at_ms=retry_at_ms, **log
    )


def cancel_run(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    run_id, _ = _target(model, numbers, *HELD, RunState.SCHEDULED, RunState.QUEUED, RunState.RETRYING)
    return c.CancelRun(now_ms=now_ms, run_id=run_id, reason=numbers.pick((None, "why")))


def redrive(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    return c.Redrive(now_ms=now_ms, run_id=_target(model, numbers, RunState.DEAD)[0])


def deadline(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    """Of a run that has one, if there is any; now and then it is another's, or wrong."""
    bounded = sorted(run_id for run_id, run in model.runs.items() if (run.start_by_ms or run.end_by_ms) is not None)
    run_id = numbers.pick(bounded or sorted(model.runs) or [f"{5000:012x}-A"])
    run = model.runs.get(run_id)
    times = [5000] if run is None else [run.start_by_ms, run.end_by_ms, run.release_ms]
    return c.Deadline(now_ms=now_ms, run_id=run_id, at_ms=numbers.pick([at_ms for at_ms in times if at_ms is not None]))


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


def report_notification(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    owed = sorted((next_ms, number) for number, (next_ms, _) in model.outbox.items())
    at_ms, number = numbers.pick(owed) if owed and not numbers.rarely() else (now_ms, 0)
    return c.ReportNotification(now_ms=now_ms, at_ms=at_ms, number=number, error=numbers.pick((None, "no")))


def prune_runs(model: Model, numbers: Numbers, now_ms: int) -> c.Command:
    job_id = numbers.pick(JOBS)
    job = model.jobs.get(job_id) or model.deleted.get(job_id)
    runs = sorted(run.run_id for run in model.runs.values() if run.job_id == job_id or numbers.rarely())
    item = c.PruneItem(
        job_id=job_id,
        version=(0 if job is None else job.version) + numbers.rarely(),
        run_ids=tuple(run_id for run_id in runs if numbers.below(4)),
        versions=numbers.pick((True, False)),
        job=numbers.pick((True, False)),
    )
    return c.PruneRuns(now_ms=now_ms, items=(item,))


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
    start_backfill,
    step_backfill,
    step_backfill,
    step_backfill,
    cancel_backfill,
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
    deadline,
    deadline,
    redrive,
    redrive,
    open_session,
    renew_session,
    renew_session,
    report_notification,
    prune_runs,
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
