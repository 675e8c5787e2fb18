"""The checkers as a whole."""

from __future__ import annotations

from chaos.verdict import CHECKERS
from tests.chaos import test_check_reads, test_checkers


def test_every_checker_has_a_bad_history() -> None:
    bad = [*test_checkers.BAD, *test_check_reads.BAD]
    assert {checker for _, checker, _, _ in bad} == set(CHECKERS)
