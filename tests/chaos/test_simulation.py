"""Seeded runs of whole clusters on virtual time, judged by all checkers; and runs with a guard off, which must fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos import replica_state
from chaos.campaign import FAULT_KINDS, Campaign, SeedVerdict, run_seed
from chaos.check_lateness import RECOVERED_S, lateness_of
from chaos.history import History
from chaos.simulated_cluster import SimulatedCluster
from chaos.simulated_plan import CALM_S, HEAL_S, Plan
from node.clock import SystemClock
from node.config import ClusterSettings
from node.interface import FINAL_STATES
from raftlog import outbox
from statemachine import attempts
from statemachine.commands import PlainReply
from tests.chaos.searching import seen_by

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS = 2
LONG_SEEDS = 200
SEEDS_A_TEST = 10


def run(seed: int, *, nodes: int = 3, steps: int = 12, faults: tuple[str, ...] | None = None) -> SeedVerdict:
    campaign = Campaign(first_seed=seed, seeds=1, nodes=nodes, steps=steps)
    if faults is not None:
        campaign = Campaign(first_seed=seed, seeds=1, nodes=nodes, steps=steps, faults=faults)
    return run_seed(seed, campaign, SystemClock().monotonic)


def must_hold(verdict: SeedVerdict) -> None:
    assert verdict.violations == [], verdict.replay
    assert verdict.effects > 10, "a run in which nothing happens proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_three_nodes_keep_every_promise(seed: int) -> None:
    must_hold(run(seed))


@pytest.mark.slow
def test_five_nodes_keep_every_promise() -> None:
    must_hold(run(2, nodes=5, steps=6))


@pytest.mark.long
@pytest.mark.parametrize("first_seed", range(SEEDS, LONG_SEEDS, SEEDS_A_TEST))
def test_three_nodes_keep_every_promise_in_many_more_runs(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + SEEDS_A_TEST):
        must_hold(run(seed))


@pytest.mark.long
@pytest.mark.parametrize("first_seed", range(SEEDS, LONG_SEEDS, SEEDS_A_TEST))
def test_five_nodes_keep_every_promise_in_many_more_runs(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + SEEDS_A_TEST):
        must_hold(run(seed, nodes=5))


@pytest.mark.slow
def test_a_run_ends_when_nothing_is_left_to_wait_for(tmp_path: Path) -> None:
    history = simulated(1, tmp_path, steps=2)
    assert CALM_S <= history.end_s - history.healed_s < HEAL_S
    assert len({(state.applied_index, state.digest) for state in history.states}) == 1
    assert all(operation.ended_s <= history.end_s for operation in history.operations)
    recovered_ms = history.wall_ms(history.healed_s + RECOVERED_S)
    runs = history.states[0].runs.values()
    assert runs and all(run.state in FINAL_STATES for run in runs if run.release_ms < recovered_ms)
    assert lateness_of(history, history.healed_s + RECOVERED_S).count > 5


@pytest.mark.slow
def test_a_run_that_does_not_settle_is_judged_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing counts as final here: the run goes on until every run must have been."""
    monkeypatch.setattr(replica_state, "FINAL_STATES", frozenset())
    history = simulated(1, tmp_path, steps=2)
    assert history.end_s - history.healed_s == pytest.approx(HEAL_S, abs=0.2)


def simulated(seed: int, root: Path, *, steps: int) -> History:
    cluster = SimulatedCluster(seed, Plan.draw(seed, nodes=3, steps=steps, faults=FAULT_KINDS), root)
    try:
        return cluster.run()
    finally:
        cluster.close()


@pytest.mark.slow
def test_a_seed_tells_the_whole_story() -> None:
    """The same trace in processes whose text hashes are salted otherwise, from the command that a failing seed
    prints."""
    told = {_trace(2, salt) for salt in ("1", "2")}
    assert len(told) == 1
    assert told == {run(2, steps=4).trace[:16]}
    assert told != {run(2, steps=5).trace[:16]}


def _trace(seed: int, salt: str) -> str:
    command = [sys.executable, "-m", "node.cli", "chaos", "sim", "--seed", str(seed), "--steps", "4"]
    environment = os.environ | {"PYTHONHASHSEED": salt}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    [line] = [line for line in told.stdout.splitlines() if line.startswith("seed ")]
    return line.rpartition(" ")[2]


@pytest.mark.slow
def test_acknowledgements_that_leave_before_the_commit_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that must fail: what nodes acknowledge is not on their disks yet when they are killed."""
    monkeypatch.setattr(outbox, "IMMEDIATE", outbox.IMMEDIATE | outbox.HELD)
    monkeypatch.setattr(outbox, "HELD", frozenset())
    assert seen_by("broken", 24, steps=10, faults=("kill-chain",))


@pytest.mark.slow
def test_results_under_old_tokens_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that must fail: the state machine looks at no token, and a zombie's result counts."""

    def held_by_anyone(work: Any, command: Any, move: Any) -> Any:
        found = work.run(command.run_id)
        known = found is not None and attempts.allows(found, move)
        return found if known else PlainReply(code="illegal_state")

    monkeypatch.setattr(attempts, "held_run", held_by_anyone)
    assert seen_by("I3", 3, steps=3, faults=("pause", "isolate"))


@pytest.mark.slow
def test_without_the_lease_guard_a_lapsed_node_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that must fail: nodes that wake up after a pause go on starting what they held."""
    monkeypatch.setattr(ClusterSettings, "fence_s", 1e6)
    monkeypatch.setattr(ClusterSettings, "kill_s", 2e6)
    assert seen_by("I9", 26, steps=2, faults=("pause",))
