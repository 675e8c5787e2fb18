"""How far the wall clocks of the nodes are apart, as this node sees it.

Each renewal carries its sender's wall clock, and reaches this node a few milliseconds later through the log. The own
renewals travel the same way, so that delay cancels out against the median of all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median

from node.clock import Clock


class ClockSkews:
    """Bounded by the number of nodes: only the last renewal of each is kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offsets_ms: dict[str, int] = {}

    def heard(self, node: str, wall_ms: int) -> None:
        """A renewal that `node` sent at its `wall_ms` was applied here just now."""
        self._offsets_ms[node] = wall_ms - self._clock.wall_ms()

    def skews_s(self, live: Collection[str]) -> Mapping[str, float]:
        """Seconds by which the clock of each live node that was heard is ahead of the median of them."""
        offsets_ms = {node: self._offsets_ms[node] for node in live if node in self._offsets_ms}
        if not offsets_ms:
            return {}
        middle_ms = median(offsets_ms.values())
        return {node: round((offset_ms - middle_ms) / 1000, 3) for node, offset_ms in offsets_ms.items()}
