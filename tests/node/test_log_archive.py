"""Logs on their way to a store: each arrives at least once, through failures, kills and want of room (M20)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from node import log_archive
from node.interface import NotFound
from node.kept_log import KeptLog, packed
from node.log_archive import ArchiveFigures, LogArchive
from node.log_folder import BLOCK_BYTES, FOLDER_SHIFT, LogFolder
from node.runlogs import RunLogs
from tests.node.object_stores import MemoryStore

ONE = KeptLog(head=b"one")
WAIT_S = 10.0


def run_id(number: int) -> str:
    return f"{number << FOLDER_SHIFT:012x}-j"


def key(number: int, attempt: int = 1) -> str:
    return f"{run_id(number)[:6]}/{run_id(number)}.{attempt}.log.gz"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_archive, "RETRY_AFTER_S", 0.0)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def opened(tmp_path: Path, store: MemoryStore, *, bytes_max: int = 10**9) -> RunLogs:
    return RunLogs(LogFolder(tmp_path / "logs", bytes_max=bytes_max), node="n1", store=store)


def put_out(logs: RunLogs, number: int, output: bytes = b"one") -> None:
    live = logs.open(run_id(number), 1)
    live.write(output)
    logs.close(live)


@contextlib.asynccontextmanager
async def uploading(logs: RunLogs) -> AsyncIterator[None]:
    """Until all has arrived."""
    task = asyncio.create_task(logs.upload())
    yield
    async with asyncio.timeout(WAIT_S):
        await logs.leave(WAIT_S)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_log_is_uploaded_when_its_attempt_has_ended(tmp_path: Path, store: MemoryStore) -> None:
    logs = opened(tmp_path, store)
    async with uploading(logs):
        put_out(logs, 1)
        put_out(logs, 2, b"x" * 100_000)
    assert store.objects == {key(1): packed(ONE), key(2): packed(KeptLog(head=b"x" * 100_000))}
    assert logs.figures.archive == ArchiveFigures(uploaded=2)
    assert list((tmp_path / "logs" / "to-upload").iterdir()) == []


async def test_what_fails_is_tried_again_until_it_has_arrived(tmp_path: Path, store: MemoryStore) -> None:
    logs = opened(tmp_path, store)
    store.failures = 5
    async with uploading(logs):
        for number in range(3):
            put_out(logs, number)
    assert set(store.objects) == {key(number) for number in range(3)}
    assert logs.figures.archive == ArchiveFigures(uploaded=3, failed=5)


async def test_what_a_killed_node_had_not_uploaded_is_uploaded_at_its_next_start(
    tmp_path: Path, store: MemoryStore
) -> None:
    put_out(opened(tmp_path, store), 1)
    half = opened(tmp_path, store).open(run_id(2), 1)
    half.write(b"x" * 100_000)
    await half.kept()
    again = opened(tmp_path, store)
    async with uploading(again):
        await again.start()
    assert set(store.objects) == {key(1), key(2)}


async def test_a_log_that_waits_outlives_its_removal_for_want_of_room(tmp_path: Path, store: MemoryStore) -> None:
    logs = opened(tmp_path, store, bytes_max=4 * BLOCK_BYTES)
    for number in range(10):
        put_out(logs, number)
        await logs.wait_packed()
    assert await logs.read(run_id(0), 1) is None
    async with uploading(logs):
        assert logs.figures.waiting == 10
    assert len(store.objects) == 10
    assert await logs.read_archived(run_id(0), 1) == ONE


async def test_when_too_many_wait_the_oldest_is_given_up_and_counted(tmp_path: Path, store: MemoryStore) -> None:
    folder = LogFolder(tmp_path / "logs", bytes_max=10**9)
    archive = LogArchive(store, folder, waiting_max=2)
    for number in range(3):
        folder.keep(run_id(number), 1, ONE)
        archive.add(run_id(number), 1)
    assert archive.figures == ArchiveFigures(dropped=1, waiting=2)
    assert folder.waiting() == [f"{run_id(number)}.1.log.gz" for number in (1, 2)]


async def test_the_store_is_read_and_forgets_with_the_run(tmp_path: Path, store: MemoryStore) -> None:
    logs = opened(tmp_path, store)
    async with uploading(logs):
        put_out(logs, 1)
    assert await logs.read_archived(run_id(1), 1) == ONE
    assert await logs.read_archived(run_id(1), 2) is None
    await logs.remove(run_id(1), 2)
    assert (store.objects, await logs.read(run_id(1), 1)) == ({}, None)


async def test_a_store_that_is_away_or_has_something_else_is_said(tmp_path: Path, store: MemoryStore) -> None:
    logs = opened(tmp_path, store)
    store.failures = 1
    with pytest.raises(NotFound, match="cannot be read from the log store: the store is away"):
        await logs.read_archived(run_id(1), 1)
    store.objects[key(1)] = b"no log"
    with pytest.raises(NotFound, match="is damaged"):
        await logs.read_archived(run_id(1), 1)


async def test_leaving_waits_for_the_store_but_not_for_long(
    tmp_path: Path, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    logs = opened(tmp_path, store)
    put_out(logs, 1)
    await logs.leave(0.0)
    assert "1 logs wait for the store" in caplog.text


async def test_without_a_store_nothing_waits(tmp_path: Path) -> None:
    logs = RunLogs(LogFolder(tmp_path / "logs", bytes_max=10**9), node="n1")
    put_out(logs, 1)
    await logs.upload()
    await logs.leave(0.0)
    assert await logs.read_archived(run_id(1), 1) is None
    assert logs.figures.archive is None and logs.figures.waiting == 0
