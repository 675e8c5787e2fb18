"""What earlier starts left behind is ended before the session is opened, and an engine that is away is told once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from executor.interface import Assignment, Executor, Outcome, OutputSink, Unavailable
from executor.noop import SUCCEEDED, NoopExecutor
from node.reaping import Reaper
from tests.node.conftest import made_node


class Engine:
    """An executor with something to reap."""

    def __init__(self) -> None:
        self.left = 0
        self.away: str | None = None
        self.hangs = False
        self.calls = 0
        self.called = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.called_thrice = asyncio.Event()

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        return SUCCEEDED

    async def close(self) -> None:
        """There is nothing to release."""

    async def reap(self) -> int:
        self.calls += 1
        if self.calls == 3:
            self.called_thrice.set()
        self.called.set()
        if self.hangs:
            await self.may_go_on.wait()
        if self.away is not None:
            raise Unavailable(self.away)
        left, self.left = self.left, 0
        return left


@pytest.fixture
async def engine() -> Engine:
    return Engine()


@pytest.fixture
def reaper(engine: Engine) -> Reaper:
    executors: dict[str, Executor] = {"container": engine, "noop": NoopExecutor()}
    return Reaper(executors)


async def test_what_is_left_is_ended_and_told(reaper: Reaper, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.left = 2
    await reaper.reap()
    assert [record.getMessage() for record in caplog.records] == [
        "ended 2 that runs of type container had left behind",
    ]
    await reaper.reap()
    assert len(caplog.records) == 1


async def test_an_engine_that_is_away_is_told_once_and_when_it_is_back(
    reaper: Reaper, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine.away = "no engine at /x"
    for _ in range(3):
        await reaper.reap()
        assert reaper.up_by_kind() == {"container": False, "noop": True}
    assert reaper.unavailable == {"container": "no engine at /x"}
    engine.away = None
    await reaper.reap()
    assert reaper.up_by_kind() == {"container": True, "noop": True}
    assert [record.getMessage() for record in caplog.records] == [
        "targets of type container cannot run: no engine at /x",
        "targets of type container can run again",
    ]


async def test_an_engine_that_hangs_does_not_keep_the_node(
    reaper: Reaper, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.reaping.REAP_TIMEOUT_S", 0.01)
    engine.hangs = True
    await reaper.reap()
    assert reaper.unavailable == {"container": "no answer within 0.01 s"}


async def test_it_looks_from_time_to_time(reaper: Reaper, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.reaping.REAP_EVERY_S", 0.0)
    running = asyncio.create_task(reaper.run())
    await engine.called_thrice.wait()
    running.cancel()


async def test_without_anything_to_reap_there_is_no_loop() -> None:
    await Reaper({"noop": NoopExecutor()}).run()


async def test_a_session_is_opened_after_the_reaping(engine: Engine, tmp_path: Path) -> None:
    """A session says that this node runs what it is handed, and nothing else."""
    engine.hangs = True
    async with made_node(tmp_path, executors={"container": engine}) as live:
        running = asyncio.create_task(live.node.runtime.run())
        await engine.called.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        with live.snapshot() as snapshot:
            assert snapshot.sessions() == []
        engine.may_go_on.set()
        assert await live.wait_for_session() == 1
        live.node.runtime.stop()
        await running
