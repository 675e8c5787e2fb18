"""Live chaos against itself: a short run of real nodes keeps every promise; without the lease guard it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import live_run
from chaos.history_file import read_history
from chaos.live_faults import Planned
from chaos.live_network import missing_tools
from chaos.live_run import HISTORY_NAME, LivePlan, LiveRun, LiveVerdict
from node.clock import SystemClock

WITHOUT_THE_LEASE_GUARD = """
from node.config import ClusterSettings
ClusterSettings.fence_s, ClusterSettings.kill_s = 1e6, 2e6
ClusterSettings.faults = lambda settings: []
from node.cli import main
main()
"""
"""What each node process runs: it goes on starting what it holds, however long ago its lease ended."""
PAUSED_S = 14.0
"""Longer than an election and the whole session that a new leader grants to everybody."""


async def judged(plan: LivePlan, root: Path) -> LiveVerdict:
    clock, told = SystemClock(), list[str]()
    run = LiveRun(plan, root, monotonic=clock.monotonic, wall_ms=clock.wall_ms, say=told.append)
    return await run.run()


@pytest.mark.long
@pytest.mark.parametrize("isolated", [False, True])
async def test_killed_and_stopped_nodes_keep_every_promise(tmp_path: Path, isolated: bool) -> None:
    if isolated and (missing := missing_tools()):
        pytest.skip(f"no network namespaces here: {missing}")
    kinds = ("kill", "pause", "isolate-leader", "reset") if isolated else ("kill", "pause")
    verdict = await judged(LivePlan(seed=1, nodes=3, duration_s=20, nemeses=kinds, isolated=isolated), tmp_path)
    assert verdict.violations == []
    assert len(verdict.history.effects) > 20, "a run in which nothing happens proves nothing"
    assert len(verdict.history.faults) > 2
    assert read_history(tmp_path / HISTORY_NAME).healed_s == verdict.history.healed_s


@pytest.mark.long
async def test_without_the_lease_guard_a_lapsed_node_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that must fail: nodes that wake up after a pause go on starting what they held."""
    pauses = [
        Planned(
            number=number,
            at_s=3.0 + number * (PAUSED_S + 6.0),
            kind="pause",
            lasts_s=PAUSED_S,
            who="any",
            part="both",
            amount=0.0,
            coin=False,
        )
        for number in range(2)
    ]
    monkeypatch.setattr(live_run, "draw_schedule", lambda *_, **__: pauses)
    plan = LivePlan(seed=1, nodes=3, duration_s=40, nemeses=("pause",), isolated=False, entry=WITHOUT_THE_LEASE_GUARD)
    verdict = await judged(plan, tmp_path)
    assert "I9" in {violation.promise for violation in verdict.violations}
