"""Work whose time has come and that waits for a free slot on this node: highest priority first, then longest
waiting."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from node.work import Work


class Backlog:
    """Bounded by the claims that the state machine hands this node (its slots and its ahead room)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str, int, Work]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, work: Work) -> None:
        claim = work.claim
        heapq.heappush(self._heap, (-claim.priority, claim.release_ms, claim.run_id, claim.token, work))

    def pop(self) -> Work:
        """The one that is to start next. Raises IndexError when there is none."""
        return heapq.heappop(self._heap)[-1]

    def take_out(self, matches: Callable[[Work], bool]) -> list[Work]:
        """Remove and return the work that matches."""
        taken = [entry[-1] for entry in self._heap if matches(entry[-1])]
        if taken:
            self._heap = [entry for entry in self._heap if not matches(entry[-1])]
            heapq.heapify(self._heap)
        return taken
