"""How late the event loop of this node turns: whoever waits in it, the session's renewal too, waits so much longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LOOK_EVERY_S = 0.05
KEEP_S = 15.0
"""The worst lag is remembered for once or twice this long: a scrape each 15 s misses none."""


class LoopLag:
    """`run` until cancelled; `worst_s` is the worst lag of the last half minute or so."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._current_s = self._previous_s = 0.0
        self._turn_over_s = monotonic() + KEEP_S

    @property
    def worst_s(self) -> float:
        return max(self._current_s, self._previous_s)

    def observe(self, lag_s: float) -> None:
        now_s = self._monotonic()
        if now_s >= self._turn_over_s:
            self._previous_s, self._current_s = self._current_s, 0.0
            self._turn_over_s = now_s + KEEP_S
        self._current_s = max(self._current_s, lag_s)

    async def run(self) -> None:
        while True:
            slept_from_s = self._monotonic()
            await asyncio.sleep(LOOK_EVERY_S)
            self.observe(self._monotonic() - slept_from_s - LOOK_EVERY_S)
