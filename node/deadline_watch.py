"""Watches the deadlines of runs in this node's buckets: what has passed by the cluster's clock is proposed to be ended.

A run that somebody holds ends only when its holder has let go of it, so its deadline is proposed again after a while:
that tells the holder once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from statemachine.commands import Deadline

AGAIN_AFTER_S = 2.0
IN_FLIGHT_MAX = 256
"""Deadlines proposed at once: thousands of runs may have the same."""

DeadlineDue = tuple[int, int, str]
"""(at_ms, bucket, run id)"""


class DeadlinesView(Protocol):
    """What is read of the state."""

    def clock_ms(self) -> int | None:
        """The cluster's clock, which judges deadlines."""
        ...

    def deadlines_until(self, until_ms: int) -> Iterable[DeadlineDue]:
        """In order of time."""
        ...


class DeadlineWatch:
    """`step` says what to propose; `answered` is told when one has got its answer, or none."""

    def __init__(self) -> None:
        self._in_flight: set[tuple[int, str]] = set()
        self._rest_until_s: dict[tuple[int, str], float] = {}

    def step(self, now_s: float, now_ms: int, view: DeadlinesView, owned: Collection[int]) -> list[Deadline]:
        """`now_s` is the monotonic clock, `now_ms` the wall clock, for the stamps."""
        clock_ms = view.clock_ms()
        if clock_ms is None or not owned:
            return []
        self._rest_until_s = {due: until_s for due, until_s in self._rest_until_s.items() if until_s > now_s}
        proposed: list[Deadline] = []
        for at_ms, bucket, run_id in view.deadlines_until(clock_ms):
            if len(self._in_flight) >= IN_FLIGHT_MAX:
                break
            key = (at_ms, run_id)
            if bucket in owned and key not in self._in_flight and key not in self._rest_until_s:
                self._in_flight.add(key)
                proposed.append(Deadline(now_ms=now_ms, run_id=run_id, at_ms=at_ms))
        return proposed

    def answered(self, now_s: float, command: Deadline) -> None:
        """Whatever the answer: if the deadline still stands after a while, it is proposed again."""
        key = (command.at_ms, command.run_id)
        self._in_flight.discard(key)
        self._rest_until_s[key] = now_s + AGAIN_AFTER_S
