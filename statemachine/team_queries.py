"""What can be asked of the state about teams, lanes and slow targets; and how it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any

from statemachine.codec import decode_run, decode_target_score, decode_team
from statemachine.keys import LANE_END, split_waiting_key, team_prefix
from statemachine.limits import TEAM_LENGTH_MAX
from statemachine.records import Run, Team
from statemachine.tables import Tables
from statemachine.usage import TeamUse, read_use


class TeamQueries:
    """A part of Snapshot, whose docstring says how long it is good for."""

    def __init__(self, transaction: Any, tables: Tables) -> None:
        self._transaction = transaction
        self._tables = tables

    def team(self, team: str) -> Team | None:
        """The team's settings; None if it has none of its own."""
        if not 1 <= len(team) <= TEAM_LENGTH_MAX:
            return None
        value = self._get(self._tables.teams, team.encode())
        return None if value is None else decode_team(value)

    def team_use(self, team: str) -> TeamUse:
        return read_use(self._transaction, self._tables, team[:TEAM_LENGTH_MAX] or " ")

    def team_names(self, after: str | None = None) -> Iterator[str]:
        """Every team that has settings, jobs or claims, in order, after this one."""
        start = b"" if after is None else team_prefix(after[:TEAM_LENGTH_MAX])
        tables = (self._tables.teams, self._tables.team_use)
        last = None
        for key, _ in merge(*(self._under(table, b"", start) for table in tables)):
            if key != last:
                yield key.decode()
            last = key

    def lanes_waiting(self) -> Iterator[tuple[bytes, Run]]:
        """Each lane in which runs wait, and one of them: they all need the same of a session."""
        cursor = self._transaction.cursor(db=self._tables.waiting)
        found = cursor.first()
        while found:
            lane, _, _, run_id = split_waiting_key(cursor.key())
            value = self._get(self._tables.runs, run_id.encode())
            assert value is not None, "a waiting run must exist"
            yield lane, decode_run(value)
            found = cursor.set_range(lane + LANE_END)

    def lane_depth(self, lane: bytes, limit: int) -> int:
        """How many runs wait in a lane, counted up to the limit."""
        return sum(1 for _ in islice(self._under(self._tables.waiting, lane), limit))

    def slow_targets(self) -> list[str]:
        """The targets whose runs hold only a share of the slots, by name."""
        scores = [decode_target_score(value) for _, value in self._under(self._tables.targets, b"")]
        return sorted(score.target for score in scores if score.slow)

    # --- how

    def _get(self, table: Any, key: bytes) -> bytes | None:
        value: bytes | None = self._transaction.get(key, db=table)
        return value

    def _under(self, table: Any, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Entries whose keys begin with the prefix, in order, from the key `start`."""
        cursor = self._transaction.cursor(db=table)
        found = cursor.set_range(max(prefix, start))
        while found and cursor.key().startswith(prefix):
            yield cursor.item()
            found = cursor.next()
