"""Runs that must fail: a guard of the product is switched off, and a checker that looks for what it guards sees it.
(tests/chaos/test_simulation.py has those of leases, tokens and acknowledgements.)"""

from __future__ import annotations

from typing import Any

import pytest

from chaos import workload
from chaos.campaign import Campaign, run_seed
from chaos.history import Violation
from node.clock import SystemClock
from node.config import ClusterSettings
from node.interface import Consistency
from node.reads import Reads
from statemachine import release

BARRIER_SEED = 5
OVERLAP_SEED = 1
"""Most seeds fail without the guard; these are quick."""
KILL_SEEDS = (6, 4)
"""Seeds that failed without the guard when they were picked; after a change of the draws, pick others (1 in 4)."""


def violations(seed: int, promise: str, *, steps: int, faults: tuple[str, ...]) -> list[Violation]:
    campaign = Campaign(first_seed=seed, seeds=1, nodes=3, steps=steps, faults=faults)
    found = run_seed(seed, campaign, SystemClock().monotonic).violations
    return [violation for violation in found if violation.promise == promise]


@pytest.mark.slow
def test_reads_that_wait_for_no_barrier_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is cut off answers from what it has, and says that it is fresh: the indexes show it, and without
    them what it says of the names of jobs does."""

    async def at_once(self: Reads, consistency: Consistency = "linearizable") -> int:
        return 0 if consistency == "local" else 1

    monkeypatch.setattr(Reads, "stand_at", at_once)
    found = [violation.what for violation in violations(BARRIER_SEED, "I10", steps=4, faults=("isolate", "partition"))]
    assert any("held by" in what for what in found), found
    assert any("stood at" in what for what in found), found


@pytest.mark.slow
def test_overlaps_that_nobody_judges_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(work: Any, job: Any) -> None:
        """The state machine sees no other run of the job."""

    monkeypatch.setattr(release, "_active_run", nobody)
    assert violations(OVERLAP_SEED, "I7", steps=2, faults=("kill",))


@pytest.mark.slow
def test_attempts_that_nobody_kills_at_the_lapse_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes start nothing after the fence, but what they run goes on under a session that has ended."""
    monkeypatch.setattr(ClusterSettings, "kill_s", 2e6)
    monkeypatch.setattr(workload, "SCRIPTS", ("hang",))
    found: list[Violation] = []
    for seed in KILL_SEEDS:
        found += violations(seed, "I9", steps=6, faults=("isolate", "pause"))
        if any(" ran " in violation.what for violation in found):
            return
    raise AssertionError(f"nobody saw it; only {found}")
