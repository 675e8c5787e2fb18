"""What must be well after the healing: leaders, replicas, the backlog, what is held, and that everything ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.check_ends import every_call_ends, every_request_ends, every_session_ends
from chaos.check_healing import all_caught_up, backlog_drained, leader_soon, leader_stays
from chaos.check_resources import compared, nothing_leaks
from chaos.history import Absence, Fault, History, LeaderSeen, Sample, SessionOpened
from chaos.verdict import Checker
from tests.chaos.histories import GOOD, effect, effect_end, operation, with_effects, with_truth

MIB = 1024 * 1024
INFINITE = float("inf")


def sample(at_s: float, **changes: Any) -> Sample:
    values: dict[str, Any] = {
        "at_s": at_s,
        "node": "n1",
        "process": "node",
        "descriptors": 30,
        "threads": 4,
        "rss_bytes": 90 * MIB,
        "disk_bytes": 50 * MIB,
    }
    return Sample(**{**values, **changes})


def sampled(*after: Sample) -> History:
    """Samples of before the first fault, of a peak in the faults, and these of long after the healing at 50 s."""
    peak = sample(30.0, descriptors=900, threads=90, rss_bytes=900 * MIB)
    before = [sample(1.0, descriptors=5), sample(8.0), sample(9.0, node="n2", descriptors=40)]
    return replace(GOOD, faults=[Fault(at_s=10.0, what="kill n1")], samples=[*before, peak, *after])


def led(*leaders: tuple[float, str | None]) -> History:
    return replace(GOOD, leaders=[LeaderSeen(at_s=at_s, node=node, term=1) for at_s, node in leaders])


def down(from_s: float, until_s: float) -> Absence:
    return Absence(node="n1", from_s=from_s, until_s=until_s, how="down")


OPEN = with_effects(effect(80, at_s=80.0))
TWO_SESSIONS = [SessionOpened(index=70, at_s=70.0, node="n1", incarnation=number) for number in (2, 3)]

BAD: list[tuple[str, Checker, History, str]] = [
    ("no leader", leader_soon, replace(GOOD, leader_again_s=None), "None"),
    ("a leader too late", leader_soon, replace(GOOD, leader_again_s=58.0), "58"),
    ("never caught up", all_caught_up, replace(GOOD, caught_up_s=None), "None"),
    ("caught up too late", all_caught_up, replace(GOOD, caught_up_s=81.0), "81"),
    ("a backlog", backlog_drained, replace(GOOD, effects=[effect(8, at_s=85.0)]), "started at 85"),
    ("a leader that does not stay", leader_stays, led((1, "n1"), (60, "n2"), (61, None), (62, "n3")), "2 times"),
    (
        "a request without an end",
        every_request_ends,
        replace(GOOD, operations=[replace(operation("create", "j"), ended_s=INFINITE)]),
        "inf",
    ),
    ("two sessions", every_session_ends, with_truth(*TWO_SESSIONS), "sessions [2, 3]"),
    (
        "the session of a node that is gone",
        every_session_ends,
        replace(with_truth(TWO_SESSIONS[0]), absences=[down(60.0, INFINITE)]),
        "still has session 2",
    ),
    ("a call without an end", every_call_ends, OPEN, "open for 15 s"),
    ("descriptors leak", nothing_leaks, sampled(sample(90, descriptors=90)), "90 descriptors"),
    ("threads leak", nothing_leaks, sampled(sample(90, threads=40)), "40 threads"),
    ("memory leaks", nothing_leaks, sampled(sample(90, rss_bytes=300 * MIB)), "rss_bytes"),
    ("the disk fills", nothing_leaks, sampled(sample(90, disk_bytes=5000 * MIB)), "on its disk"),
]

GOOD_ONES: dict[str, tuple[Checker, History]] = {
    "a leader at once": (leader_soon, replace(GOOD, leader_again_s=50.0)),
    "what was retried long after it first started": (backlog_drained, with_effects(effect(8, 2, at_s=85.0))),
    "what was released after the healing": (backlog_drained, with_effects(effect(70, at_s=85.0))),
    "leaders come and go before": (leader_stays, led((1, "n1"), (20, "n2"), (30, None), (40, "n3"), (45, "n1"))),
    "the same leader is seen again": (leader_stays, led((1, "n1"), (60, None), (61, "n1"), (63, None), (64, "n1"))),
    "a session after another": (every_session_ends, with_truth(TWO_SESSIONS[0])),
    "a node that came back": (every_session_ends, replace(with_truth(TWO_SESSIONS[0]), absences=[down(20.0, 60.0)])),
    "a call that ended": (every_call_ends, replace(OPEN, effect_ends=[*OPEN.effect_ends, effect_end(80)])),
    "a call of a moment ago": (every_call_ends, with_effects(effect(90, at_s=90.0))),
    "a call of a node that died": (every_call_ends, replace(OPEN, absences=[down(81.0, 82.0)])),
    "a peak that is over": (nothing_leaks, sampled(sample(90), sample(91, descriptors=900))),
    "no samples": (nothing_leaks, GOOD),
}


@pytest.mark.parametrize(("checker", "bad", "says"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_history_is_caught(checker: Checker, bad: History, says: str) -> None:
    found = [str(violation) for violation in checker(bad)]
    assert any(says in one for one in found), found


@pytest.mark.parametrize(("checker", "good"), GOOD_ONES.values(), ids=GOOD_ONES)
def test_what_is_right_or_excused_passes(checker: Checker, good: History) -> None:
    assert [str(violation) for violation in checker(good)] == []


def test_only_samples_that_can_be_compared_count() -> None:
    """A run that ended too soon after the healing, or had no quiet beginning, proves nothing about leaks."""
    assert compared(sampled(sample(90), sample(91))) == 2
    assert compared(sampled(sample(55))) == 0
    assert compared(replace(sampled(sample(90)), faults=[Fault(at_s=3.0, what="kill n1")])) == 0
