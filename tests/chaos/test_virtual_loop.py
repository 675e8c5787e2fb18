"""The loop on virtual time: order, killing, pausing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import pytest

from chaos.virtual_loop import Process, VirtualLoop


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()  # type: ignore[abstract]


def start(loop: VirtualLoop, process: Process, coroutine: Coroutine[Any, Any, Any]) -> None:
    loop.call_soon(loop.create_task, coroutine, context=process.context)


def ticker(loop: VirtualLoop, seen: list[float], ended: Callable[[], None] = lambda: None) -> Coroutine[Any, Any, None]:
    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(1.0)
                seen.append(round(loop.time(), 3))
        finally:
            ended()

    return tick()


def test_time_moves_from_one_timer_to_the_next(loop: VirtualLoop) -> None:
    seen: list[float] = []
    start(loop, Process("p"), ticker(loop, seen))
    loop.run_until(3.5)
    assert seen == [1.0, 2.0, 3.0]
    assert loop.time() == 3.5


def test_timers_of_a_fast_clock_come_early(loop: VirtualLoop) -> None:
    """Half a second early after a hundred; the time itself is everybody's."""
    seen: list[float] = []

    async def wait() -> None:
        await asyncio.sleep(100.5)
        seen.append(round(loop.time(), 3))

    for rate in (1.0, 1.005):
        start(loop, Process("p", rate=rate), wait())
    loop.run_until(101.0)
    assert seen == [100.0, 100.5]


def test_what_is_due_at_once_runs_in_the_order_of_the_calls(loop: VirtualLoop) -> None:
    seen: list[int] = []
    for number in range(20):
        loop.call_at(1.0, seen.append, number)
    loop.run_until(2.0)
    assert seen == list(range(20))


def test_a_loop_that_never_sleeps_still_sees_time_pass(loop: VirtualLoop) -> None:
    turns = 0

    async def wait() -> None:
        nonlocal turns
        while loop.time() < 0.001:
            turns += 1
            await asyncio.sleep(0)

    start(loop, Process("p"), wait())
    loop.run_until(1.0)
    assert 100 < turns < 2000


def test_a_killed_process_runs_no_further_line_not_even_its_ends(loop: VirtualLoop) -> None:
    seen: list[float] = []
    ended: list[str] = []
    process = Process("p")
    start(loop, process, ticker(loop, seen, lambda: ended.append("finally")))
    loop.run_until(1.5)
    process.alive = False
    loop.run_until(10.0)
    assert (seen, ended) == ([1.0], [])
    process.bury()
    assert not process.tasks


def test_a_paused_process_catches_up_in_order_and_others_go_on(loop: VirtualLoop) -> None:
    paused, other = Process("paused"), Process("other")
    seen: list[tuple[str, float]] = []
    for process in (paused, other):
        for at_s in (1.0, 2.0, 3.0):
            loop.call_at(at_s, seen.append, (process.name, at_s), context=process.context)
    loop.call_at(1.5, loop.pause, paused)
    loop.call_at(3.5, loop.resume, paused)
    loop.run_until(4.0)
    assert seen == [
        ("paused", 1.0),
        ("other", 1.0),
        ("other", 2.0),
        ("other", 3.0),
        ("paused", 2.0),
        ("paused", 3.0),
    ]


def test_what_a_process_gives_to_the_world_outlives_it(loop: VirtualLoop) -> None:
    """A message in flight arrives although its sender has died. (The empty context counts as false.)"""
    process, seen = Process("p"), list[str]()
    world = Context()
    send = lambda: loop.call_later(1.0, seen.append, "arrived", context=world)  # noqa: E731
    loop.call_soon(send, context=process.context)
    loop.run_until(0.5)
    process.alive = False
    loop.run_until(2.0)
    assert seen == ["arrived"]


def test_overlapping_pauses_end_with_the_last(loop: VirtualLoop) -> None:
    process = Process("p")
    seen: list[float] = []
    loop.call_at(1.0, loop.pause, process)
    loop.call_at(2.0, loop.pause, process)
    loop.call_at(4.0, lambda: seen.append(round(loop.time(), 3)), context=process.context)
    loop.call_at(3.0, loop.resume, process)
    loop.call_at(5.0, loop.resume, process)
    loop.run_until(6.0)
    assert seen == [5.0]


def test_a_pause_does_not_come_between_two_steps_of_one_instant(loop: VirtualLoop) -> None:
    process = Process("p")
    seen: list[str] = []

    async def check_then_act() -> None:
        loop.pause(process)
        await asyncio.sleep(0)
        seen.append("acted")

    start(loop, process, check_then_act())
    loop.run_until(1.0)
    assert seen == ["acted"]
    assert process.paused


def test_an_error_that_nobody_catches_is_told_with_its_process(loop: VirtualLoop) -> None:
    told: list[tuple[str, str]] = []
    loop.on_unhandled = lambda process, error: told.append((process.name, str(error)))
    loop.call_soon(lambda: 1 / 0, context=Process("p").context)
    loop.run_until(1.0)
    assert told == [("p", "division by zero")]


def test_an_error_of_the_world_ends_the_run(loop: VirtualLoop) -> None:
    loop.call_later(1.0, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loop.run_until(2.0)


def test_timeouts_task_groups_and_threads_are_asyncios_own(loop: VirtualLoop) -> None:
    seen: list[object] = []

    async def work() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.Event().wait()
        seen.append(round(loop.time(), 2))
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1.0))
            group.create_task(asyncio.sleep(3.0))
        seen.append(round(loop.time(), 2))
        seen.append(await asyncio.to_thread(sum, [1, 2]))

    start(loop, Process("p"), work())
    loop.run_until(10.0)
    assert seen == [2.0, 5.0, 3]


def test_sets_of_tasks_iterate_in_the_order_of_their_numbers(loop: VirtualLoop) -> None:
    async def nothing() -> None:
        pass

    tasks = [loop.create_task(nothing()) for _ in range(3)]
    assert [hash(task) for task in tasks] == [1, 2, 3]
    loop.run_until(1.0)
