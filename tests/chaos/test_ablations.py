"""Runs that must fail: a guard of the product is switched off, and a checker that looks for what it guards sees it.
(tests/chaos/test_simulation.py has those of leases, tokens and acknowledgements.)"""

from __future__ import annotations

from typing import Any

import pytest

from chaos import workload_drafts
from node.config import ClusterSettings
from node.interface import Consistency
from node.reads import Reads
from statemachine import overlap
from tests.chaos.searching import seen_by


@pytest.mark.slow
def test_reads_that_wait_for_no_barrier_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is cut off answers from what it has, and says that it is fresh: the indexes show it, and without
    them what it says of the names of jobs does."""

    async def at_once(self: Reads, consistency: Consistency = "linearizable") -> int:
        return 0 if consistency == "local" else 1

    monkeypatch.setattr(Reads, "stand_at", at_once)

    def both(found: list[str]) -> bool:
        return any("held by" in what for what in found) and any("stood at" in what for what in found)

    assert seen_by("I10", 5, both, steps=4, faults=("isolate", "partition"))


@pytest.mark.slow
def test_overlaps_that_nobody_judges_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(work: Any, job_id: str) -> Any:
        """The state machine sees no other run of the job."""
        return overlap._Standing([], is_catching_up=False, parked=None)

    monkeypatch.setattr(overlap, "_standing_of", nobody)
    assert seen_by("I7", 1, steps=2, faults=("kill",))


@pytest.mark.slow
def test_attempts_that_nobody_kills_at_the_lapse_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes start nothing after the fence, but what they run goes on under a session that has ended."""
    monkeypatch.setattr(ClusterSettings, "kill_s", 2e6)
    monkeypatch.setattr(workload_drafts, "SCRIPTS", ("hang",))
    monkeypatch.setattr(workload_drafts, "ATTEMPT_S", 20.0)
    assert seen_by("I9", 4, lambda found: any(" ran " in what for what in found), steps=6, faults=("isolate", "pause"))
