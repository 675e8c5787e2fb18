"""How far the wall clocks of the nodes are apart, as this node sees it, and the time that this node goes by.

Each renewal carries its sender's wall clock, and reaches this node a few milliseconds later through the log. What is
kept of it is its distance from this node's CLOCK_BOOTTIME, which nobody sets: so the others' time can be told at any
moment, and a jump of this node's own wall clock shows at once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import median

from node.clock import Clock
from statemachine.clock import median_ms
from statemachine.limits import CLOCK_OFF_MS

TRUSTED_MS = 2_000
"""How far this node's wall clock may be from the cluster's to be followed. What is ever started too early, by a wrong
clock, is early by this. More than the log's delays, which make the others' clocks look late."""
NEAR_MS = 2 * TRUSTED_MS
"""Clocks that are no further apart agree. If no majority does, what the cluster agreed on before decides."""
HEARD_KEPT = 8
"""Renewals that are remembered of a node, some 12 s: of them the one that came the fastest tells its clock best."""
DELAY_MAX_MS = 6_000
"""A renewal that looks late by more did not take so long, or its session had ended: that clock was set back."""
HEARD_FOR_S = 60.0
"""A node that was not heard for so long has no vote."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Heard:
    at_s: float
    offsets_ms: deque[int] = field(default_factory=lambda: deque(maxlen=HEARD_KEPT))


class ClockSkews:
    """Bounded by the number of nodes: only the last renewals of each are kept."""

    def __init__(self, clock: Clock, node: str) -> None:
        self._clock = clock
        self._node = node
        self._heard: dict[str, _Heard] = {}
        self._others_ms: list[int] = []
        self._agreed_ms: int | None = None
        """The cluster's clock in the state, as an offset too: which of two clocks is right."""
        self._followed = True

    def heard(self, node: str, wall_ms: int, clock_ms: int | None) -> None:
        """A renewal that `node` sent at its `wall_ms` was applied here just now; the cluster's clock is `clock_ms`."""
        now_s = self._clock.boottime()
        heard = self._heard.setdefault(node, _Heard(now_s))
        heard.at_s = now_s
        offset_ms = wall_ms - _milliseconds(now_s)
        if heard.offsets_ms and offset_ms < max(heard.offsets_ms) - DELAY_MAX_MS:
            # Remembered, it would vote for the wrong time together with the next clock that goes wrong.
            heard.offsets_ms.clear()
        heard.offsets_ms.append(offset_ms)
        self._remember(clock_ms)
        self._others_ms = [
            max(heard.offsets_ms)
            for other, heard in self._heard.items()
            if other != self._node and now_s - heard.at_s < HEARD_FOR_S
        ]
        self._maybe_tell()

    def caught_up(self, clock_ms: int | None) -> None:
        """This node has the state of now; by that, the cluster's clock is `clock_ms`."""
        self._remember(clock_ms)
        self._maybe_tell()

    def _remember(self, clock_ms: int | None) -> None:
        if clock_ms is not None:
            self._agreed_ms = clock_ms - _milliseconds(self._clock.boottime())

    def skews_s(self, live: Collection[str]) -> Mapping[str, float]:
        """Seconds by which the clock of each live node that was heard is ahead of the median of them. The own renewals
        travel the same way as the others', so the log's delay cancels out."""
        offsets_ms = {node: self._heard[node].offsets_ms[-1] for node in live if node in self._heard}
        if not offsets_ms:
            return {}
        middle_ms = median(offsets_ms.values())
        return {node: round((offset_ms - middle_ms) / 1000, 3) for node, offset_ms in offsets_ms.items()}

    def time_ms(self) -> int:
        """The wall clock of this node; the cluster's, if this one is too far from that."""
        own_ms, boot_ms = self._clock.wall_ms(), _milliseconds(self._clock.boottime())
        if self._others_ms:
            offset_ms = median_ms([own_ms - boot_ms, *self._others_ms], self._agreed_ms, NEAR_MS)
            assert offset_ms is not None, "there are readings"
            cluster_ms = boot_ms + offset_ms
        else:
            cluster_ms = self._remembered_ms(own_ms, boot_ms)
        return own_ms if abs(own_ms - cluster_ms) <= TRUSTED_MS else cluster_ms

    def _remembered_ms(self, own_ms: int, boot_ms: int) -> int:
        """Until another node is heard, a second or two after a start, only the state says what time it is for the
        others. It lags, after an outage by all of that, so a clock that is further ahead may be right. If it is not,
        the state machine gives this node nothing."""
        if self._agreed_ms is None or abs(own_ms - boot_ms - self._agreed_ms) > CLOCK_OFF_MS + DELAY_MAX_MS:
            return own_ms
        return boot_ms + self._agreed_ms

    def _maybe_tell(self) -> None:
        ahead_ms = self._clock.wall_ms() - self.time_ms()
        if (ahead_ms == 0) == self._followed:
            return
        self._followed = ahead_ms == 0
        if self._followed:
            logger.warning("the clock of this node is right again")
        else:
            logger.error(
                "the clock of this node is %.1f s ahead of the others': set it; until then this node goes by theirs",
                ahead_ms / 1000,
            )


class SteadyClock:
    """The machine's clocks, but for a wall clock that is far from the others'. Implements Clock."""

    def __init__(self, clock: Clock, skews: ClockSkews) -> None:
        self._skews = skews
        self.monotonic = clock.monotonic
        self.boottime = clock.boottime

    def wall_ms(self) -> int:
        return self._skews.time_ms()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
