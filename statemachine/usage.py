"""What each team has and holds, counted where it changes, so that no quota needs a recount.

Every team is counted, with settings or without: a quota may be set while it holds thousands of claims. In one apply the
counts are read once and written once.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from statemachine.records import Run
from statemachine.tables import Tables

_COUNTS = Struct(">QQQ")
_NOTHING = _COUNTS.pack(0, 0, 0)


class TeamUse:
    """A team's counts: `jobs` defined, claims `held`, and those of them that are `held_ahead` of their time."""

    __slots__ = ("held", "held_ahead", "jobs", "stored")

    def __init__(self, value: bytes | None) -> None:
        self.stored = value
        self.jobs, self.held, self.held_ahead = (0, 0, 0) if value is None else _COUNTS.unpack(value)

    def hold(self, run: Run, change: int) -> None:
        """Count a claim that began (+1) or ended (-1)."""
        self.held += change
        if run.ahead:
            self.held_ahead += change
        assert self.held >= self.held_ahead >= 0, "a claim ends once"


class Usage(dict[str, TeamUse]):
    """The counts of the teams that one apply touches, read when they are first asked for."""

    def __init__(self, transaction: Any, tables: Tables) -> None:
        super().__init__()
        self._transaction = transaction
        self._tables = tables

    def __missing__(self, team: str) -> TeamUse:
        use = self[team] = read_use(self._transaction, self._tables, team)
        return use

    def flush(self) -> None:
        """Write what changed; a team that has nothing needs no row."""
        for team, use in sorted(self.items()):
            value = _COUNTS.pack(use.jobs, use.held, use.held_ahead)
            if value == (use.stored or _NOTHING):
                continue
            if value == _NOTHING:
                self._transaction.delete(team.encode(), db=self._tables.team_use)
            else:
                self._transaction.put(team.encode(), value, db=self._tables.team_use)


def read_use(transaction: Any, tables: Tables, team: str) -> TeamUse:
    return TeamUse(transaction.get(team.encode(), db=tables.team_use))
