"""Read barriers: where the log stood, as confirmed by a majority after the question was asked.

A node asks in numbered rounds, one a step for everything that waits; the answer to a round holds for all earlier ones
too, because it was found later. The leader notes its commit index and the number of its next append_entries: once a
majority has echoed that number or a later one, no newer leader can have acknowledged anything before the question.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from raftlog.config import RaftConfig
from raftlog.errors import LogOverloaded
from raftlog.proposals import Route

QUESTIONS_IN_FLIGHT_MAX: Final = 1024
"""Questions that a leader has numbered and a majority has not confirmed; further ones wait, merged by node."""

ROUNDS_PER_INCARNATION: Final = 2**40


class BarrierPassed(NamedTuple):
    """Everything acknowledged before `barrier(barrier_id)` is at or below `read_index`, and that is committed here."""

    barrier_id: int
    read_index: int


class LocalBarriers:
    """This node's barriers: waiting to be asked, asked, and answered but ahead of what is applied here.

    Rounds are numbered through all incarnations: a late answer to one of an earlier life must not pass a barrier."""

    def __init__(self, config: RaftConfig, incarnation: int) -> None:
        self._retry_s = config.retry_s
        self._pending_max = config.barriers_pending_max
        self._waiting: dict[int, None] = {}
        self._asked: dict[int, int] = {}
        self._answered: dict[int, int] = {}
        self.begin(incarnation)
        self._asked_at = float("-inf")
        self._route: Route | None = None

    def begin(self, incarnation: int) -> None:
        """Number the rounds to come as those of this incarnation, a newer one."""
        self._round = incarnation * ROUNDS_PER_INCARNATION

    def add(self, barrier_id: int) -> None:
        """Raises LogOverloaded."""
        if len(self._waiting) + len(self._asked) + len(self._answered) >= self._pending_max:
            raise LogOverloaded(f"{self._pending_max} read barriers are pending")
        self._waiting[barrier_id] = None

    def take_round(self, now: float, route: Route) -> int | None:
        """The round to ask on this route now: a new one for what waits, the last one again if it is overdue or the
        route is new."""
        overdue = bool(self._asked) and (route != self._route or now >= self._asked_at + self._retry_s)
        if not self._waiting and not overdue:
            return None
        if self._waiting:
            self._round += 1
            self._asked.update(dict.fromkeys(self._waiting, self._round))
            self._waiting.clear()
        self._asked_at, self._route = now, route
        return self._round

    def answer(self, round_number: int, read_index: int) -> None:
        """The leader's answer to a round, good for every barrier asked in it or before."""
        answered = [barrier_id for barrier_id, asked_in in self._asked.items() if asked_in <= round_number]
        for barrier_id in answered:
            del self._asked[barrier_id]
            self._answered[barrier_id] = read_index

    def take_passed(self, applied_index: int) -> list[BarrierPassed]:
        passed = [BarrierPassed(*answered) for answered in self._answered.items() if answered[1] <= applied_index]
        for barrier in passed:
            del self._answered[barrier.barrier_id]
        return passed

    def next_deadline(self) -> float:
        """When a round is due next, given a route."""
        if self._waiting:
            return float("-inf")
        return self._asked_at + self._retry_s if self._asked else float("inf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    origin: str
    round_number: int
    read_index: int
    append_seq: int


class LeaderBarriers:
    """The questions that a leader has not answered. Forgotten with the leadership; their nodes ask again."""

    def __init__(self) -> None:
        self._fresh: dict[str, int] = {}
        self._numbered: deque[Question] = deque()

    def ask(self, origin: str, round_number: int) -> None:
        """A later round of the same node stands for the earlier ones."""
        self._fresh[origin] = round_number

    def number(self, read_index: int, append_seq: int) -> None:
        """Take the fresh questions in: everything acknowledged so far is at or below `read_index`; an echo of
        `append_seq` will confirm that. The leader must have applied its own no-op."""
        if len(self._numbered) >= QUESTIONS_IN_FLIGHT_MAX:
            return
        for origin, round_number in self._fresh.items():
            self._numbered.append(
                Question(origin=origin, round_number=round_number, read_index=read_index, append_seq=append_seq)
            )
        self._fresh.clear()

    def take_confirmed(self, is_echoed: Callable[[int], bool]) -> list[Question]:
        confirmed: list[Question] = []
        while self._numbered and is_echoed(self._numbered[0].append_seq):
            confirmed.append(self._numbered.popleft())
        return confirmed

    def wanted_seq(self) -> int:
        """The newest append_entries that must be under way."""
        return self._numbered[-1].append_seq if self._numbered else 0

    def forget(self) -> None:
        self._fresh.clear()
        self._numbered.clear()
