"""The commands about teams (teams.py)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from statemachine.command_types import Command, Count
from statemachine.limits import TEAM_LENGTH_MAX
from statemachine.records import Team


class PutTeam(Command, frozen=True, kw_only=True, tag="put_team"):
    """Set what a team may use. `expected_version` None: whatever it was; 0: it has no settings yet; else a
    compare-and-set. The machine itself counts the version on and stamps it."""

    team: Team
    expected_version: Count | None = None


class DeleteTeam(Command, frozen=True, kw_only=True, tag="delete_team"):
    """Take a team's settings away: it has the defaults again. Its jobs stay."""

    team: Annotated[str, Meta(min_length=1, max_length=TEAM_LENGTH_MAX)]
    expected_version: Count | None = None
