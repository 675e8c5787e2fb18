"""The word about each promise, from all checkers."""

from __future__ import annotations

from dataclasses import replace

from chaos.history import History, Violation
from chaos.verdict import CHECKS, PROMISES, has_passed, judge, one_line, violations_of
from tests.chaos import (
    test_check_cancels,
    test_check_changes,
    test_check_deadlines,
    test_check_quotas,
    test_check_reads,
    test_check_recovery,
    test_check_requests,
    test_check_work,
    test_checkers,
)
from tests.chaos.histories import GOOD

NOTHING = replace(
    GOOD, operations=[], truth=[], effects=[], effect_ends=[], states=[], leader_again_s=50.0, caught_up_s=50.0
)


def word(history: History, promise: str) -> str:
    return next(verdict.word for verdict in judge(history) if verdict.promise == promise)


def test_every_checker_has_a_bad_history() -> None:
    modules = (
        *(test_check_cancels, test_check_changes, test_check_quotas, test_check_reads, test_check_recovery),
        *(test_check_deadlines, test_check_requests, test_check_work, test_checkers),
    )
    assert {checker for module in modules for _, checker, _, _ in module.BAD} == {check.checker for check in CHECKS}


def test_every_promise_has_checks() -> None:
    assert {check.promise for check in CHECKS} == set(PROMISES)


def test_a_good_history_passes() -> None:
    verdicts = judge(GOOD)
    assert has_passed(verdicts)
    assert word(GOOD, "I1") == "kept"
    assert one_line(verdicts).startswith("passed: of 15 promises")


def test_what_was_not_looked_at_was_not_kept() -> None:
    assert violations_of(NOTHING) == []
    assert {verdict.word for verdict in judge(NOTHING)} == {"not exercised"}
    assert one_line(judge(NOTHING)).startswith("passed: of 15 promises 15 not exercised (I1, I2,")


def test_what_is_broken_is_named() -> None:
    bad = replace(GOOD, broken=["n1: KeyError"], effects=[*GOOD.effects, GOOD.effects[0]])
    verdicts = judge(bad)
    assert not has_passed(verdicts)
    assert word(bad, "I1") == "broken"
    assert word(bad, "broken") == "broken"
    assert one_line(verdicts).startswith("FAILED: of 15 promises 2 broken (I1, broken), ")


def test_what_could_not_be_decided_is_no_pass() -> None:
    [verdict] = [verdict for verdict in judge(GOOD) if verdict.promise == "I10"]
    gave_up = Violation(promise="I10", what="too many orders", decided=False)
    undecided = replace(verdict, checks=[replace(verdict.checks[0], violations=[gave_up]), *verdict.checks[1:]])
    assert undecided.word == "not decided"
    assert not has_passed([undecided])
    assert one_line([undecided]) == "FAILED: of 1 promises 1 not decided (I10)"
