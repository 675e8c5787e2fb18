"""The list of dead runs: what is to be looked at by somebody, by team."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from statemachine.keys import AFTER_SEPARATOR, SEPARATOR, team_prefix
from statemachine.limits import TEAM_LENGTH_MAX
from statemachine.tables import Tables

_AFTER_ALL = b"g"
"""Sorts behind every run id: those begin with hex digits."""


def dead_run_ids(
    transaction: Any, tables: Tables, team: str | None, job_id: str | None, before: str | None
) -> Iterator[str]:
    """Ids of a team's dead runs, or of all teams', the latest due first, from below the run id `before`; with `job_id`
    only those of that job."""
    if team is not None and len(team) > TEAM_LENGTH_MAX:
        return iter(())
    teams = _teams(transaction, tables) if team is None else [team]
    end = _AFTER_ALL if before is None else before.encode()
    found = merge(*(_of_team(transaction, tables, one, end) for one in teams), reverse=True)
    return (run_id for run_id in found if job_id is None or run_id[13:].partition("-")[0] == job_id)


def _teams(transaction: Any, tables: Tables) -> list[str]:
    """Those that have any, found one seek a team."""
    teams: list[str] = []
    cursor = transaction.cursor(db=tables.dead_runs)
    found = cursor.first()
    while found:
        teams.append(cursor.key().split(SEPARATOR, 1)[0].decode())
        found = cursor.set_range(teams[-1].encode() + AFTER_SEPARATOR)
    return teams


def _of_team(transaction: Any, tables: Tables, team: str, end: bytes) -> Iterator[str]:
    prefix = team_prefix(team)
    cursor = transaction.cursor(db=tables.dead_runs)
    found = cursor.prev() if cursor.set_range(prefix + end) else cursor.last()
    while found and cursor.key().startswith(prefix):
        yield cursor.key()[len(prefix) :].decode()
        found = cursor.prev()
