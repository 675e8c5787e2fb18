"""Whether a majority would vote for this node, asked before it stands: who cannot win must not raise the term."""

from __future__ import annotations


class PreVotes:
    """The grants of one round, counted by voter. A round is asked in again and again until it is won, forgotten or too
    old: what a voter granted long ago says little about now.

    Grants bind nobody and need not be durable: they decide when to stand, never who leads."""

    def __init__(self, *, majority: int, round_s: float) -> None:
        self._majority = majority
        self._round_s = round_s
        self._round = 0
        self._ends_at = float("-inf")
        self._granted: set[str] = set()

    def round_to_ask_in(self, now: float) -> int:
        """The round under way, or a new one without any grant."""
        if now >= self._ends_at:
            self._round += 1
            self._granted = set()
            self._ends_at = now + self._round_s
        return self._round

    def grant(self, voter: str, round_number: int, now: float) -> None:
        """A grant to another round counts for nothing."""
        if round_number == self._round and now < self._ends_at:
            self._granted.add(voter)

    def is_won(self) -> bool:
        return 1 + len(self._granted) >= self._majority

    def forget(self) -> None:
        """The round is over: this node stands, has heard a leader, or was asked to vote for another."""
        self._ends_at = float("-inf")
        self._granted = set()
