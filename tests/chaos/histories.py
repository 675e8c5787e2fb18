"""A small good history, and the parts that others are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chaos.history import (
    Claimed,
    Effect,
    EffectEnd,
    FinalState,
    Finished,
    Fired,
    History,
    Operation,
    SessionOpened,
    SessionOver,
)
from node.interface import Job, NoopTarget, Run, RunKind, RunState

EPOCH_MS = 1_000_000_000_000
JOB, GONE = "job1", "job2"


def job(job_id: str = JOB, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "job_id": job_id,
        "name": job_id,
        "team": "t",
        "expressions": ("@every 2s",),
        "target": NoopTarget(),
        "created_ms": EPOCH_MS + 500,
        "updated_ms": EPOCH_MS + 500,
        "first_due_ms": EPOCH_MS + 2000,
    }
    return Job(**{**values, **changes})


def run(due_s: int, state: RunState = RunState.SUCCEEDED, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "run_id": f"{due_s}-{JOB}",
        "job_id": JOB,
        "job_version": 1,
        "team": "t",
        "kind": RunKind.SCHEDULED,
        "due_ms": EPOCH_MS + due_s * 1000,
        "release_ms": EPOCH_MS + due_s * 1000,
        "priority": 5,
        "state": state,
        "token": 1,
        "created_ms": EPOCH_MS,
    }
    return Run(**{**values, **changes})


def skip(*, count: int) -> Run:
    return run(10, RunState.SKIPPED, until_ms=EPOCH_MS + 90_000, count=count, reason="misfire")


def state(runs: Sequence[Run], node: str = "n1", **changes: Any) -> FinalState:
    jobs = {JOB: job(), GONE: job(GONE, deleted_ms=EPOCH_MS + 5000, first_due_ms=None)}
    values: dict[str, Any] = {
        "node": node,
        "applied_index": 90,
        "digest": "d",
        "jobs": jobs,
        "next_ms": {},
        "runs": {one.run_id: one for one in runs},
    }
    return FinalState(**{**values, **changes})


def claimed(due_s: int, token: int = 1, **changes: Any) -> Claimed:
    values: dict[str, Any] = {
        "index": due_s,
        "at_s": due_s - 1.0,
        "run_id": f"{due_s}-{JOB}",
        "job_id": JOB,
        "token": token,
        "attempt": token,
        "attempts_max": 3,
        "node": "n1",
        "session": 1,
        "release_ms": EPOCH_MS + due_s * 1000,
    }
    return Claimed(**{**values, **changes})


def effect(due_s: int, token: int = 1, **changes: Any) -> Effect:
    values: dict[str, Any] = {
        "at_s": due_s + 0.1,
        "node": "n1",
        "run_id": f"{due_s}-{JOB}",
        "job_id": JOB,
        "attempt": token,
        "token": token,
    }
    return Effect(**{**values, **changes})


def effect_end(due_s: int, token: int = 1, **changes: Any) -> EffectEnd:
    values: dict[str, Any] = {
        "at_s": due_s + 0.2,
        "node": "n1",
        "run_id": f"{due_s}-{JOB}",
        "token": token,
        "how": "succeeded",
    }
    return EffectEnd(**{**values, **changes})


def finished(due_s: int, token: int = 1, code: str = "ok") -> Finished:
    return Finished(index=due_s + 1, run_id=f"{due_s}-{JOB}", token=token, outcome="succeeded", code=code)


def operation(kind: Any, subject: str) -> Operation:
    return Operation(kind=kind, node="n1", invoked_s=0.4, ended_s=6.0, answer="ok", subject=subject)


DUE_S = (2, 4, 6, 8)
RUNS = [*(run(due_s) for due_s in DUE_S), skip(count=41)]
GOOD = History(
    operations=[operation("create", JOB), operation("create", GONE), operation("delete", GONE)],
    truth=[
        SessionOpened(index=1, at_s=0.5, node="n1", incarnation=1, room=8),
        Fired(index=1, job_id=JOB, runs_ms=[EPOCH_MS + due_s * 1000 for due_s in DUE_S], skips=[]),
        Fired(index=1, job_id=JOB, runs_ms=[], skips=[(EPOCH_MS + 10_000, EPOCH_MS + 90_000, 41, "misfire")]),
        *(entry for due_s in DUE_S for entry in (claimed(due_s), finished(due_s))),
        SessionOver(index=60, at_s=60.0, node="n1", incarnation=1),
    ],
    effects=[effect(due_s) for due_s in DUE_S],
    effect_ends=[effect_end(due_s) for due_s in DUE_S],
    faults=[],
    states=[state(RUNS), state(RUNS, "n2")],
    healed_s=50.0,
    leader_again_s=51.0,
    end_s=95.0,
    epoch_ms=EPOCH_MS,
    caught_up_s=51.0,
)


def with_runs(*runs: Run) -> History:
    return replace(GOOD, states=[state(runs)])


def with_truth(*truth: Any) -> History:
    return replace(GOOD, truth=[*GOOD.truth, *truth])


def with_effects(*effects: Effect) -> History:
    return replace(GOOD, effects=[*GOOD.effects, *effects])
