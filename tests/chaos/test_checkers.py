"""Each checker passes a good history and catches the bad ones that it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.check_claims import effects_have_claims, tokens_rise
from chaos.check_clocks import nothing_given_up_early, nothing_starts_early
from chaos.check_lateness import lateness_of, lateness_parts, rarely_late
from chaos.check_state import (
    nothing_acknowledged_lost,
    nothing_broke,
    nothing_rests,
    replicas_agree,
    used_up_before_dead,
)
from chaos.check_ticks import every_tick_accounted, one_run_a_tick
from chaos.history import Fault, Fired, History, SessionOpened, SessionOver
from chaos.verdict import Checker, violations_of
from node.interface import RunState
from tests.chaos.histories import (
    EPOCH_MS,
    GONE,
    GOOD,
    JOB,
    RUNS,
    claimed,
    effect,
    finished,
    job,
    operation,
    run,
    skip,
    state,
    with_effects,
    with_runs,
    with_truth,
)

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
        "given up early",
        nothing_given_up_early,
        with_truth(
            Fired(index=9, at_s=143.9, job_id=JOB, runs_ms=[], skips=[(EPOCH_MS, EPOCH_MS + 90_000, 46, "misfire")])
        ),
        "given up 6.1 s before it was overdue",
    ),
    ("early", nothing_starts_early, replace(GOOD, truth=[claimed(70)], effects=[effect(70, at_s=63.9)]), "6.1 s early"),
    ("late", rarely_late, replace(with_truth(claimed(70)), effects=[effect(70, at_s=72.5)]), "p99 of 1 starts"),
]


def test_a_good_history_passes() -> None:
    assert violations_of(GOOD) == []


@pytest.mark.parametrize(("checker", "history", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, history: History, says: str) -> None:
    found = list(checker(history))
    assert found
    assert any(says in str(violation) for violation in found), found


def test_what_is_excused_is_not_caught() -> None:
    """A result that was refused, a run that had no time yet."""
    assert list(tokens_rise(with_truth(claimed(8, 2), finished(8, 1, "fenced")))) == []
    assert list(nothing_rests(with_runs(run(90, RunState.CLAIMED)))) == []
    before_the_end = replace(GOOD, states=[state([*RUNS[:-1]])], end_s=19.0)
    assert list(every_tick_accounted(before_the_end)) == []


def test_a_lone_wrong_clock_is_excused_until_three_nodes_have_sessions() -> None:
    given_up = Fired(index=9, at_s=143.9, job_id=JOB, runs_ms=[], skips=[(EPOCH_MS, EPOCH_MS + 90_000, 46, "misfire")])

    def opened(at_s: float, *nodes: str) -> list[SessionOpened]:
        return [SessionOpened(index=1, at_s=at_s, node=node, incarnation=1) for node in nodes]

    def over(at_s: float, *nodes: str) -> list[SessionOver]:
        return [SessionOver(index=5, at_s=at_s, node=node, incarnation=1) for node in nodes]

    three = opened(1.0, "n1", "n2", "n3")
    for truth, excused in (
        (three, False),
        ([*three, *over(110.0, "n1")], False),
        ([*three, *over(110.0, "n1", "n2")], True),
        ([*three, *over(120.0, "n1", "n2")], False),
        ([*three, *over(120.0, "n1", "n2", "n3"), *opened(121.0, "n3")], True),
        ([*three, *over(110.0, "n1", "n2"), *opened(140.5, "n1")], True),
        ([*three, *over(110.0, "n1", "n2"), *opened(140.5, "n1", "n2")], False),
    ):
        history = replace(GOOD, truth=[*truth, given_up], end_s=200.0)
        assert (list(nothing_given_up_early(history)) == []) is excused, truth


def test_lateness_is_that_of_first_attempts() -> None:
    history = with_effects(effect(8, 2, at_s=30.0), effect(8, at_s=9.5))
    late = lateness_of(history)
    assert (late.count, late.max_s) == (5, 1.5)
    assert lateness_of(history, from_s=7.0).count == 2
    assert lateness_of(replace(history, effects=[])).count == 0


def test_lateness_is_told_by_when_a_run_was_released() -> None:
    faults = [Fault(at_s=5.0, what="kill n1")]
    history = replace(with_truth(claimed(70)), faults=faults, effects=[*GOOD.effects, effect(70, at_s=70.5)])
    parts = lateness_parts(history)
    assert (parts.overall.count, parts.in_faults.count, parts.recovered.count) == (5, 2, 1)
    assert parts.recovered.max_s == 0.5
