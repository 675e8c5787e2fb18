"""What teams may use (beyond what the transcripts show)."""

from __future__ import annotations

from typing import Any

import pytest

from statemachine import limits, teams
from statemachine.commands import DeleteJob, DeleteTeam, PutTeam
from statemachine.records import Team
from tests.statemachine.driver import NOW_MS, Driver


def put_team(driver: Driver, name: str = "red", *, expected_version: int | None = None, **fields: Any) -> Any:
    team = Team(team=name, **fields)
    return driver.apply(PutTeam(now_ms=NOW_MS, team=team, expected_version=expected_version)).reply


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("team", ""),
        ("team", "a\0b"),
        ("team", "x" * (limits.TEAM_LENGTH_MAX + 1)),
        ("max_concurrent", -1),
        ("max_concurrent", limits.INT_MAX + 1),
        ("weight", 0),
        ("weight", limits.WEIGHT_MAX + 1),
        ("max_jobs", -1),
    ],
)
def test_each_limit_is_refused_by_name(driver: Driver, field: str, value: Any) -> None:
    reply = put_team(driver, **({"name": "red"} | {("name" if field == "team" else field): value}))
    assert (reply.code, reply.detail) == ("malformed", f"team.{field} is out of its limits")


def test_the_machine_itself_counts_the_versions_and_stamps_them(driver: Driver) -> None:
    """Whatever the proposer wrote there: without an expected version nobody can know the next one."""
    put_team(driver, version=7, updated_ms=3)
    assert put_team(driver, weight=5).version == 2
    with driver.snapshot() as snapshot:
        assert snapshot.team("red") == Team(team="red", weight=5, version=2, updated_ms=NOW_MS)


def test_there_is_a_limit_on_teams_with_settings(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teams, "TEAMS_MAX", 2)
    codes = [put_team(driver, name).code for name in ("a", "b", "c", "a")]
    assert codes == ["ok", "ok", "teams_limit", "ok"]
    driver.apply(DeleteTeam(now_ms=NOW_MS, team="a"))
    assert put_team(driver, "c").code == "ok"


def test_teams_are_listed_once_each_whether_they_have_settings_or_jobs(driver: Driver) -> None:
    for name in ("b", "d"):
        put_team(driver, name)
    for job_id, team in (("A", "a"), ("B", "b"), ("C", "c")):
        driver.put(job_id, team=team)
    with driver.snapshot() as snapshot:
        assert list(snapshot.team_names()) == ["a", "b", "c", "d"]
        assert list(snapshot.team_names(after="b")) == ["c", "d"]
        assert (snapshot.team("a"), snapshot.team(""), snapshot.team("x" * 600)) == (None, None, None)
        assert (snapshot.team_use("a").jobs, snapshot.team_use("").jobs, snapshot.team_use("x" * 600).jobs) == (1, 0, 0)


def test_a_team_without_anything_leaves_no_row(driver: Driver) -> None:
    driver.put("A", team="red")
    assert driver.table("team_use")
    driver.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    assert not driver.table("team_use")
