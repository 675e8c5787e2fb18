"""Quotas and turns of teams: what random histories (test_model.py) check for every index, by example."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from statemachine import handout
from statemachine.commands import DeleteTeam, ExpireSession, Fire, PutTeam, RenewSession, Withdraw
from statemachine.keys import run_id_of
from statemachine.records import AttemptOutcome, Team
from tests.statemachine.driver import NOW_MS, Driver, Outcome, fire, tick
from tests.statemachine.test_handout import SECOND, claims, finish, manual, run_now


def set_team(driver: Driver, name: str = "t", **fields: Any) -> Outcome:
    return driver.apply(PutTeam(now_ms=NOW_MS, team=Team(team=name, **fields)))


def teams_of(driver: Driver, outcome: Outcome) -> list[str]:
    return [driver.run(run_id).team for _, run_id in claims(outcome)]


def test_a_team_holds_no_more_than_its_quota(owned: Driver) -> None:
    """(M9, I7) Whatever room there is; others are not kept waiting."""
    set_team(owned, max_concurrent=2)
    owned.put("A")
    owned.put("B", team="other")
    outcome = owned.apply(*(run_now("A", nonce) for nonce in "abcd"), run_now("B", "x", NOW_MS))
    assert Counter(teams_of(owned, outcome)) == {"t": 2, "other": 1}


@pytest.mark.parametrize("ending", ["succeeded", "retry", "withdrawn", "lost"])
def test_a_claim_frees_the_quota_once_however_it_ends(owned: Driver, ending: str) -> None:
    set_team(owned, max_concurrent=1)
    owned.put("A")
    owned.apply(run_now("A", "a"), run_now("A", "b"))
    endings = {
        "succeeded": [finish(manual("A", "a"))],
        "retry": [finish(manual("A", "a"), AttemptOutcome.FAILED)],
        "withdrawn": [Withdraw(now_ms=NOW_MS, run_id=manual("A", "a"), token=1, reason="deadline: late")],
        "lost": [ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0)],
    }
    owned.open_more("n2")
    outcome = owned.apply(*endings[ending])
    assert len(claims(outcome)) == 1
    with owned.snapshot() as snapshot:
        assert snapshot.team_use("t").held == 1


def test_a_quota_that_is_lowered_drains_and_one_that_is_raised_hands_out_at_once(owned: Driver) -> None:
    set_team(owned, max_concurrent=3)
    owned.put("A")
    owned.apply(*(run_now("A", nonce) for nonce in "abcde"))
    set_team(owned, max_concurrent=1)
    assert [claims(owned.apply(finish(manual("A", nonce)))) for nonce in "ab"] == [[], []]
    assert len(claims(owned.apply(finish(manual("A", "c"))))) == 1
    assert len(claims(set_team(owned, max_concurrent=2))) == 1
    set_team(owned, max_concurrent=0)
    owned.apply(run_now("A", "f"))
    assert len(claims(owned.apply(DeleteTeam(now_ms=NOW_MS, team="t")))) == 1


def test_ahead_of_their_time_runs_get_half_of_the_quota(owned: Driver) -> None:
    """A run that is due must not wait for one that only will be."""
    set_team(owned, max_concurrent=3)
    for job_id in "ABC":
        owned.put(job_id, first_due_ms=NOW_MS + SECOND)
    ahead: Fire = fire(*(tick(NOW_MS + SECOND, job_id=job_id) for job_id in "ABC"))
    assert len(claims(owned.apply(ahead))) == 1
    outcome = owned.apply(run_now("A", "x"), run_now("A", "y"), run_now("A", "z"))
    assert len(claims(outcome)) == 2
    renewal = RenewSession(now_ms=NOW_MS + SECOND, node="n1", incarnation=1, renewal=1)
    assert claims(owned.apply(renewal)) == []
    outcome = owned.apply(finish(run_id_of("A", NOW_MS + SECOND)), finish(manual("A", "x")))
    assert len(claims(outcome)) == 2


def test_teams_take_turns_by_weight(driver: Driver) -> None:
    """(M9) Where a turn stands is remembered, one run at a time."""
    set_team(driver, "heavy", weight=3)
    driver.put("A", team="heavy")
    driver.put("B", team="light")
    for job_id in "AB":
        driver.apply(*(run_now(job_id, f"{count}") for count in range(10)))
    served = []
    outcome = driver.open_more("n1", slots=1)
    while (found := claims(outcome)) and len(served) < 12:
        served.append(driver.run(found[0][1]).team)
        outcome = driver.apply(finish(found[0][1]))
    assert served == ["heavy", "heavy", "heavy", "light"] * 3


def test_so_they_do_within_one_apply(driver: Driver) -> None:
    set_team(driver, "heavy", weight=3)
    driver.put("A", team="heavy")
    driver.put("B", team="light")
    for job_id in "AB":
        driver.apply(*(run_now(job_id, f"{count}") for count in range(20)))
    first = driver.open_more("n1", slots=6)
    second = driver.open_more("n2", slots=6)
    turns = ["heavy", "heavy", "heavy", "light"] * 3
    assert [*teams_of(driver, first), *teams_of(driver, second)] == turns


def test_a_team_alone_in_its_class_gets_everything(driver: Driver) -> None:
    set_team(driver, "light", weight=1)
    driver.put("A", team="light")
    driver.apply(*(run_now("A", f"{count}") for count in range(20)))
    assert len(claims(driver.open_more("n1", slots=20))) == 20


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_team_behind_many_full_ones_is_found_within_a_few_applies(
    driver: Driver, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An apply passes over so many of them and no more: a thousand would cost it milliseconds."""
    monkeypatch.setattr(handout, "FULL_TEAMS_MAX", limit)
    driver.open("n1", slots=5, ahead=0)
    for job_id, team in (("A", "full1"), ("B", "full2"), ("C", "full3"), ("D", "free")):
        set_team(driver, team, max_concurrent=0 if team != "free" else 9)
        driver.put(job_id, team=team)
        driver.apply(run_now(job_id, "x"))
    driver.put("E", team="other", priority=1)
    driver.apply(run_now("D", "y"), run_now("E", "y"))
    for renewal in range(1, 5):
        driver.apply(RenewSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=renewal))
    for run_id in (manual("D", "x"), manual("D", "y"), manual("E", "y")):
        assert driver.run(run_id).node == "n1"
