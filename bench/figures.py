"""Figures: what was measured in each round, and its median, least and greatest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Round = Mapping[str, float]
"""One round of one work: figure → value. The unit is part of the figure's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One measured quantity over all rounds of a work."""

    work: str
    name: str
    values: tuple[float, ...]
    must: float | None = None
    """What it must not exceed, if there is a bar."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def holds(self) -> bool | None:
        """Whether the median keeps the bar; None without one."""
        return None if self.must is None else self.median <= self.must


def percentile(values: Sequence[float], fraction: float) -> float:
    """The nearest-rank percentile: a value that was really measured, at or above `fraction` of all. NaN for no
    values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(math.ceil(fraction * len(ordered)) - 1, 0)]


def delay_figures(delays_s: Sequence[float]) -> dict[str, float]:
    """The three that every work tells of its start delays."""
    return {
        "start delay p50 (s)": percentile(delays_s, 0.50),
        "start delay p99 (s)": percentile(delays_s, 0.99),
        "start delay max (s)": percentile(delays_s, 1.0),
    }


def unix_s(text: str) -> float:
    """An API time as unix seconds."""
    return datetime.fromisoformat(text).timestamp()


def start_delay_s(run: Mapping[str, Any]) -> float:
    """How long after its release a run started."""
    return unix_s(run["started_at"]) - unix_s(run["release_at"])


def collect_figures(work: str, rounds: Sequence[Round], bars: Mapping[str, float]) -> list[Figure]:
    """The rounds of a work as figures, in the order in which the first round names them."""
    return [
        Figure(work=work, name=name, values=tuple(one[name] for one in rounds), must=bars.get(name))
        for name in rounds[0]
    ]
