"""How much a lane may have under way follows how long its proposals take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raftlog.window import SHRINK_FACTOR, Window

MIN, MAX = 1_000, 100_000


def window() -> Window:
    return Window(target_s=0.2, bytes_min=MIN, bytes_max=MAX)


def test_proposals_of_one_round_shrink_it_once() -> None:
    judged = window()
    before = judged.bytes
    for now_s in (1.0, 1.1, 1.2):
        judged.answered(sent_s=0.0, now_s=now_s, more_waits=True)
    assert judged.bytes == int(before * SHRINK_FACTOR)
    judged.answered(sent_s=1.0, now_s=1.3, more_waits=True)
    assert judged.bytes == int(int(before * SHRINK_FACTOR) * SHRINK_FACTOR)


def test_it_grows_only_while_more_is_wanted() -> None:
    judged = window()
    before = judged.bytes
    judged.answered(sent_s=0.0, now_s=0.1, more_waits=False)
    assert judged.bytes == before
    judged.answered(sent_s=0.0, now_s=0.1, more_waits=True)
    assert judged.bytes > before


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=100))
def test_it_stays_within_its_limits(answers: list[tuple[float, bool]]) -> None:
    judged, now_s = window(), 0.0
    for took_s, more_waits in answers:
        sent_s, now_s = now_s, now_s + took_s
        judged.answered(sent_s=sent_s, now_s=now_s, more_waits=more_waits)
        assert MIN <= judged.bytes <= MAX


def test_what_may_take_any_time_never_yields() -> None:
    judged = Window(target_s=float("inf"), bytes_min=MIN, bytes_max=MAX)
    before = judged.bytes
    judged.answered(sent_s=0.0, now_s=1e9, more_waits=False)
    assert judged.bytes == before
