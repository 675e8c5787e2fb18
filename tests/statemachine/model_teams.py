"""The model's teams: what they may use."""

from __future__ import annotations

from msgspec.structs import replace

from statemachine import commands as c
from statemachine.records import Job
from tests.statemachine.model_handout import ModelHandOut


class ModelTeams(ModelHandOut):
    """Commands about teams, and what they count."""

    def put_team(self, command: c.PutTeam) -> c.Reply:
        before = self.teams.get(command.team.team)
        version = 0 if before is None else before.version
        if command.expected_version not in (None, version):
            return c.TeamReply(code="version_conflict", version=version)
        self.teams[command.team.team] = replace(command.team, version=version + 1, updated_ms=self.now_ms)
        return c.TeamReply(version=version + 1)

    def delete_team(self, command: c.DeleteTeam) -> c.Reply:
        before = self.teams.get(command.team)
        if before is None:
            return c.TeamReply(code="unknown_team")
        if command.expected_version not in (None, before.version):
            return c.TeamReply(code="version_conflict", version=before.version)
        del self.teams[command.team]
        return c.TeamReply(version=before.version)

    def jobs_of(self, team: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.team == team]
