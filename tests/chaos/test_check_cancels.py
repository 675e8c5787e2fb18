"""A cancel that was acknowledged is kept, and what was cancelled is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from chaos.check_cancels import cancelled_is_over, cancels_are_kept
from chaos.history import Absence, History, Operation
from chaos.verdict import Checker
from node.interface import RunState
from tests.chaos.histories import GOOD, effect, effect_end, run, state

RUN_ID = run(8).run_id


def cancelled(
    found: RunState = RunState.CANCELLED,
    *,
    effective: bool = True,
    starts_s: float = 8.0,
    ended_s: float | None = 9.5,
    absences: Sequence[Absence] = (),
) -> History:
    """The run was cancelled from 9 to 10 s; its only attempt was made on n1."""
    operation = Operation(
        kind="cancel", node="n1", invoked_s=9.0, ended_s=10.0, answer="ok", subject=RUN_ID, effective=effective
    )
    ends = [] if ended_s is None else [effect_end(8, at_s=ended_s, how="killed")]
    return replace(
        GOOD,
        operations=[operation],
        states=[state([run(8, found)])],
        effects=[effect(8, at_s=starts_s)],
        effect_ends=ends,
        absences=absences,
    )


def away(how: str, until_s: float) -> Absence:
    return Absence(node=effect(8).node, from_s=9.2, until_s=until_s, how=how)  # type: ignore[arg-type]


BAD: list[tuple[str, Checker, History, str]] = [
    ("a run that succeeded all the same", cancels_are_kept, cancelled(RunState.SUCCEEDED), "succeeded"),
    ("one that is tried again", cancels_are_kept, cancelled(RunState.RETRYING, effective=False), "retrying"),
    ("one that nobody knows", cancels_are_kept, replace(cancelled(), states=[state([])]), "unknown"),
    ("an attempt that begins later", cancelled_is_over, cancelled(starts_s=10.5, ended_s=11.0), "started at 10.5"),
    ("an attempt that goes on", cancelled_is_over, cancelled(ended_s=12.0), "until 12"),
    ("one that never ends", cancelled_is_over, cancelled(ended_s=None), "until"),
    (
        "one of a node that woke",
        cancelled_is_over,
        cancelled(ended_s=15.0, absences=[away("paused", 12.0)]),
        "until 15",
    ),
]
GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "a cancel that was kept": (cancels_are_kept, cancelled()),
    "an attempt that was killed": (cancelled_is_over, cancelled()),
    "one that is not effective yet": (cancelled_is_over, cancelled(effective=False, ended_s=12.0)),
    "a node that was stopped": (cancelled_is_over, cancelled(ended_s=12.5, absences=[away("paused", 12.0)])),
    "a node that was killed": (cancelled_is_over, cancelled(ended_s=None, absences=[away("down", 12.0)])),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_or_excused_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []
