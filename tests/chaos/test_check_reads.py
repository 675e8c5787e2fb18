"""I10: each checker of reads passes what linearizable registers do, and catches what they cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_reads import (
    indexes_rise,
    names_are_registers,
    one_holder_a_list,
    runs_stay_known,
    same_index_same_answer,
)
from chaos.history import History, Operation, OperationKind, Seen
from chaos.verdict import Checker

JOB, OTHER, NAME = "job1", "job2", "backup"
EMPTY = History(
    operations=[],
    truth=[],
    effects=[],
    effect_ends=[],
    faults=[],
    states=[],
    healed_s=50.0,
    leader_again_s=51.0,
    end_s=95.0,
    epoch_ms=0,
)


def operation(kind: OperationKind, from_s: float, until_s: float, **changes: Any) -> Operation:
    values = {"kind": kind, "node": "n1", "invoked_s": from_s, "ended_s": until_s, "answer": "ok"}
    return Operation(**{**values, **changes})


def create(from_s: float, until_s: float, job_id: str | None = JOB, **changes: Any) -> Operation:
    return operation("create", from_s, until_s, **{"subject": job_id, "name": NAME, **changes})


def taken(from_s: float, until_s: float) -> Operation:
    return create(from_s, until_s, None, answer="fail", refusal=409)


def delete(from_s: float, until_s: float, **changes: Any) -> Operation:
    return operation("delete", from_s, until_s, **{"subject": JOB, **changes})


def seen(*job_ids: str, version: int = 1, index: int | None = None, stale_s: float = 0.0) -> Seen:
    jobs = dict.fromkeys(job_ids, (NAME, version))
    return Seen(applied_index=index, stale_s=stale_s, jobs=jobs)


def read(from_s: float, until_s: float, what: Seen, **changes: Any) -> Operation:
    return operation("read", from_s, until_s, **{"subject": JOB, "seen": what, **changes})


def listed(from_s: float, until_s: float, what: Seen, **changes: Any) -> Operation:
    return operation("list", from_s, until_s, **{"seen": what, **changes})


def read_run(from_s: float, until_s: float, run: tuple[str, int] | None, **changes: Any) -> Operation:
    return operation("read_run", from_s, until_s, subject="r1", seen=replace(seen(), run=run), **changes)


def history(*operations: Operation) -> History:
    return replace(EMPTY, operations=operations)


FOUND, NOTHING = seen(JOB), seen()
LOST_CREATE = create(0, 1, None, answer="info")
LOST_DELETE = delete(2, 3, answer="info")

GOOD: dict[str, History] = {
    "a life": history(
        create(0, 1), read(1, 2, FOUND), taken(1, 2), listed(2, 3, FOUND), delete(3, 4), read(5, 6, NOTHING)
    ),
    "a name that is free again": history(create(0, 1), delete(2, 3), create(4, 5, OTHER), listed(6, 7, seen(OTHER))),
    "one of two creates": history(create(0, 3), create(1, 2, OTHER, answer="fail", refusal=409)),
    "a refusal that came before its time": history(create(0, 5), taken(1, 2)),
    "a delete under way": history(create(0, 1), delete(2, 9), read(3, 4, FOUND), read(5, 6, NOTHING)),
    "a lost create that happened": history(LOST_CREATE, listed(2, 3, FOUND), taken(4, 5)),
    "a lost create that happened late": history(LOST_CREATE, listed(2, 3, NOTHING), listed(4, 5, FOUND)),
    "a lost create that did not": history(LOST_CREATE, create(2, 3, OTHER), listed(4, 5, seen(OTHER))),
    "a lost delete that happened late": history(create(0, 1), LOST_DELETE, read(4, 5, FOUND), read(6, 7, NOTHING)),
    "a lost delete that did not": history(create(0, 1), LOST_DELETE, read(4, 5, FOUND)),
    "a refused create that did nothing": history(create(0, 1, None, answer="fail", refusal=503), listed(2, 3, NOTHING)),
    "a second delete": history(create(0, 1), delete(2, 3), delete(4, 5, answer="fail", refusal=404)),
    "a local read as stale as it says": history(create(0, 1), listed(3, 4, seen(stale_s=2.5), local=True)),
    "pages": history(create(0, 1), listed(2, 3, replace(NOTHING, complete=False))),
    "reads alike": history(read(0, 1, seen(JOB, index=5)), read(0, 1, seen(JOB, index=5)), create(-1, 0)),
    "indexes": history(read(0, 1, seen(JOB, index=5)), read(0.5, 2, seen(JOB, index=4)), create(0, 0.1)),
    "a local index": history(
        listed(0, 1, seen(index=9)), listed(2, 3, seen(index=5, stale_s=1.5), local=True), listed(4, 5, seen(index=9))
    ),
    "a run": history(
        operation("run_now", 0, 1, subject="r1"),
        read_run(2, 3, ("claimed", 1)),
        read_run(3.5, 4, ("queued", 1)),
        read_run(4, 5, None, local=True),
        read_run(5.5, 6, ("succeeded", 2)),
    ),
}

BAD: list[tuple[str, Checker, History, str]] = [
    ("two creates of one name", names_are_registers, history(create(0, 1), create(2, 3, OTHER)), "create job2"),
    ("two creates at once", names_are_registers, history(create(0, 3), create(1, 2, OTHER)), "create job"),
    ("refused without reason", names_are_registers, history(create(0, 1), delete(2, 3), taken(4, 5)), "held by nobody"),
    ("a stale read", names_are_registers, history(create(0, 1), delete(2, 3), read(4, 5, FOUND)), "held by nobody"),
    ("a stale absence", names_are_registers, history(create(0, 1), read(2, 3, NOTHING)), "held by job1"),
    ("a job missing in a list", names_are_registers, history(create(0, 1), listed(2, 3, NOTHING)), "found nobody"),
    ("a deleted job in a list", names_are_registers, history(create(0, 1), delete(2, 3), listed(4, 5, FOUND)), "job1"),
    (
        "a read that goes back",
        names_are_registers,
        history(create(0, 1), LOST_DELETE, read(4, 5, NOTHING), read(6, 7, FOUND)),
        "version 1 of job1",
    ),
    (
        "a job that comes back",
        names_are_registers,
        history(create(0, 1), delete(2, 9), read(3, 4, NOTHING), read(5, 6, FOUND)),
        "held by nobody",
    ),
    ("a wrong version", names_are_registers, history(create(0, 1), read(2, 3, seen(JOB, version=2))), "version 2"),
    (
        "a delete of nothing",
        names_are_registers,
        history(create(0, 1), delete(2, 3), delete(4, 5)),
        "delete job1",
    ),
    (
        "a delete that found nothing",
        names_are_registers,
        history(create(0, 1), delete(2, 3, answer="fail", refusal=404)),
        "holds_not",
    ),
    (
        "staler than it says",
        names_are_registers,
        history(create(0, 1), listed(3, 4, seen(stale_s=1.5), local=True)),
        "found nobody",
    ),
    (
        "stale, and nobody had allowed it",
        names_are_registers,
        history(create(0, 1), listed(3, 4, seen(stale_s=9.0))),
        "found nobody",
    ),
    (
        "an old index, and nobody had allowed it",
        indexes_rise,
        history(listed(0, 1, seen(index=9)), listed(3, 4, seen(index=5, stale_s=9.0))),
        "at 5",
    ),
    (
        "one lost create, two jobs",
        names_are_registers,
        history(LOST_CREATE, listed(2, 3, FOUND), listed(4, 5, seen(OTHER))),
        "held by job1",
    ),
    ("two of a name in a list", one_holder_a_list, history(listed(0, 1, seen(JOB, OTHER))), "more than once"),
    ("an index falls", indexes_rise, history(read(0, 1, seen(JOB, index=5)), read(2, 3, seen(JOB, index=4))), "at 4"),
    (
        "a local index is too old",
        indexes_rise,
        history(listed(0, 1, seen(index=9)), listed(3, 4, seen(index=5, stale_s=1.5), local=True)),
        "at 5",
    ),
    (
        "one index, two answers",
        same_index_same_answer,
        history(read(0, 1, seen(JOB, index=5)), listed(2, 3, seen(JOB, index=5, version=2))),
        "versions 1 and 2",
    ),
    (
        "one index, there and not there",
        same_index_same_answer,
        history(create(0, 1), listed(2, 3, seen(JOB, index=5)), listed(4, 5, seen(index=5))),
        "is and is not",
    ),
    (
        "a run is forgotten",
        runs_stay_known,
        history(operation("run_now", 0, 1, subject="r1"), read_run(2, 3, None)),
        "was not found",
    ),
    (
        "a token falls",
        runs_stay_known,
        history(read_run(0, 1, ("claimed", 2)), read_run(2, 3, ("claimed", 1))),
        "token 1",
    ),
    (
        "a final run goes on",
        runs_stay_known,
        history(read_run(0, 1, ("succeeded", 1)), read_run(2, 3, ("claimed", 2))),
        "was succeeded",
    ),
]
CHECKERS = (names_are_registers, one_holder_a_list, indexes_rise, same_index_same_answer, runs_stay_known)


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_what_can_have_happened_passes(good: History) -> None:
    assert [str(violation) for checker in CHECKERS for violation in checker(good)] == []


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_what_cannot_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


def test_what_was_not_decided_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = [create(0, 9, f"job{number}") for number in range(12)]
    monkeypatch.setattr("chaos.check_reads.CONFIGURATIONS_MAX", 5)
    [violation] = names_are_registers(history(*at_once, listed(1, 2, seen("job12"))))
    assert not violation.decided
