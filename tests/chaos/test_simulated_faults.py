"""Every kind of fault that the simulator offers really happens, and what it is for comes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.campaign import Campaign, run_seed
from chaos.history import History
from chaos.simulated_cluster import SimulatedCluster
from chaos.simulated_plan import Plan
from chaos.verdict import violations_of
from node.clock import SystemClock
from raftlog.joining import Joining

SEED = 5


def plan_of(*kinds: str, steps: int, nodes: int = 3) -> Plan:
    drawn = Plan.draw(SEED, nodes=nodes, steps=steps, faults=kinds)
    return replace(drawn, faults=kinds, fault_every_s=2.0, away_s=0.3, delay_s=0.002, commit_s=0.004, jobs=16)


def run(plan: Plan, root: Path) -> tuple[History, Counter[str]]:
    cluster = SimulatedCluster(SEED, plan, root)
    try:
        history = cluster.run()
    finally:
        cluster.close()
    assert violations_of(history) == []
    return history, cluster.happened


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "traces"),
    [
        (("wipe", "wipe-chain"), ("wiped",)),
        (("damage",), ("damaged", "refused", "wiped")),
        (("disk",), ("disk error", "crash")),
        (("echo", "transfer"), ("echo", "transfer")),
        (("target", "slow-targets"), ("crash",)),
        (("old-socket",), ("old socket",)),
        (("reset-storm",), ("swallowed",)),
        (("lag", "narrow"), ("lag", "narrow")),
        (("ring", "bridge", "flap", "swizzle"), ("cut",)),
        (("rolling",), ("leave", "crash")),
    ],
)
def test_what_a_fault_is_for_comes_of_it(kinds: tuple[str, ...], traces: tuple[str, ...], tmp_path: Path) -> None:
    steps = 30 if kinds == ("reset-storm",) else 10  # it loses only what is under way at that moment
    history, happened = run(plan_of(*kinds, steps=steps), tmp_path)
    assert {fault.kind for fault in history.faults} == set(kinds)
    for trace in traces:
        assert happened[trace] > 0, happened


WIPE_SEEDS = (0, 3)
"""Seeds that failed without the guard when they were picked (2 in 4)."""


@pytest.mark.slow
def test_without_the_gate_a_wiped_node_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that must fail: an empty disk votes under its old id, and elects a leader without what it acknowledged."""
    monkeypatch.setattr(Joining, "has_joined", lambda self: True)
    for seed in WIPE_SEEDS:
        campaign = Campaign(first_seed=seed, seeds=1, nodes=3, steps=6, faults=("wipe-chain",))
        if run_seed(seed, campaign, SystemClock().monotonic).violations:
            return
    raise AssertionError("nobody saw it")
