"""What a team may have under way at once, and that nothing of it is counted twice or never released."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_quotas import charged_is_held, jobs_hold_no_more, quotas_hold
from chaos.history import Claimed, History, QuotaSet, SessionOver, Withdrawn
from chaos.verdict import Checker
from node.interface import RunState
from tests.chaos.histories import GOOD, claimed, finished, job, run, state


def quota(most: int | None) -> QuotaSet:
    return QuotaSet(index=1, team="t", max_concurrent=most)


def replayed(*truth: Any) -> History:
    return replace(GOOD, truth=list(truth), states=[state([], jobs={"job1": job(team="t")})])


def limited(*truth: Any) -> History:
    return replace(GOOD, truth=list(truth), states=[state([], jobs={"job1": job(max_concurrent=2)})])


def claims(*due_s: int) -> list[Claimed]:
    return [claimed(one) for one in due_s]


def charged(held: int, *runs: Any) -> History:
    return replace(GOOD, states=[state(list(runs), held={"t": held})])


GIVEN_BACK = Withdrawn(index=1, run_id=claimed(2).run_id, token=1, code="ok")
ENDED = SessionOver(index=1, at_s=3.0, node=claimed(2).node, incarnation=claimed(2).session)
HELD = (run(2, RunState.CLAIMED), run(4, RunState.RUNNING), run(6), run(8, RunState.QUEUED))

BAD: list[tuple[str, Checker, History, str]] = [
    ("a claim beyond the quota", quotas_hold, replayed(quota(2), *claims(2, 4, 6)), "held 3"),
    ("one beyond a quota that was lowered", quotas_hold, replayed(*claims(2, 4), quota(1), *claims(6)), "is 1"),
    ("a fenced report", quotas_hold, replayed(quota(1), *claims(2), finished(2, code="fenced"), *claims(4)), "held 2"),
    ("another's end", quotas_hold, replayed(quota(1), *claims(2), replace(ENDED, node="n9"), *claims(4)), "held 2"),
    ("a claim beyond its job's limit", jobs_hold_no_more, limited(*claims(2, 4, 6)), "held 3"),
    ("a claim that was never released", charged_is_held, charged(3, *HELD), "charged with 3"),
    ("a claim that was released twice", charged_is_held, charged(1, *HELD), "nodes hold 2"),
]
GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "no quota": (quotas_hold, replayed(*claims(2, 4, 6))),
    "a quota that is just kept": (quotas_hold, replayed(quota(2), *claims(2, 4))),
    "a quota that was lifted": (quotas_hold, replayed(quota(1), *claims(2), quota(None), *claims(4))),
    "a run that ended": (quotas_hold, replayed(quota(1), *claims(2), finished(2), *claims(4))),
    "a claim that was given back": (quotas_hold, replayed(quota(1), *claims(2), GIVEN_BACK, *claims(4))),
    "a session that ended": (quotas_hold, replayed(quota(1), *claims(2), ENDED, *claims(4))),
    "a job's limit that is just kept": (jobs_hold_no_more, limited(*claims(2, 4), finished(2), *claims(6))),
    "what nodes hold": (charged_is_held, charged(2, *HELD)),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []
