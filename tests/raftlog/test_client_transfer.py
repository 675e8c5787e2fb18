"""Handing the leadership over, as the node process sees it: the log process only tells its status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_log_process import FakeLogProcess
from sample_status import STATUS

from raftlog import local_protocol as local
from raftlog.client import LogClient
from raftlog.errors import LogClosed
from raftlog.interface import Role

DEPOSED = replace(STATUS, role=Role.FOLLOWER, leader=None, term=4)
LED_BY_ANOTHER = replace(STATUS, role=Role.FOLLOWER, leader="n2", term=4)


@pytest.fixture
async def process() -> AsyncIterator[FakeLogProcess]:
    process = FakeLogProcess()
    yield process
    await process.close()


@pytest.fixture
async def client(process: FakeLogProcess, tmp_path: Path) -> AsyncIterator[LogClient]:
    client = await process.client(tmp_path)
    yield client
    await client.close()


@pytest.mark.parametrize("to", [None, "n2"])
async def test_it_is_over_when_another_leads(client: LogClient, process: FakeLogProcess, to: str | None) -> None:
    task = asyncio.create_task(client.transfer_leadership(to, timeout_s=5))
    assert await process.hears() == [local.TRANSFER, to or ""]
    process.say(local.STATUS, local.packable(DEPOSED))
    await asyncio.wait((task,), timeout=0.05)
    assert not task.done(), "nobody leads yet"
    process.say(local.STATUS, local.packable(LED_BY_ANOTHER))
    assert await task


async def test_a_leader_that_stays_says_so_in_time(client: LogClient) -> None:
    assert not await client.transfer_leadership(timeout_s=0.01)


async def test_a_leader_that_was_deposed_leads_no_more_though_nobody_does(
    client: LogClient, process: FakeLogProcess
) -> None:
    task = asyncio.create_task(client.transfer_leadership(timeout_s=0.1))
    process.say(local.STATUS, local.packable(DEPOSED))
    assert await task


async def test_who_does_not_lead_has_nothing_to_hand_over(client: LogClient, process: FakeLogProcess) -> None:
    heard = asyncio.Event()
    client.on_status(lambda status: heard.set())
    process.say(local.STATUS, local.packable(LED_BY_ANOTHER))
    await heard.wait()
    assert await client.transfer_leadership()
    assert process.heard.empty()


async def test_the_end_of_the_log_process_ends_the_waiting(client: LogClient, process: FakeLogProcess) -> None:
    task = asyncio.create_task(client.transfer_leadership(timeout_s=5))
    await process.hears()
    process.die()
    with pytest.raises(LogClosed):
        await task
