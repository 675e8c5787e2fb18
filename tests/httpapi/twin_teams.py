"""The part of the in-memory scheduler that knows teams."""

from __future__ import annotations

import msgspec

from node.interface import (
    LIST_LIMIT_DEFAULT,
    Consistency,
    Job,
    NotFound,
    PreconditionFailed,
    Read,
    Team,
    TeamDraft,
    TeamPage,
    TeamView,
)
from tests.httpapi.twin_checks import check, cut, decode_cursor, team_faults


class TwinTeams:
    """Teams, on the jobs and the time of the twin that this is a part of."""

    now_ms: int
    jobs_by_id: dict[str, Job]
    teams_by_name: dict[str, Team]

    async def team(self, team: str, *, consistency: Consistency = "linearizable") -> tuple[TeamView, Read]:
        self._check_alive()
        if team not in self._team_names():
            raise NotFound(f"There is no team {team}.")
        return self._team_view(team), self._read(consistency)

    async def teams(
        self,
        *,
        limit: int = LIST_LIMIT_DEFAULT,
        cursor: str | None = None,
        consistency: Consistency = "linearizable",
    ) -> TeamPage:
        self._check_alive()
        after = decode_cursor(cursor)
        names = [name for name in sorted(self._team_names()) if after is None or name > after]
        shown, next_cursor = cut(names, limit)
        items = [self._team_view(name) for name in shown]
        return TeamPage(items=items, next_cursor=next_cursor, read=self._read(consistency))

    async def put_team(self, team: str, draft: TeamDraft, *, expected_version: int | None = None) -> TeamView:
        self._check_alive()
        check(team_faults(team, draft))
        version = self.teams_by_name[team].version if team in self.teams_by_name else 0
        if expected_version not in (None, version):
            raise PreconditionFailed
        settings = msgspec.structs.asdict(draft)
        self.teams_by_name[team] = Team(team=team, version=version + 1, updated_ms=self.now_ms, **settings)
        return self._team_view(team)

    async def delete_team(self, team: str, *, expected_version: int | None = None) -> None:
        self._check_alive()
        if team not in self.teams_by_name:
            raise NotFound(f"Team {team} has no settings.")
        if expected_version not in (None, self.teams_by_name[team].version):
            raise PreconditionFailed
        del self.teams_by_name[team]

    # --- inside

    def _check_alive(self) -> None:
        raise NotImplementedError

    def _read(self, consistency: Consistency) -> Read:
        raise NotImplementedError

    def _team_names(self) -> set[str]:
        jobs = {job.team for job in self.jobs_by_id.values() if job.deleted_ms is None}
        return {*self.teams_by_name, *jobs}

    def _team_view(self, team: str) -> TeamView:
        jobs = [job for job in self.jobs_by_id.values() if job.team == team and job.deleted_ms is None]
        return TeamView(team=self.teams_by_name.get(team, Team(team=team, version=0)), jobs=len(jobs), held=0)
