"""Deadlines of this node's buckets are proposed once the cluster's clock has passed them, a bounded number at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from node import deadline_watch
from node.deadline_watch import AGAIN_AFTER_S, DeadlineWatch
from statemachine.commands import Deadline

OWNED = {7}


@dataclass
class View:
    clock: int | None = 1000
    deadlines: list[tuple[int, int, str]] = field(default_factory=list)

    def clock_ms(self) -> int | None:
        return self.clock

    def deadlines_until(self, until_ms: int) -> Iterable[tuple[int, int, str]]:
        return [due for due in sorted(self.deadlines) if due[0] <= until_ms]


def ids(proposed: list[Deadline]) -> list[str]:
    return [one.run_id for one in proposed]


def test_what_has_passed_by_the_clusters_clock_is_proposed_by_the_owner_of_its_bucket() -> None:
    watch = DeadlineWatch()
    view = View(deadlines=[(900, 7, "a"), (900, 8, "another's"), (1001, 7, "later")])
    assert watch.step(0.0, 5000, view, OWNED) == [Deadline(now_ms=5000, run_id="a", at_ms=900)]
    view.clock = 1001
    assert ids(watch.step(0.1, 5000, view, OWNED)) == ["later"], "the first has not been answered"


def test_nothing_is_proposed_without_a_clock_or_buckets() -> None:
    view = View(clock=None, deadlines=[(0, 7, "a")])
    assert DeadlineWatch().step(0.0, 5000, view, OWNED) == []
    view.clock = 1000
    assert DeadlineWatch().step(0.0, 5000, view, set()) == []


def test_a_run_that_its_holder_has_not_let_go_of_is_proposed_again() -> None:
    watch, view = DeadlineWatch(), View(deadlines=[(900, 7, "a")])
    [proposed] = watch.step(0.0, 5000, view, OWNED)
    watch.answered(1.0, proposed)
    assert watch.step(1.0 + AGAIN_AFTER_S / 2, 5000, view, OWNED) == []
    assert ids(watch.step(1.0 + AGAIN_AFTER_S, 5000, view, OWNED)) == ["a"]


def test_so_many_are_under_way_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_watch, "IN_FLIGHT_MAX", 2)
    watch, view = DeadlineWatch(), View(deadlines=[(900, 7, name) for name in "abc"])
    first = watch.step(0.0, 5000, view, OWNED)
    assert (ids(first), watch.step(0.0, 5000, view, OWNED)) == (["a", "b"], [])
    watch.answered(0.0, first[0])
    assert ids(watch.step(0.1, 5000, view, OWNED)) == ["c"]
