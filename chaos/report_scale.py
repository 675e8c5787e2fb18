"""From values to places in a drawing, and round numbers for its axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Straight from `low` to `high`, drawn from `start` to `end`; what lies outside is drawn at the edge."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        part = (min(max(value, self.low), self.high) - self.low) / ((self.high - self.low) or 1.0)
        return round(self.start + part * (self.end - self.start), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogScale:
    """As Scale, in powers; both ends must be above zero."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        part = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(self.start + part * (self.end - self.start), 1)


def time_ticks(until_s: float, ticks_max: int = 12) -> list[float]:
    """Round times from zero on."""
    step = next((step for step in STEPS if until_s / step <= ticks_max), STEPS[-1])
    return [float(second) for second in range(0, int(until_s) + 1, step)]


def clock(seconds: float) -> str:
    """1:05 for 65 s, 1:01:05 for an hour more."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
