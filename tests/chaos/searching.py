"""Runs that must fail: seeds are tried, one after another, until the checkers see what they must see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.campaign import Campaign, run_seed
from node.clock import SystemClock

SEARCHED_MAX = 80
"""Each test begins with a seed that did when it was picked, and takes longer when the draws have changed since."""


def seen_by(
    promise: str, first_seed: int, wanted: Callable[[list[str]], bool] = bool, *, nodes: int = 3, **campaign: Any
) -> bool:
    """Whether some seed breaks the promise, and `wanted` is true of what was seen of that."""
    for seed in range(first_seed, first_seed + SEARCHED_MAX):
        verdict = run_seed(seed, Campaign(first_seed=seed, seeds=1, nodes=nodes, **campaign), SystemClock().monotonic)
        seen = [violation.what for violation in verdict.violations if violation.promise == promise]
        if seen and wanted(seen):
            return True
    return False
