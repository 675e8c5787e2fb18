"""I3, I4, I7, I8, I9: who may work on what, and when; each checker meets what it must catch and what it must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_attempts import attempts_are_numbered, late_comers_are_excused, successes_were_seen
from chaos.check_overlap import held_within_room, no_two_at_once, skips_say_why
from chaos.check_sessions import deleted_starts_nothing, lapsed_has_killed, lapsed_starts_nothing
from chaos.history import Absence, History, Withdrawn
from chaos.verdict import Checker
from node.interface import Attempt, AttemptOutcome, RunState
from tests.chaos.histories import (
    GONE,
    GOOD,
    JOB,
    claimed,
    effect,
    effect_end,
    finished,
    job,
    run,
    state,
    with_effects,
    with_runs,
    with_truth,
)

OVER_S = 60.0
"""When the session of n1 ends in the good history."""


def attempts(*outcomes: AttemptOutcome, first: int = 1) -> tuple[Attempt, ...]:
    return tuple(Attempt(attempt=number, node="n1", outcome=one) for number, one in enumerate(outcomes, first))


def exclusive(*truth: Any) -> History:
    """A job that skips overlaps, and what became of its runs."""
    return replace(GOOD, truth=truth, states=[state([], jobs={JOB: job(overlap_policy="skip")})])


def skipped(reason: str | None) -> History:
    return with_runs(run(2), run(4, RunState.SKIPPED, reason=reason))


def running_at_the_end(ended_s: float | None, *absences: Absence) -> History:
    """An attempt of n1 that begins shortly before its session ends."""
    ends = [] if ended_s is None else [effect_end(8, 2, at_s=ended_s)]
    history = replace(with_truth(claimed(8, 2)), absences=absences, effect_ends=ends)
    return replace(history, effects=[effect(8, 2, at_s=58.0)])


def paused(from_s: float, until_s: float, **changes: Any) -> Absence:
    return Absence(**{"node": "n1", "from_s": from_s, "until_s": until_s, "how": "paused", **changes})


SUCCEEDED, FAILED = AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED
TORN = replace(with_effects(effect(8, 2), effect(8, 1, at_s=9.3)), absences=[paused(8.1, 9.2)], pauses_tear=True)

BAD: list[tuple[str, Checker, History, str]] = [
    ("two at once", no_two_at_once, exclusive(claimed(2), claimed(4), finished(2)), "while 2-job1"),
    ("one in the back-off of another", no_two_at_once, exclusive(claimed(2), claimed(4), claimed(2, 2)), "while"),
    ("a skip without a reason", skips_say_why, skipped(None), "for None"),
    ("a skip for an unknown reason", skips_say_why, skipped("a whim"), "for 'a whim'"),
    ("an overlap with nobody", skips_say_why, skipped("overlap"), "with nothing"),
    ("an overlap with an unknown run", skips_say_why, skipped("overlap: 9-job1"), "with 9-job1"),
    ("an overlap with itself", skips_say_why, skipped(f"overlap: 4-{JOB}"), "with 4-job1"),
    (
        "more than its room",
        held_within_room,
        with_truth(*(claimed(100 + due_s) for due_s in range(9)))
        and replace(GOOD, truth=[*GOOD.truth[:-1], *(claimed(100 + due_s) for due_s in range(9))]),
        "held 9 claims",
    ),
    (
        "a success that no target told",
        successes_were_seen,
        replace(GOOD, effect_ends=GOOD.effect_ends[1:]),
        "no target",
    ),
    (
        "a success of another attempt",
        successes_were_seen,
        replace(GOOD, effect_ends=[*GOOD.effect_ends[1:], effect_end(2, 2)]),
        "under token 1",
    ),
    (
        "a failure told as a success",
        successes_were_seen,
        replace(GOOD, effect_ends=[*GOOD.effect_ends[1:], effect_end(2, how="failed")]),
        "no target",
    ),
    (
        "a gap between attempts",
        attempts_are_numbered,
        with_runs(run(2, attempts=attempts(SUCCEEDED, first=2))),
        "attempts [2]",
    ),
    (
        "tried again after a success",
        attempts_are_numbered,
        with_runs(run(2, attempts=attempts(SUCCEEDED, SUCCEEDED))),
        "after a success",
    ),
    ("a failure that counts", attempts_are_numbered, with_runs(run(2, attempts=attempts(FAILED))), "did not"),
    ("a zombie's call", late_comers_are_excused, with_effects(effect(8, 2), effect(8, 1, at_s=9.3)), "under token 1"),
    ("a zombie that was awake", late_comers_are_excused, replace(TORN, absences=[paused(2.0, 8.0)]), "under token 1"),
    ("started after its delete", deleted_starts_nothing, with_effects(effect(8, job_id=GONE)), "was deleted by"),
    ("started after the lapse", lapsed_starts_nothing, with_effects(effect(8, at_s=60.5)), "its session ended"),
    ("not killed at the lapse", lapsed_has_killed, running_at_the_end(61.0), "until 61"),
    ("never ended", lapsed_has_killed, running_at_the_end(None), "until 95"),
    ("not killed when it woke", lapsed_has_killed, running_at_the_end(66.0, paused(57.0, 62.0)), "until 66"),
    ("it had woken before", lapsed_has_killed, running_at_the_end(62.0, paused(57.0, 59.0)), "until 62"),
    ("only its log was stopped", lapsed_has_killed, running_at_the_end(62.0, paused(57.0, 65.0, process="log")), "62"),
    ("another was stopped", lapsed_has_killed, running_at_the_end(62.0, paused(57.0, 65.0, node="n2")), "until 62"),
]

GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "one after the other": (no_two_at_once, exclusive(claimed(2), finished(2), claimed(4), finished(4))),
    "at once where that is allowed": (no_two_at_once, with_truth(claimed(70), claimed(72), finished(70))),
    "a result that was refused": (
        no_two_at_once,
        exclusive(claimed(2), finished(2), claimed(4), finished(2, 1, "fenced"), finished(4)),
    ),
    "an overlap that names the other": (skips_say_why, skipped(f"overlap: 2-{JOB}")),
    "a misfire": (skips_say_why, skipped("misfire")),
    "its room again and again": (
        held_within_room,
        replace(
            GOOD,
            truth=[
                GOOD.truth[0],
                *(
                    entry
                    for due_s in range(20)
                    for entry in (
                        claimed(due_s),
                        Withdrawn(index=due_s, run_id=f"{due_s}-{JOB}", token=1, code="ok")
                        if due_s % 2
                        else finished(due_s),
                    )
                ),
            ],
        ),
    ),
    "targets that nobody watches": (successes_were_seen, replace(GOOD, effect_ends=[], witnessed=("http",))),
    "a success after failures": (
        attempts_are_numbered,
        with_runs(run(2, attempts=attempts(FAILED, AttemptOutcome.LOST, SUCCEEDED))),
    ),
    "stopped between its check and its call": (late_comers_are_excused, TORN),
    "a retry of a deleted job": (deleted_starts_nothing, with_effects(effect(8, 2, job_id=GONE))),
    "torn at the lapse": (
        lapsed_starts_nothing,
        replace(with_effects(effect(8, at_s=60.5)), absences=[paused(58.0, 60.4)], pauses_tear=True),
    ),
    "killed in time": (lapsed_has_killed, running_at_the_end(59.9)),
    "killed when it woke": (lapsed_has_killed, running_at_the_end(65.5, paused(57.0, 65.0))),
    "killed itself": (lapsed_has_killed, running_at_the_end(None, paused(59.0, 70.0, how="down"))),
    "its target went on": (lapsed_has_killed, running_at_the_end(64.0, paused(59.0, 62.0, how="down"))),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_or_excused_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []


def test_a_pause_excuses_no_start_whose_time_came_while_it_lasted() -> None:
    """Nobody can have checked it before the pause."""
    late = replace(with_effects(effect(8, at_s=60.5)), absences=[paused(6.0, 60.4)], pauses_tear=True)
    assert list(lapsed_starts_nothing(late))


def test_a_pause_excuses_only_where_it_can_tear() -> None:
    """The simulator stops nobody between a check and its step, so there it is no excuse."""
    assert list(late_comers_are_excused(replace(TORN, pauses_tear=False)))
