"""Teams as the real service knows them, where the twin cannot show it."""

from __future__ import annotations

import pytest

from node import teams
from node.interface import Conflict, NotFound, PreconditionFailed, TeamDraft
from tests.node.conftest import LiveNode
from tests.node.test_service import draft


async def test_a_team_shows_its_jobs_and_what_nodes_hold_of_it(live: LiveNode) -> None:
    await live.wait_for_session()
    made = await live.service.create_job(draft(team="red"))
    view, _ = await live.service.team("red")
    assert (view.jobs, view.held, view.team.version) == (1, 0, 0)
    await live.service.delete_job(made.job_id)
    with pytest.raises(NotFound):
        await live.service.team("red")


async def test_settings_are_compared_and_set(idle: LiveNode) -> None:
    assert (await idle.service.put_team("red", TeamDraft(weight=2), expected_version=0)).team.version == 1
    with pytest.raises(PreconditionFailed):
        await idle.service.put_team("red", TeamDraft(), expected_version=0)
    with pytest.raises(PreconditionFailed):
        await idle.service.delete_team("red", expected_version=2)
    await idle.service.delete_team("red", expected_version=1)
    with pytest.raises(NotFound):
        await idle.service.delete_team("red")


async def test_the_limit_on_teams_is_named(idle: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.teams.TEAMS_MAX", 1)
    monkeypatch.setattr(teams, "TEAMS_MAX", 1)
    await idle.service.put_team("red", TeamDraft())
    with pytest.raises(Conflict, match="1 teams with settings"):
        await idle.service.put_team("blue", TeamDraft())
