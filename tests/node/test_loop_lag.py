"""The lag of the event loop is seen, and forgotten in time."""

from __future__ import annotations

import asyncio

import pytest

from node.loop_lag import KEEP_S, LOOK_EVERY_S, LoopLag


class FakeClock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_worst_lag_is_kept_over_one_turn_and_then_forgotten() -> None:
    clock = FakeClock()
    lag = LoopLag(clock)
    lag.observe(0.4)
    lag.observe(0.1)
    assert lag.worst_s == 0.4
    clock.now_s += KEEP_S
    lag.observe(0.2)
    assert lag.worst_s == 0.4
    clock.now_s += KEEP_S
    lag.observe(0.0)
    assert lag.worst_s == 0.2


class Watched(LoopLag):
    """Says when it has looked."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.looked = asyncio.Event()

    def observe(self, lag_s: float) -> None:
        super().observe(lag_s)
        self.looked.set()


async def test_a_loop_that_is_held_up_shows() -> None:
    clock = FakeClock()
    lag = Watched(clock)
    watching = asyncio.create_task(lag.run())
    asyncio.get_running_loop().call_soon(setattr, clock, "now_s", clock.now_s + LOOK_EVERY_S + 0.4)
    async with asyncio.timeout(5):
        await lag.looked.wait()
    watching.cancel()
    assert lag.worst_s == pytest.approx(0.4)
