"""What clients ask for is what it is meant to be: good jobs are taken, some tick at odd instants, bad ones are bad."""

from __future__ import annotations

import random

import msgspec
import pytest

from chaos.calendar_ticks import ticks_of
from chaos.simulated_plan import EPOCHS_MS
from chaos.workload_drafts import BY_THE_WALL, TOO_MUCH, Drafts
from node.admission import admit
from node.interface import Invalid, JobDraft

SOON_MS = 90_000


def taken(draft: JobDraft) -> bool:
    try:
        admit(draft, job_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", now_ms=EPOCHS_MS[0] + 5000, allow_link_local=False)
    except Invalid:
        return False
    return True


def drafts_of(seed: int) -> Drafts:
    return Drafts("c0", random.Random(seed), EPOCHS_MS[0])


def test_good_drafts_are_taken() -> None:
    drafts = drafts_of(1)
    good = [drafts.good(number, 5.0) for number in range(1000)]
    assert all(map(taken, good[:200]))
    assert {draft.run_at is None for draft in good} == {True, False}
    assert {(draft.schedule, draft.tz) for draft in good if draft.tz is not None} == set(BY_THE_WALL)
    assert all(map(taken, map(drafts.other, good[:200])))


def test_whatever_is_too_much_is_refused_for_that() -> None:
    drafts = drafts_of(2)
    assert not any(taken(drafts.bad(number, 5.0)) for number in range(200))
    good = msgspec.structs.replace(drafts.good(1, 5.0), schedule="@every 5s", run_at=None, tz=None)
    assert not any(taken(msgspec.structs.replace(good, **change)) for change in TOO_MUCH)


@pytest.mark.parametrize(("expression", "tz"), BY_THE_WALL)
def test_each_expression_ticks_soon_after_one_of_the_epochs(expression: str, tz: str) -> None:
    assert any(ticks_of([expression], tz, epoch_ms, epoch_ms + SOON_MS) for epoch_ms in EPOCHS_MS)
