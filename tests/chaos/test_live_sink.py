"""The witness of a live run writes each call down before it answers, also when nobody waits for the answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from chaos.live_sink import Call, CallEnd, Record, Sink, read_record, takes_s

HEADERS = {"Horae-Run-Id": "r1", "Horae-Job-Id": "j1", "Horae-Attempt": "2", "Horae-Fence-Token": "5"}


class Waiting(Sink):
    """Answers when it is told to."""

    def __init__(self, record: Record) -> None:
        super().__init__(record, "0")
        self.called, self.answer, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def _act(self, request: web.Request, dice: object) -> str:  # type: ignore[override]
        self.called.set()
        try:
            await self.answer.wait()
        finally:
            self.over.set()
        return "succeeded"


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[tuple[Waiting, str]]:
    sink = Waiting(Record(tmp_path / "record"))
    app = web.Application()
    app.router.add_post("/{script}", sink.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield sink, f"http://127.0.0.1:{runner.addresses[0][1]}/quick"
    await runner.cleanup()


async def test_a_call_is_on_the_disk_before_it_is_answered(waiting: tuple[Waiting, str], tmp_path: Path) -> None:
    sink, url = waiting
    async with aiohttp.ClientSession() as session:
        asking = asyncio.create_task(_post(session, url))
        await sink.called.wait()
        [call] = read_record(tmp_path / "record")
        assert isinstance(call, Call)
        assert (call.run, call.job, call.attempt, call.token, call.peer) == ("r1", "j1", 2, 5, "127.0.0.1")
        sink.answer.set()
        assert await asking == 200
    end = list(read_record(tmp_path / "record"))[-1]
    assert isinstance(end, CallEnd)
    assert (end.run, end.token, end.how) == ("r1", 5, "succeeded")
    assert end.at >= call.at


async def test_a_caller_that_hangs_up_shows_as_killed(waiting: tuple[Waiting, str], tmp_path: Path) -> None:
    sink, url = waiting
    async with aiohttp.ClientSession() as session:
        asking = asyncio.create_task(_post(session, url))
        await sink.called.wait()
        asking.cancel()
        await sink.over.wait()
    await asyncio.sleep(0)
    end = list(read_record(tmp_path / "record"))[-1]
    assert isinstance(end, CallEnd)
    assert end.how == "killed"


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    record = Record(tmp_path / "record")
    record.write(CallEnd(at=1.0, peer="", run="r", token=1, how="failed"))
    with (tmp_path / "record").open("ab") as file:
        file.write(b'{"what":"call","at":')
    assert len(list(read_record(tmp_path / "record"))) == 1


def test_the_scripts_take_what_they_say() -> None:
    assert all(0.8 <= takes_s("slow", random.Random(seed)) <= 3.0 for seed in range(50))
    assert {takes_s("hang", random.Random(seed)) > 10 for seed in range(50)} == {True, False}
    assert all(takes_s("quick", random.Random(seed)) < 0.1 for seed in range(50))


async def _post(session: aiohttp.ClientSession, url: str) -> int:
    async with session.post(url, headers=HEADERS) as response:
        return response.status
