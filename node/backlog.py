"""Work whose time has come and that waits for a free slot on this node: highest priority first, then longest
waiting."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container

from node.work import Work

Entry = tuple[int, int, str, int, Work]


class Backlog:
    """Bounded by the claims that the state machine hands this node (its slots and its ahead room)."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[Entry]] = {}
        """By the kind of target, so that a kind whose slots are taken keeps no other waiting."""

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values()))

    def push(self, work: Work) -> None:
        claim = work.claim
        heap = self._heaps.setdefault(work.definition.kind, [])
        heapq.heappush(heap, (-claim.priority, claim.release_ms, claim.run_id, claim.token, work))

    def pop(self, *, without: Container[str] = ()) -> Work | None:
        """The one that is to start next, of other kinds than those; None: there is none."""
        heaps = [heap for kind, heap in self._heaps.items() if heap and kind not in without]
        return heapq.heappop(min(heaps))[-1] if heaps else None

    def take_out(self, matches: Callable[[Work], bool]) -> list[Work]:
        """Remove and return the work that matches."""
        taken = []
        for kind, heap in self._heaps.items():
            found = [entry[-1] for entry in heap if matches(entry[-1])]
            if found:
                self._heaps[kind] = [entry for entry in heap if not matches(entry[-1])]
                heapq.heapify(self._heaps[kind])
            taken += found
        return taken
