"""Teams as the API knows them: what they may use, and what they have."""

from __future__ import annotations

from itertools import islice

import msgspec

from node.aftermath_rules import keep_faults, notify_faults
from node.afterwards import seen_afterwards
from node.clock import Clock
from node.cursors import TEAMS, decode_cursor, encode_cursor
from node.interface import (
    TEAM_LENGTH_MAX,
    Conflict,
    Consistency,
    FieldError,
    Invalid,
    NotFound,
    PreconditionFailed,
    Read,
    TeamDraft,
    TeamPage,
    TeamView,
)
from node.proposing import expect_ok
from node.reads import Reads
from node.text_rules import identifier_fault
from node.writes import Writes
from statemachine.commands import DeleteTeam, PutTeam
from statemachine.limits import INT_MAX, TEAMS_MAX, WEIGHT_MAX
from statemachine.records import Team
from statemachine.snapshot import Snapshot


class Teams:
    """Reads and changes of teams."""

    def __init__(self, *, reads: Reads, writes: Writes, clock: Clock) -> None:
        self._reads = reads
        self._writes = writes
        self._clock = clock

    async def team(self, team: str, *, consistency: Consistency = "linearizable") -> tuple[TeamView, Read]:
        index = await self._reads.stand_at(consistency)
        with self._reads.open_at(index) as (snapshot, read):
            view = _view(snapshot, team)
        if not (view.team.version or view.jobs or view.held):
            raise NotFound(f"There is no team {team}.")
        return view, read

    async def teams(self, *, limit: int, cursor: str | None, consistency: Consistency) -> TeamPage:
        after = decode_cursor(TEAMS, cursor)
        index = await self._reads.stand_at(consistency)
        with self._reads.open_at(index) as (snapshot, read):
            names = list(islice(snapshot.team_names(after), limit + 1))
            items = [_view(snapshot, name) for name in names[:limit]]
        more = encode_cursor(TEAMS, names[limit - 1]) if len(names) > limit else None
        return TeamPage(items=items, next_cursor=more, read=read)

    async def put(self, team: str, draft: TeamDraft, *, expected_version: int | None) -> TeamView:
        errors = faults_of(team, draft, allow_link_local=self._writes.allow_link_local)
        if errors:
            raise Invalid(errors=errors)
        record = Team(team=team, **msgspec.structs.asdict(draft))
        command = PutTeam(now_ms=self._clock.wall_ms(), team=record, expected_version=expected_version)
        reply = await self._writes.propose(command)
        if reply.code == "version_conflict":
            raise PreconditionFailed
        if reply.code == "teams_limit":
            raise Conflict(f"There are {TEAMS_MAX} teams with settings already; delete some first.")
        expect_ok(reply)
        return (await seen_afterwards("The team was set", self.team(team)))[0]

    async def delete(self, team: str, *, expected_version: int | None) -> None:
        command = DeleteTeam(now_ms=self._clock.wall_ms(), team=team, expected_version=expected_version)
        reply = await self._writes.propose(command)
        if reply.code == "unknown_team":
            raise NotFound(f"Team {team} has no settings.")
        if reply.code == "version_conflict":
            raise PreconditionFailed
        expect_ok(reply)


def faults_of(team: str, draft: TeamDraft, *, allow_link_local: bool) -> list[FieldError]:
    """What is wrong with a team's name and settings."""
    ranges = (
        ("max_concurrent", draft.max_concurrent, 0, INT_MAX),
        ("weight", draft.weight, 1, WEIGHT_MAX),
        ("max_jobs", draft.max_jobs, 0, INT_MAX),
    )
    faults = [
        FieldError(
            path=path, message=f"must be an integer from {least} to {most}" + (", or null" if least == 0 else "")
        )
        for path, value, least, most in ranges
        if value is not None and not least <= value <= most
    ]
    faults += notify_faults(draft.notify, allow_link_local=allow_link_local)
    faults += keep_faults(draft.keep_runs, draft.keep_days)
    name_fault = identifier_fault(team, TEAM_LENGTH_MAX)
    return faults if name_fault is None else [FieldError(path="team", message=name_fault), *faults]


def _view(snapshot: Snapshot, team: str) -> TeamView:
    record, use = snapshot.team(team), snapshot.team_use(team)
    return TeamView(team=record or Team(team=team, version=0), jobs=use.jobs, held=use.held)
