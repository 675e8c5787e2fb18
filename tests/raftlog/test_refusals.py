"""What is refused leaves a line in the log, but a flood of it leaves few."""

from __future__ import annotations

import logging

import pytest

from raftlog.refusals import LINE_PERIOD_S, LINES_BURST_MAX, RefusalLog


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_flood_leaves_a_burst_and_then_a_line_a_period_that_counts_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    refusals = RefusalLog(logging.getLogger("test"), clock)
    for _ in range(1000):
        refusals.warning("refused")
    assert caplog.messages == ["refused"] * LINES_BURST_MAX

    caplog.clear()
    clock.now_s += LINE_PERIOD_S
    for _ in range(1000):
        refusals.warning("refused")
    assert caplog.messages == [f"refused ({1000 - LINES_BURST_MAX} such lines left out)"]


def test_a_quiet_time_gives_the_burst_back_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    refusals = RefusalLog(logging.getLogger("test"), clock)
    clock.now_s += 1000 * LINE_PERIOD_S
    for _ in range(1000):
        refusals.warning("refused")
    assert len(caplog.messages) == LINES_BURST_MAX
