"""The loop around the ticker: what became of a proposal decides how soon it is made again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from node.tick_loop import TickLoop
from node.ticker import RETRY_MS, SETTLE_MS, TimerDue
from raftlog.errors import NoQuorum
from raftlog.interface import Lane
from statemachine.codec import decode_command, encode_reply
from statemachine.commands import PlainReply, Release
from tests.node.conftest import CONFIG
from tests.node.test_ticker import BEGIN_MS, State, ticker


class NoBackfills:
    def step(self, *_: object) -> list[object]:
        return []


class OwnedState(State):
    def owned_buckets(self, node: str) -> Mapping[int, int]:
        return self.epochs


class OneState:
    """Implements StateSource over a State."""

    def __init__(self, state: State) -> None:
        self.state = state

    @contextmanager
    def view(self) -> Iterator[Any]:
        yield self.state


class MovedClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def wall_ms(self) -> int:
        return BEGIN_MS + self.passed_ms

    def monotonic(self) -> float:
        return self.passed_ms / 1000

    boottime = monotonic


class AnsweringLog:
    """Answers each proposal with the next of `answers`."""

    def __init__(self, *answers: PlainReply | NoQuorum) -> None:
        self.answers = list(answers)
        self.proposed: list[str] = []

    async def propose(self, command: bytes, *, lane: Lane = Lane.CLIENT, timeout_s: float = 10.0) -> bytes:
        release = decode_command(command)
        assert isinstance(release, Release)
        self.proposed.append(release.run_id)
        answer = self.answers.pop(0)
        if isinstance(answer, NoQuorum):
            raise answer
        return encode_reply(answer)


async def turn(loop: TickLoop) -> None:
    """A step, and the answers to what it proposed."""
    loop.turn()
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("answer", "again_ms"),
    [
        (PlainReply(code="clock_off"), RETRY_MS),
        (NoQuorum("cut"), RETRY_MS),
        (PlainReply(code="fenced"), SETTLE_MS),
        (PlainReply(), SETTLE_MS),
    ],
)
async def test_a_release_that_moved_nothing_is_made_again_soon(answer: PlainReply | NoQuorum, again_ms: int) -> None:
    """A run whose release was refused for the clock stands where it stood: it waits a quarter of a second, no longer.
    One that was answered otherwise has moved on, and is only read again in case this node's state lags."""
    state, clock = OwnedState(), MovedClock()
    state.timers = [TimerDue(BEGIN_MS, 0, "r1", 1)]
    log = AnsweringLog(answer, PlainReply())
    loop = TickLoop(
        config=CONFIG,
        log=cast(Any, log),
        source=cast(Any, OneState(state)),
        clock=cast(Any, clock),
        ticker=ticker(),
        backfills=cast(Any, NoBackfills()),
        session=lambda: 1,
    )
    await turn(loop)
    await turn(loop)  # takes the answer
    clock.passed_ms = again_ms - 1
    await turn(loop)
    assert log.proposed == ["r1"]
    clock.passed_ms = again_ms
    await turn(loop)
    assert log.proposed == ["r1", "r1"]
