"""Each checker passes a good history and catches the bad ones that it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaos.check_claims import effects_have_claims, tokens_rise
from chaos.check_lateness import lateness_of, rarely_late
from chaos.check_sessions import deleted_starts_nothing, lapsed_starts_nothing
from chaos.check_state import (
    leader_soon,
    nothing_acknowledged_lost,
    nothing_broke,
    nothing_rests,
    replicas_agree,
    used_up_before_dead,
)
from chaos.check_ticks import every_tick_accounted, one_run_a_tick
from chaos.history import (
    Claimed,
    Effect,
    FinalState,
    Finished,
    Fired,
    History,
    Operation,
    SessionOver,
)
from chaos.verdict import Checker, violations_of
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


def finished(due_s: int, token: int = 1, code: str = "ok") -> Finished:
    return Finished(index=due_s + 1, run_id=f"{due_s}-{JOB}", token=token, outcome="succeeded", code=code)


def operation(kind: Any, subject: str) -> Operation:
    return Operation(kind=kind, node="n1", invoked_s=0.4, ended_s=6.0, answer="ok", subject=subject)


DUE_S = (2, 4, 6, 8)
RUNS = [*(run(due_s) for due_s in DUE_S), skip(count=41)]
GOOD = History(
    operations=[operation("create", JOB), operation("create", GONE), operation("delete", GONE)],
    truth=[
        Fired(index=1, job_id=JOB, runs_ms=[EPOCH_MS + due_s * 1000 for due_s in DUE_S], skips=[]),
        Fired(index=1, job_id=JOB, runs_ms=[], skips=[(EPOCH_MS + 10_000, EPOCH_MS + 90_000, 41, "misfire")]),
        *(entry for due_s in DUE_S for entry in (claimed(due_s), finished(due_s))),
        SessionOver(index=60, at_s=60.0, node="n1", incarnation=1),
    ],
    effects=[effect(due_s) for due_s in DUE_S],
    effect_ends=[],
    faults=[],
    states=[state(RUNS), state(RUNS, "n2")],
    healed_s=50.0,
    leader_again_s=51.0,
    end_s=95.0,
    epoch_ms=EPOCH_MS,
)


def with_runs(*runs: Run) -> History:
    return replace(GOOD, states=[state(runs)])


def with_truth(*truth: Any) -> History:
    return replace(GOOD, truth=[*GOOD.truth, *truth])


def with_effects(*effects: Effect) -> History:
    return replace(GOOD, effects=[*GOOD.effects, *effects])


BAD: list[tuple[str, Checker, History, str]] = [
    ("uncaught error", nothing_broke, replace(GOOD, broken=["n1: KeyError"]), "KeyError"),
    (
        "fired twice",
        one_run_a_tick,
        with_truth(Fired(index=9, job_id=JOB, runs_ms=[EPOCH_MS + 4000], skips=[])),
        "fired 2 times",
    ),
    (
        "fired and skipped",
        one_run_a_tick,
        with_truth(Fired(index=9, job_id=JOB, runs_ms=[], skips=[(EPOCH_MS + 8000, EPOCH_MS + 8000, 1, "misfire")])),
        "is skipped",
    ),
    ("tick lost", every_tick_accounted, with_runs(*RUNS[:1], *RUNS[2:]), "neither run nor skip"),
    ("last ticks lost", every_tick_accounted, with_runs(*RUNS[:-1]), "neither run nor skip"),
    ("tick invented", every_tick_accounted, with_runs(*RUNS, run(5)), "is no tick"),
    ("tick in a skip too", every_tick_accounted, with_runs(*RUNS, run(12)), "accounted for 2 times"),
    ("wrong count of a skip", every_tick_accounted, with_runs(*RUNS[:-1], skip(count=40)), "is no tick"),
    (
        "first tick too late",
        every_tick_accounted,
        replace(GOOD, states=[state(RUNS, jobs={JOB: job(first_due_ms=EPOCH_MS + 20_000)})]),
        "first tick",
    ),
    ("token stays", tokens_rise, with_truth(claimed(8, 1)), "token 1 after 1"),
    ("old token counts", tokens_rise, with_truth(claimed(8, 2), finished(8, 1)), "a result of token 1 counted"),
    ("result counts twice", tokens_rise, with_truth(finished(8, 1)), "two results"),
    ("effect without claim", effects_have_claims, with_effects(effect(8, 2)), "without a claim"),
    ("effect on another node", effects_have_claims, with_effects(effect(8, node="n2")), "without a claim"),
    ("started twice", effects_have_claims, with_effects(effect(8)), "started twice"),
    (
        "too many attempts",
        effects_have_claims,
        replace(with_truth(claimed(8, 4)), effects=[effect(8, 4)]),
        "attempt 4 of 3",
    ),
    ("stuck", nothing_rests, with_runs(*RUNS, run(7, RunState.CLAIMED)), "is claimed"),
    ("dead too soon", used_up_before_dead, with_runs(run(7, RunState.DEAD, attempts_max=3)), "0 of 3 attempts"),
    ("job lost", nothing_acknowledged_lost, replace(GOOD, states=[state(RUNS, jobs={})]), "is lost"),
    (
        "delete lost",
        nothing_acknowledged_lost,
        replace(GOOD, states=[state(RUNS, jobs={JOB: job(), GONE: job(GONE)})]),
        "delete job2",
    ),
    (
        "run lost",
        nothing_acknowledged_lost,
        replace(GOOD, operations=[operation("run_now", "manual run")]),
        "run_now manual run",
    ),
    ("replicas differ", replicas_agree, replace(GOOD, states=[state(RUNS), state(RUNS, digest="e")]), "2 different"),
    (
        "left behind",
        replicas_agree,
        replace(GOOD, states=[state(RUNS), state(RUNS, applied_index=10)]),
        "left behind",
    ),
    (
        "started after its delete",
        deleted_starts_nothing,
        with_effects(effect(8, job_id=GONE)),
        "was deleted by",
    ),
    ("started after the lapse", lapsed_starts_nothing, with_effects(effect(8, at_s=60.5)), "its session ended"),
    ("late", rarely_late, replace(with_truth(claimed(70)), effects=[effect(70, at_s=72.5)]), "p99 of 1 starts"),
    ("no leader", leader_soon, replace(GOOD, leader_again_s=None), "None"),
    ("a leader too late", leader_soon, replace(GOOD, leader_again_s=58.0), "58"),
]


def test_a_good_history_passes() -> None:
    assert violations_of(GOOD) == []


@pytest.mark.parametrize(("checker", "history", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, history: History, says: str) -> None:
    found = list(checker(history))
    assert found
    assert any(says in str(violation) for violation in found), found


def test_what_is_excused_is_not_caught() -> None:
    """A retry of a deleted job, a result that was refused, a run that had no time yet."""
    retry = with_effects(effect(8, 2, job_id=GONE))
    assert list(deleted_starts_nothing(retry)) == []
    assert list(tokens_rise(with_truth(claimed(8, 2), finished(8, 1, "fenced")))) == []
    assert list(nothing_rests(with_runs(run(90, RunState.CLAIMED)))) == []
    before_the_end = replace(GOOD, states=[state([*RUNS[:-1]])], end_s=19.0)
    assert list(every_tick_accounted(before_the_end)) == []


def test_lateness_is_that_of_first_attempts() -> None:
    history = with_effects(effect(8, 2, at_s=30.0), effect(8, at_s=9.5))
    late = lateness_of(history)
    assert (late.count, late.max_s) == (5, 1.5)
    assert lateness_of(history, from_s=7.0).count == 2
    assert lateness_of(replace(history, effects=[])).count == 0
