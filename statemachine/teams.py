"""PutTeam and DeleteTeam: what a team may use."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from statemachine.codec import encode
from statemachine.commands import DeleteTeam, PutTeam, TeamReply
from statemachine.definition import is_keep, is_notify
from statemachine.limits import INT_MAX, TEAM_LENGTH_MAX, TEAMS_MAX, WEIGHT_MAX
from statemachine.records import Team
from statemachine.work import Work


def put_team(work: Work, command: PutTeam) -> TeamReply:
    """Set or change what a team may use. A quota that is lowered drains: it takes back nothing."""
    flaw = _flaw_of(command.team)
    if flaw is not None:
        return TeamReply(code="malformed", detail=flaw)
    name = command.team.team
    before = work.team_record(name)
    version = 0 if before is None else before.version
    if command.expected_version not in (None, version):
        return TeamReply(code="version_conflict", version=version)
    if before is None and work.transaction.stat(work.tables.teams)["entries"] >= TEAMS_MAX:
        return TeamReply(code="teams_limit")
    team = msgspec.structs.replace(command.team, version=version + 1, updated_ms=work.now_ms)
    work.transaction.put(name.encode(), encode(team), db=work.tables.teams)
    work.forget_team(name)
    return TeamReply(version=team.version)


def delete_team(work: Work, command: DeleteTeam) -> TeamReply:
    """Back to the defaults."""
    before = work.team_record(command.team)
    if before is None:
        return TeamReply(code="unknown_team")
    if command.expected_version not in (None, before.version):
        return TeamReply(code="version_conflict", version=before.version)
    work.transaction.delete(command.team.encode(), db=work.tables.teams)
    work.forget_team(command.team)
    return TeamReply(version=before.version)


def _flaw_of(team: Team) -> str | None:
    for field, is_right in _CHECKS:
        if not is_right(team):
            return f"team.{field} is out of its limits"
    return None


def _is_count(value: int | None) -> bool:
    return value is None or 0 <= value <= INT_MAX


_CHECKS: tuple[tuple[str, Callable[[Team], bool]], ...] = (
    ("team", lambda team: 1 <= len(team.team) <= TEAM_LENGTH_MAX and "\0" not in team.team),
    ("max_concurrent", lambda team: _is_count(team.max_concurrent)),
    ("weight", lambda team: 1 <= team.weight <= WEIGHT_MAX),
    ("notify", lambda team: is_notify(team.notify)),
    ("keep_runs", lambda team: is_keep(team.keep_runs, team.keep_days)),
    ("max_jobs", lambda team: _is_count(team.max_jobs)),
)
