"""The table of moves, its diagram and its prose say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from statemachine import transitions
from statemachine.lifecycle import allows, change, create
from statemachine.records import FINAL_STATES, Run, RunKind, RunState
from statemachine.transitions import BIRTHS, TRANSITIONS, Move, diagram
from statemachine.work import Work
from tests.statemachine.driver import Driver

DESIGN = Path(transitions.__file__).parent / "DESIGN.md"


def a_run(state: RunState, **fields: object) -> Run:
    usual = {
        "run_id": "000000001388-A",
        "job_id": "A",
        "job_version": 1,
        "team": "t",
        "kind": RunKind.SCHEDULED,
        "due_ms": 5000,
        "release_ms": 5000,
        "priority": 5,
        "created_ms": 1,
        "retry_at_ms": 6000,
        "reason": "misfire",
        "node": "n1",
        "session": 1,
    }
    return Run(state=state, **(usual | fields))  # type: ignore[arg-type]


def test_the_design_page_shows_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in DESIGN.read_text(), "paste transitions.diagram() into DESIGN.md"


def test_every_state_is_explained() -> None:
    explained = transitions.__doc__ or ""
    for state in RunState:
        assert re.search(rf"^{state}\b|\b{state}[, ].*final|, {state} are final", explained, re.MULTILINE), state


def test_every_state_can_be_reached_and_every_state_that_is_not_final_can_end() -> None:
    reached = set(BIRTHS)
    while grown := {end for (state, _), end in TRANSITIONS.items() if state in reached} - reached:
        reached |= grown
    assert reached == set(RunState)
    ending = set(FINAL_STATES)
    while grown := {state for (state, _), end in TRANSITIONS.items() if end in ending} - ending:
        ending |= grown
    assert ending == set(RunState)


def test_a_final_state_is_left_only_by_a_new_definition_or_by_somebodys_wish() -> None:
    left = {(state, move) for state, move in TRANSITIONS if state in FINAL_STATES}
    assert left == {(RunState.SKIPPED, Move.REARM), (RunState.DEAD, Move.REDRIVE)}


def test_what_running_can_end_in_claimed_can_too() -> None:
    """`running` is a report, not a gate: short runs never make it."""
    ends = {state: {} for state in (RunState.CLAIMED, RunState.RUNNING)}
    for (state, move), end in TRANSITIONS.items():
        if state in ends and end is not RunState.RUNNING:
            ends[state][move] = end
    assert ends[RunState.RUNNING].items() <= ends[RunState.CLAIMED].items()
    assert set(ends[RunState.CLAIMED]) - set(ends[RunState.RUNNING]) == {Move.WITHDRAW, Move.SKIP, Move.REARM}


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("move", Move)
def test_a_missing_key_is_the_refusal(driver: Driver, state: RunState, move: Move) -> None:
    run = a_run(state)
    assert allows(run, move) == ((state, move) in TRANSITIONS)
    if not allows(run, move):
        with driver.environment.begin() as transaction, pytest.raises(AssertionError, match="does not"):
            change(Work(transaction, driver.machine.tables(transaction), "n1"), run, move)


@pytest.mark.parametrize("state", sorted(set(RunState) - set(BIRTHS)))
def test_a_run_begins_in_few_states(driver: Driver, state: RunState) -> None:
    with driver.environment.begin() as transaction, pytest.raises(AssertionError):
        create(Work(transaction, driver.machine.tables(transaction), "n1"), a_run(state))


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.CLAIMED, RunState.SCHEDULED, RunState.RETRYING])
def test_a_run_that_is_not_where_it_should_be_stops_the_machine(driver: Driver, state: RunState) -> None:
    move = next(move for (start, move), end in TRANSITIONS.items() if start is state and end is not RunState.RUNNING)
    transaction = driver.environment.begin(write=True)
    with pytest.raises(AssertionError, match="must"):
        change(Work(transaction, driver.machine.tables(transaction), "n1"), a_run(state), move, retry_at_ms=7000)
    transaction.abort()
