"""Small numbers that decide what is done, and what it is done to."""

from __future__ import annotations

from typing import Any

JOBS = tuple("ABCDEFGH")
TEAMS = ("t", "u")
NODES = ("n1", "n2", "n3")
SECOND = 1000
HOUR = 3600 * SECOND


class Numbers:
    """A supply of small numbers that decide what is done."""

    def __init__(self, values: list[int]) -> None:
        self._values = iter(values)

    def below(self, limit: int) -> int:
        return next(self._values, 0) % limit

    def pick(self, choices: Any) -> Any:
        choices = list(choices)
        return choices[self.below(len(choices))]

    def rarely(self) -> bool:
        return self.below(8) == 7
