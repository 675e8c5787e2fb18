"""Keys that are used again, and what is beyond a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_requests import excess_is_refused, keys_answer_once, repeats_are_not_refused
from chaos.history import History, Operation
from chaos.verdict import Checker
from tests.chaos.histories import GONE, GOOD, JOB


def asked(kind: Any, **changes: Any) -> History:
    values = {"kind": kind, "node": "n1", "invoked_s": 1.0, "ended_s": 2.0, "answer": "ok", "earlier": JOB}
    return replace(GOOD, operations=[Operation(**{**values, **changes})])


BAD: list[tuple[str, Checker, History, str]] = [
    ("another answer under a key", keys_answer_once, asked("repeat", subject=GONE), GONE),
    ("another job under a key", keys_answer_once, asked("misuse", subject=GONE), GONE),
    ("the first job for another request", keys_answer_once, asked("misuse", subject=JOB), JOB),
    ("a repeat that is refused", repeats_are_not_refused, asked("repeat", answer="fail", refusal=409), "409"),
    ("a late one", repeats_are_not_refused, asked("repeat", answer="info", refusal=422), "422"),
    ("too much that is taken", excess_is_refused, asked("excess"), "ok"),
    ("too much that breaks the node", excess_is_refused, asked("excess", answer="info", refusal=500), "500"),
]
GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "the same answer": (keys_answer_once, asked("repeat", subject=JOB)),
    "no answer": (keys_answer_once, asked("repeat", answer="info")),
    "a misuse that is refused": (keys_answer_once, asked("misuse", answer="fail", refusal=409)),
    "a repeat that is answered": (repeats_are_not_refused, asked("repeat", subject=JOB)),
    "a repeat that nobody answered": (repeats_are_not_refused, asked("repeat", answer="fail")),
    "too much that is refused": (excess_is_refused, asked("excess", answer="fail", refusal=422)),
    "too much that nobody answered": (excess_is_refused, asked("excess", answer="fail")),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []
