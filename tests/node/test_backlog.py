"""Who starts next on a node whose slots are taken."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as replaced

from node.backlog import Backlog
from node.work import Work
from statemachine.records import ContainerTarget
from tests.node.test_attempts import work


def of_team(run_id: str, team: str, *, release_ms: int = 0, priority: int = 5) -> Work:
    one = work(run_id, priority=priority)
    job = replaced(one.definition.job, team=team)
    return replace(one, claim=replaced(one.claim, release_ms=release_ms), definition=replace(one.definition, job=job))


def order(backlog: Backlog) -> list[str]:
    taken = []
    while (one := backlog.pop()) is not None:
        taken.append(one.claim.run_id)
    return taken


def test_ten_thousand_of_one_team_do_not_keep_another_waiting() -> None:
    """(M9) Although they are older: they were handed out ahead of their time, when nobody waited."""
    backlog = Backlog()
    for number in range(10_000):
        backlog.push(of_team(f"a{number:05}", "crowd", release_ms=number))
    backlog.push(of_team("b", "single", release_ms=20_000))
    assert backlog.pop() is not None
    assert (one := backlog.pop()) is not None and one.claim.run_id == "b"
    assert len(backlog) == 9_999


def test_priority_goes_before_turns_and_turns_before_time() -> None:
    backlog = Backlog()
    for run_id, team, release_ms, priority in (
        *(("a1", "a", 1, 5), ("a2", "a", 2, 5), ("b9", "b", 9, 5)),
        *(("low", "c", 0, 1), ("high", "c", 99, 9)),
    ):
        backlog.push(of_team(run_id, team, release_ms=release_ms, priority=priority))
    assert order(backlog) == ["high", "a1", "b9", "a2", "low"]
    assert not len(backlog)


def test_a_kind_without_slots_is_passed_over() -> None:
    backlog = Backlog()
    backlog.push(work("c", ContainerTarget(image="x"), priority=9))
    backlog.push(work("h"))
    assert (one := backlog.pop(without=["container"])) is not None and one.claim.run_id == "h"
    assert backlog.pop(without=["container"]) is None
    assert order(backlog) == ["c"]


def test_what_is_taken_out_is_gone() -> None:
    backlog = Backlog()
    for run_id in ("a", "b", "c"):
        backlog.push(work(run_id))
    assert backlog.take_out(lambda one: one.claim.run_id == "x") == []
    assert [one.claim.run_id for one in backlog.take_out(lambda one: one.claim.run_id != "b")] == ["a", "c"]
    assert order(backlog) == ["b"]
