"""How much a lane may have under way, found out by how long its proposals take: overload shows as time.

The log works off what it is given in order, so whatever one lane has under way is what every other lane waits behind.
Additive increase, multiplicative decrease (D.-M. Chiu and R. Jain, 1989): several nodes that share one leader come to
fair shares without telling each other.
"""

from __future__ import annotations

from typing import Final

GROWTH_BYTES: Final = 8 * 1024
"""Added with every proposal that was fast enough, while more was waiting."""
SHRINK_FACTOR: Final = 0.7


class Window:
    """Bytes that may be under way. `target_s` is how long a proposal may take from its sending to its result."""

    def __init__(self, *, target_s: float, bytes_min: int, bytes_max: int) -> None:
        self.bytes = bytes_max // 4
        self._target_s = target_s
        self._bytes_min = bytes_min
        self._bytes_max = bytes_max
        self._shrunk_s = float("-inf")

    def answered(self, *, sent_s: float, now_s: float, more_waits: bool) -> None:
        """A proposal has its result. Those that were sent before the last decrease say nothing new."""
        if now_s - sent_s <= self._target_s:
            if more_waits:
                self.bytes = min(self.bytes + GROWTH_BYTES, self._bytes_max)
        elif sent_s >= self._shrunk_s:
            self.bytes = max(int(self.bytes * SHRINK_FACTOR), self._bytes_min)
            self._shrunk_s = now_s
