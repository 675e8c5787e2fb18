"""What a replaced definition and a pause forbid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_changes import old_definitions_start_nothing, paused_starts_nothing
from chaos.check_reads import names_are_registers
from chaos.check_ticks import every_tick_accounted, one_run_a_tick
from chaos.history import Defined, Fired, History, Operation, Seen
from chaos.verdict import Checker
from node.interface import Run, RunKind, RunState
from tests.chaos.histories import EPOCH_MS, GOOD, JOB, effect, job, run, skip, state


def change(kind: Any, invoked_s: float, ended_s: float, **more: Any) -> Operation:
    values = {"kind": kind, "node": "n1", "answer": "ok", "subject": JOB, "version": 2, "effective": True}
    return Operation(**{**values, "invoked_s": invoked_s, "ended_s": ended_s, **more})


def changed(*changes: Operation, runs: tuple[Run, ...], starts_s: tuple[float, ...]) -> History:
    """Runs of the job, and when each made its first attempt."""
    effects = [replace(effect(4), run_id=one.run_id, at_s=at_s) for one, at_s in zip(runs, starts_s, strict=True)]
    return replace(GOOD, operations=list(changes), states=[state(list(runs))], effects=effects)


OLD, NEW, BY_HAND = run(4), run(6, job_version=2), run(8, job_version=2, kind=RunKind.MANUAL)
UPDATE = change("update", 4.0, 5.0)
PAUSE, RESUME = change("pause", 4.0, 5.0), change("resume", 7.0, 8.0, version=3)
LATER = changed(UPDATE, runs=(OLD,), starts_s=(5.1,))

BAD: list[tuple[str, Checker, History, str]] = [
    (
        "a run of an older definition",
        old_definitions_start_nothing,
        changed(UPDATE, runs=(OLD, NEW), starts_s=(5.1, 6.0)),
        OLD.run_id,
    ),
    ("a tick of a paused job", paused_starts_nothing, changed(PAUSE, RESUME, runs=(NEW,), starts_s=(6.0,)), NEW.run_id),
    ("one that is never resumed", paused_starts_nothing, changed(PAUSE, runs=(NEW,), starts_s=(9.0,)), NEW.run_id),
]
GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "one that started before": (
        old_definitions_start_nothing,
        changed(UPDATE, runs=(OLD, NEW), starts_s=(4.9, 6.0)),
    ),
    "a change that is not effective yet": (
        old_definitions_start_nothing,
        changed(replace(UPDATE, effective=False), runs=(OLD,), starts_s=(5.1,)),
    ),
    "a change whose end is not known": (
        old_definitions_start_nothing,
        changed(replace(UPDATE, answer="info", version=None), runs=(OLD,), starts_s=(5.1,)),
    ),
    "a later attempt": (
        old_definitions_start_nothing,
        replace(LATER, effects=[replace(LATER.effects[0], attempt=2)]),
    ),
    "a tick of a job that is resumed": (
        paused_starts_nothing,
        changed(PAUSE, RESUME, runs=(NEW,), starts_s=(7.5,)),
    ),
    "a run that was asked for": (paused_starts_nothing, changed(PAUSE, runs=(BY_HAND,), starts_s=(6.0,))),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_or_excused_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []


def read(at_s: float, version: int) -> Operation:
    seen = Seen(applied_index=round(at_s), stale_s=0.0, jobs={JOB: ("j", version)})
    return Operation(kind="read", node="n1", invoked_s=at_s, ended_s=at_s + 0.1, answer="ok", subject=JOB, seen=seen)


def registers(*operations: Operation) -> list[str]:
    create = Operation(kind="create", node="n1", invoked_s=0, ended_s=1, answer="ok", subject=JOB, name="j")
    return [one.what for one in names_are_registers(replace(GOOD, operations=[create, *operations]))]


def test_a_change_moves_the_version_by_one_or_leaves_it() -> None:
    assert registers(read(2, 1), change("pause", 3, 4), change("pause", 5, 6), read(7, 2)) == []
    assert registers(change("pause", 3, 4), read(7, 1)) != [], "a change that was acknowledged is seen"
    assert registers(change("pause", 3, 4, version=3)) != [], "a version was passed over"
    unknown = change("update", 3, 4, answer="info", version=None, effective=None)
    assert registers(unknown, read(7, 1), read(9, 2)) == [], "it may take effect whenever"
    assert registers(unknown, read(7, 2), read(9, 1)) != [], "it does not go back"
    assert registers(change("pause", 3, 4, answer="fail", refusal=404, version=None)) != [], "it was there"


def test_a_later_definition_may_fire_what_an_earlier_one_had_fired_ahead() -> None:
    def fired(index: int, version: int) -> Fired:
        return Fired(index=index, job_id=JOB, runs_ms=[EPOCH_MS + 4000], skips=[], version=version)

    assert list(one_run_a_tick(replace(GOOD, truth=[fired(1, 1), fired(2, 2)]))) == []
    assert len(list(one_run_a_tick(replace(GOOD, truth=[fired(1, 2), fired(2, 2)])))) == 1


def test_the_ticks_of_a_job_that_was_changed_are_counted_from_its_creation() -> None:
    """A pause that nobody ends leaves its ticks open; all before it are accounted for."""
    made = Defined(index=1, job_id=JOB, version=1, first_ms=EPOCH_MS + 2000, misfire_grace_s=60.0)
    paused = job(version=2, first_due_ms=EPOCH_MS + 8000, paused_ms=EPOCH_MS + 7000)
    runs = [run(2), run(4), run(6)]

    def faults(*kept: Run) -> list[str]:
        left = state(list(kept), jobs={JOB: paused})
        return [one.what for one in every_tick_accounted(replace(GOOD, truth=[made], states=[left]))]

    assert faults(*runs) == []
    assert len(faults(runs[0], runs[2])) == 1
    assert len(faults(*runs[1:])) == 1


def test_what_was_taken_back_may_stand_in_the_range_that_was_passed_over() -> None:
    """And counts once; a tick that ran does not."""
    made = Defined(index=1, job_id=JOB, version=1, first_ms=EPOCH_MS + 2000, misfire_grace_s=60.0)
    resumed = job(version=3, first_due_ms=EPOCH_MS + 92_000)
    taken_back = [run(due_s, RunState.SKIPPED, reason="paused") for due_s in (6, 8)]
    taken_back.append(run(12, RunState.CANCELLED, reason="cancelled: chaos"))

    def faults(*runs: Run) -> list[str]:
        left = state([run(2), run(4), *runs, skip(count=41)], jobs={JOB: resumed})
        history = replace(GOOD, truth=[made], states=[left])
        return [one.what for one in every_tick_accounted(history) if " 2 times" in one.what or "neither" in one.what]

    assert faults(*taken_back) == []
    assert len(faults(taken_back[0], taken_back[1], run(12))) == 1
    assert len(faults(*taken_back[1:])) == 1
