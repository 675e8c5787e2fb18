"""The only place of the project that reads a clock. Everything else is given a `Clock`, or the time itself."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Three clocks, because they mean different things; confusing them is how leases break."""

    def wall_ms(self) -> int:
        """Unix time in milliseconds: what users mean by a time. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds; never jumps; stands still while the machine is suspended. For durations."""
        ...

    def boottime(self) -> float:
        """Seconds; never jumps and runs on while the machine is suspended. For leases."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
