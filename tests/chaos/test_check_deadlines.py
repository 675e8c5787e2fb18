"""Nothing rests past its deadline, and nothing begins after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.check_deadlines import deadlines_are_enforced, nothing_begins_too_late
from chaos.history import History
from chaos.verdict import Checker
from node.interface import Run, RunState
from tests.chaos.histories import EPOCH_MS, GOOD, claimed, job, run, state


def left(one: Run) -> History:
    return replace(GOOD, states=[state([one])])


def handed_out(at_s: float, version: int = 1) -> History:
    """A run that is released at 4 s, of a job that gives it 6 s to begin."""
    limited = job(start_deadline_s=6.0, version=version)
    return replace(GOOD, truth=[claimed(4, at_s=at_s)], states=[state([], jobs={"job1": limited})])


SOON_MS = EPOCH_MS + 6000
LATER_MS = EPOCH_MS + 10_000_000
BAD: list[tuple[str, Checker, History, str]] = [
    ("a run that never began", deadlines_are_enforced, left(run(4, RunState.QUEUED, start_by_ms=SOON_MS)), "queued"),
    ("one that goes on", deadlines_are_enforced, left(run(4, RunState.RETRYING, end_by_ms=SOON_MS)), "retrying"),
    ("one that begins too late", nothing_begins_too_late, handed_out(20.0), "10.0 s after"),
]
GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "one that has ended": (deadlines_are_enforced, left(run(4, end_by_ms=SOON_MS))),
    "one that has time": (deadlines_are_enforced, left(run(4, RunState.QUEUED, start_by_ms=LATER_MS))),
    "one that has begun": (
        deadlines_are_enforced,
        left(run(4, RunState.RUNNING, start_by_ms=SOON_MS, end_by_ms=LATER_MS)),
    ),
    "one that is handed out in time": (nothing_begins_too_late, handed_out(9.0)),
    "one whose job was changed": (nothing_begins_too_late, handed_out(20.0, version=2)),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []
