"""What is told of a job's runs: not too early, not too often, and never less than was asked for (M18)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine.history_records import Ending, JobStats
from statemachine.notices import events_of, with_told
from statemachine.records import Notify, RunState, SkipReason
from statemachine.stats import with_ending

ALL = ("dead", "failed", "recovered", "late", "skipped")
DEAD, SUCCEEDED, SKIPPED = RunState.DEAD, RunState.SUCCEEDED, RunState.SKIPPED


@dataclass
class Listener:
    """Endings go in, one a second unless said otherwise; what was told is kept with its time."""

    notify: Notify
    stats: JobStats = field(default_factory=JobStats)
    now_ms: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)

    def hear(self, state: RunState, *, after_ms: int = 1000, **fields: Any) -> list[str]:
        kind = "retried" if state is RunState.RETRYING else "ended"
        self.now_ms += after_ms
        ending = Ending(**({"run_id": "r", "kind": kind, "state": state, "at_ms": self.now_ms} | fields))
        self.stats = with_ending(self.stats, ending)
        events = list(events_of(self.notify, self.stats, ending, self.now_ms))
        for event in events:
            self.stats = with_told(self.stats, event, self.now_ms)
            self.told.append((self.now_ms, event))
        if state is SUCCEEDED:
            self.stats = replace(self.stats, told_failing=False)
        return events


def test_a_dead_run_is_told_and_so_is_the_first_success_after_it() -> None:
    listener = Listener(Notify(url="u"))
    assert [listener.hear(state) for state in (SUCCEEDED, DEAD, DEAD, SUCCEEDED, SUCCEEDED)] == [
        [],
        ["dead"],
        ["dead"],
        ["recovered"],
        [],
    ]


def test_failures_below_the_threshold_are_not_told_and_have_nothing_to_recover_from() -> None:
    listener = Listener(Notify(on=ALL, url="u", threshold=3))
    assert [listener.hear(DEAD) for _ in range(2)] == [[], []]
    assert listener.hear(SUCCEEDED) == []
    assert [listener.hear(DEAD) for _ in range(4)] == [[], [], ["dead"], ["dead"]]
    assert listener.hear(SUCCEEDED) == ["recovered"]


def test_failed_attempts_are_counted_over_runs_and_the_last_of_a_dead_run_is_one() -> None:
    listener = Listener(Notify(on=("failed",), url="u", threshold=3))
    assert listener.hear(RunState.RETRYING) == []
    assert listener.hear(DEAD) == []
    assert listener.hear(RunState.RETRYING) == ["failed"]
    assert listener.hear(DEAD) == ["failed"]


def test_who_asked_for_both_is_told_the_graver_one_when_it_is_due() -> None:
    listener = Listener(Notify(on=("failed", "dead"), url="u", threshold=2))
    assert listener.hear(RunState.RETRYING) == []
    assert listener.hear(DEAD) == ["failed"]
    assert listener.hear(DEAD) == ["dead"]


def test_in_the_silence_an_event_is_not_told_again_but_others_are() -> None:
    listener = Listener(Notify(on=ALL, url="u", silence_s=10))
    assert listener.hear(DEAD) == ["dead"]
    assert listener.hear(DEAD, after_ms=9_999) == []
    assert listener.hear(SKIPPED, reason="misfire", after_ms=0) == ["skipped"]
    assert listener.hear(DEAD, after_ms=1) == ["dead"]
    assert listener.hear(SUCCEEDED) == ["recovered"]
    assert listener.hear(DEAD) == []
    assert listener.hear(SUCCEEDED) == []


def test_a_clock_that_was_set_back_does_not_make_the_silence_last() -> None:
    listener = Listener(Notify(url="u", silence_s=10), now_ms=10**9)
    assert listener.hear(DEAD) == ["dead"]
    assert listener.hear(DEAD, after_ms=-(10**8)) == ["dead"]


@pytest.mark.parametrize("reason", SkipReason)
def test_only_skips_that_nobody_asked_for_are_told(reason: SkipReason) -> None:
    wished = reason in (SkipReason.PAUSED, SkipReason.SUPERSEDED, SkipReason.CALENDAR)
    assert Listener(Notify(on=ALL, url="u")).hear(SKIPPED, reason=f"{reason}: x") == ([] if wished else ["skipped"])


@pytest.mark.parametrize(("late_ms", "told"), [(None, []), (4999, []), (5000, ["late"])])
def test_a_late_start_is_told_from_a_limit_on(late_ms: int | None, told: list[str]) -> None:
    listener = Listener(Notify(on=("late",), url="u", late_s=5))
    assert listener.hear(SUCCEEDED, late_ms=late_ms) == told
    assert listener.hear(RunState.RUNNING, kind="started", late_ms=late_ms) == told


def test_an_end_that_is_taken_back_tells_nothing() -> None:
    listener = Listener(Notify(on=ALL, url="u"))
    assert listener.hear(SKIPPED, reason="overlap", kind="ended") == ["skipped"]
    assert listener.hear(SKIPPED, reason="overlap", kind="reopened") == []
    assert listener.hear(RunState.CANCELLED) == []


STEPS = st.tuples(
    st.sampled_from([DEAD, SUCCEEDED, RunState.RETRYING, SKIPPED, RunState.CANCELLED]), st.integers(0, 4000)
)
NOTIFIES = st.builds(
    Notify,
    on=st.sets(st.sampled_from(ALL)).map(tuple),
    url=st.just("u"),
    threshold=st.integers(1, 4),
    silence_s=st.sampled_from([0, 1, 5]),
)


@settings(max_examples=200)
@given(NOTIFIES, st.lists(STEPS, max_size=40))
def test_nothing_is_told_twice_within_the_silence_and_nothing_that_is_owed_is_left_out(
    notify: Notify, steps: list[tuple[RunState, int]]
) -> None:
    listener, dead, last_dead_ms, failing = Listener(notify), 0, -(10**9), False
    for state, after_ms in steps:
        told = listener.hear(state, after_ms=after_ms, reason="misfire" if state is SKIPPED else None)
        dead = {DEAD: dead + 1, SUCCEEDED: 0}.get(state, dead)
        is_silent = listener.now_ms - last_dead_ms < notify.silence_s * 1000
        if state is DEAD:
            assert ("dead" in told) == ("dead" in notify.on and dead >= notify.threshold and not is_silent)
        if "dead" in told:
            last_dead_ms = listener.now_ms
        assert ("recovered" in told) == (state is SUCCEEDED and failing and "recovered" in notify.on)
        failing = state is not SUCCEEDED and (failing or bool({"dead", "failed"} & set(told)))
    for event in {event for _, event in listener.told} - {"recovered"}:
        times = [at_ms for at_ms, other in listener.told if other == event]
        assert all(later - earlier >= notify.silence_s * 1000 for earlier, later in pairwise(times))
