"""The ticks of a whole schedule, in unix milliseconds: a union of expressions, or one instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from node.schedule_count import count_union
from node.schedule_search import CronTicks, EveryTicks
from node.zones import Zone


class Ticks(Protocol):
    """Strictly increasing instants, unix milliseconds."""

    def next(self, after_ms: int) -> int | None:
        """The first instant later than `after_ms`."""
        ...

    def between(self, after_ms: int, until_ms: int, limit: int) -> Sequence[int]:
        """The first `limit` instants t with after_ms < t <= until_ms."""
        ...

    def count_between(self, after_ms: int, until_ms: int) -> int:
        """How many instants t there are with after_ms < t <= until_ms."""
        ...


class UnionTicks:
    """Every instant at which any expression of a list ticks, once. Its only state is its last answer: jobs share it."""

    def __init__(self, zone: Zone, crons: Sequence[CronTicks], everies: Sequence[EveryTicks]) -> None:
        self.zone = zone
        self.crons = crons
        self.everies = everies
        self._members: list[CronTicks | EveryTicks] = [*crons, *everies]
        self._free = (0, 0)

    def next(self, after_ms: int) -> int | None:
        low_ms, found_ms = self._free
        if low_ms <= after_ms < found_ms:  # jobs that share a schedule ask the same question one after another
            return found_ms
        ticks = [member.next(after_ms // 1000) for member in self._members]
        tick_s = min((tick for tick in ticks if tick is not None), default=None)
        if tick_s is None:
            return None
        self._free = (after_ms, tick_s * 1000)
        return tick_s * 1000

    def between(self, after_ms: int, until_ms: int, limit: int) -> Sequence[int]:
        lists = [member.between(after_ms // 1000, until_ms // 1000, limit) for member in self._members]
        if len(lists) == 1 and isinstance(lists[0], range):
            seconds = lists[0]
            return range(seconds.start * 1000, seconds.stop * 1000, seconds.step * 1000)
        merged = lists[0] if len(lists) == 1 else sorted(set().union(*lists))[: max(limit, 0)]
        return [tick_s * 1000 for tick_s in merged]

    def count_between(self, after_ms: int, until_ms: int) -> int:
        return count_union(self.crons, self.everies, after_ms // 1000, until_ms // 1000)


class OnceTicks:
    """A single instant."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def next(self, after_ms: int) -> int | None:
        return self.at_ms if after_ms < self.at_ms else None

    def between(self, after_ms: int, until_ms: int, limit: int) -> Sequence[int]:
        return [self.at_ms] if limit > 0 and after_ms < self.at_ms <= until_ms else []

    def count_between(self, after_ms: int, until_ms: int) -> int:
        return len(self.between(after_ms, until_ms, 1))
