"""Work whose time has come and that waits for a free slot on this node: highest priority first; within one the teams
take turns; within a team, whoever has waited longest.

Who is handed what is decided in the state machine; but what was handed out ahead of its time waits here, and the ten
thousand runs of one team that fall due together must not keep another team's one waiting.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container

from node.work import Work

Entry = tuple[int, str, int, Work]


class _Turns:
    """What waits of one kind of targets and one priority."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[Entry]] = {}
        self._order: deque[str] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values()))

    def push(self, work: Work) -> None:
        team = work.definition.job.team
        if team not in self._heaps:
            self._heaps[team] = []
            self._order.append(team)
        claim = work.claim
        heapq.heappush(self._heaps[team], (claim.release_ms, claim.run_id, claim.token, work))

    def first(self) -> Entry:
        """Whoever is next; there must be one."""
        return self._heaps[self._order[0]][0]

    def pop(self) -> Work:
        team = self._order.popleft()
        work = heapq.heappop(self._heaps[team])[-1]
        if self._heaps[team]:
            self._order.append(team)
        else:
            del self._heaps[team]
        return work

    def take_all(self) -> list[Work]:
        return [entry[-1] for heap in self._heaps.values() for entry in heap]


class Backlog:
    """Bounded by the claims that the state machine hands this node (its slots and its ahead room)."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, int], _Turns] = {}
        """By kind of target and priority: a kind whose slots are taken keeps no other waiting."""

    def __len__(self) -> int:
        return sum(map(len, self._turns.values()))

    def push(self, work: Work) -> None:
        place = work.definition.kind, work.claim.priority
        self._turns.setdefault(place, _Turns()).push(work)

    def pop(self, *, without: Container[str] = ()) -> Work | None:
        """The one that is to start next, of other kinds than those; None: there is none."""
        open_ = [
            (-priority, turns.first(), kind) for (kind, priority), turns in self._turns.items() if kind not in without
        ]
        if not open_:
            return None
        negative, _, kind = min(open_)
        place = kind, -negative
        work = self._turns[place].pop()
        if not self._turns[place]:
            del self._turns[place]
        return work

    def take_out(self, matches: Callable[[Work], bool]) -> list[Work]:
        """Remove and return the work that matches."""
        waiting = [work for turns in self._turns.values() for work in turns.take_all()]
        taken = [work for work in waiting if matches(work)]
        if taken:
            self._turns.clear()
            for work in waiting:
                if not matches(work):
                    self.push(work)
        return taken
