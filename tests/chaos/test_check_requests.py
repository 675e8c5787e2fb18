"""Keys that are used again, and what is beyond a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_requests import excess_is_refused, keys_answer_once, repeats_are_not_refused
from chaos.history import History, Operation
from tests.chaos.histories import GONE, GOOD, JOB


def asked(kind: Any, **changes: Any) -> History:
    values = {"kind": kind, "node": "n1", "invoked_s": 1.0, "ended_s": 2.0, "answer": "ok", "earlier": JOB}
    return replace(GOOD, operations=[Operation(**{**values, **changes})])


def test_a_repeat_is_answered_as_the_first_time() -> None:
    assert list(keys_answer_once(asked("repeat", subject=JOB))) == []
    assert list(keys_answer_once(asked("repeat", subject=None, answer="info"))) == []
    [violation] = keys_answer_once(asked("repeat", subject=GONE))
    assert GONE in violation.what


def test_nothing_else_is_made_under_a_key() -> None:
    assert list(keys_answer_once(asked("misuse", answer="fail", refusal=409))) == []
    assert len(list(keys_answer_once(asked("misuse", subject=GONE)))) == 1
    assert len(list(keys_answer_once(asked("misuse", subject=JOB)))) == 1


def test_a_repeat_is_not_refused() -> None:
    assert list(repeats_are_not_refused(asked("repeat", subject=JOB))) == []
    assert list(repeats_are_not_refused(asked("repeat", answer="fail"))) == []
    assert len(list(repeats_are_not_refused(asked("repeat", answer="fail", refusal=409)))) == 1
    assert len(list(repeats_are_not_refused(asked("repeat", answer="info", refusal=422)))) == 1


@pytest.mark.parametrize(
    ("answer", "refusal", "found"), [("fail", 422, 0), ("fail", None, 0), ("ok", None, 1), ("info", 500, 1)]
)
def test_what_is_beyond_a_limit_is_the_clients_fault(answer: str, refusal: int | None, found: int) -> None:
    assert len(list(excess_is_refused(asked("excess", answer=answer, refusal=refusal, earlier=None)))) == found
