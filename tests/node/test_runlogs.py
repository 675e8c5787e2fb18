"""The logs of a node's attempts, from their first byte to their removal (M4, M20)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from node.interface import NotFound
from node.kept_log import KeptLog
from node.log_folder import BLOCK_BYTES, FOLDER_SHIFT, LogFolder
from node.runlogs import INLINE_BYTES_MAX, RunLogs
from statemachine.codec import encode_event
from statemachine.commands import RunsPruned
from tests.node.conftest import LiveNode

RUN_ID = f"{1_796_004_000_000:012x}-01JDAAAAAAAAAAAAAAAAAAAAAA"
SPAN_MS = 1 << FOLDER_SHIFT
LONG = b"0123456789abcdef" * (INLINE_BYTES_MAX // 4)


def opened(tmp_path: Path, *, bytes_max: int = 10**9) -> RunLogs:
    return RunLogs(LogFolder(tmp_path / "logs", bytes_max=bytes_max), node="n1")


@pytest.fixture
def logs(tmp_path: Path) -> RunLogs:
    return opened(tmp_path)


def files_in(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.rglob("*") if path.is_file())


async def followed(logs: RunLogs, offset: int = 0) -> bytes:
    return b"".join([piece.data async for piece in logs.follow(RUN_ID, 1, offset)])


@pytest.mark.parametrize("output", [b"short", LONG])
async def test_a_log_is_read_while_the_attempt_runs_and_afterwards(
    logs: RunLogs, tmp_path: Path, output: bytes
) -> None:
    live = logs.open(RUN_ID, 1)
    live.write(output[:3])
    assert await logs.read(RUN_ID, 1) == KeptLog(head=output[:3])
    live.write(output[3:])
    assert logs.close(live) == len(output)
    assert await logs.read(RUN_ID, 1) == KeptLog(head=output)
    await logs.wait_packed()
    assert await logs.read(RUN_ID, 1) == KeptLog(head=output)
    assert await opened(tmp_path).read(RUN_ID, 1) == KeptLog(head=output)
    assert files_in(tmp_path) == [f"{RUN_ID}.1.log.gz"]


async def test_an_attempt_without_output_leaves_nothing(logs: RunLogs, tmp_path: Path) -> None:
    assert logs.close(logs.open(RUN_ID, 1)) is None
    assert await logs.read(RUN_ID, 1) is None
    assert files_in(tmp_path) == []


async def test_following_ends_with_the_attempt_and_misses_nothing_of_the_packing(logs: RunLogs) -> None:
    live = logs.open(RUN_ID, 1)
    following = asyncio.create_task(followed(logs))
    for begin in range(0, len(LONG), 7_001):
        live.write(LONG[begin : begin + 7_001])
        await asyncio.sleep(0)
    logs.close(live)
    assert await following == await followed(logs) == LONG
    await logs.wait_packed()
    assert await followed(logs) == LONG
    assert await followed(logs, len(LONG) - 5) == LONG[-5:]
    assert await followed(logs, 10**9) == b""


async def test_a_reader_of_a_file_that_is_packed_just_then_goes_on_in_the_packed_one(logs: RunLogs) -> None:
    live = logs.open(RUN_ID, 1)
    live.write(LONG)
    await live.kept()
    reader = logs.follow(RUN_ID, 1, 0)
    first = await anext(reader)
    logs.close(live)
    await logs.wait_packed()
    assert first.data + b"".join([piece.data async for piece in reader]) == LONG


async def test_what_a_killed_node_left_behind_is_packed_at_its_next_start(logs: RunLogs, tmp_path: Path) -> None:
    live = logs.open(RUN_ID, 1)
    live.write(LONG)
    await live.kept()
    again = opened(tmp_path)
    fresh = again.open(RUN_ID, 2)
    fresh.write(LONG)
    await fresh.kept()
    await again.start()
    assert await again.read(RUN_ID, 1) == KeptLog(head=LONG)
    assert again.close(fresh) == len(LONG)
    await again.wait_packed()
    assert await again.read(RUN_ID, 2) == KeptLog(head=LONG)
    assert files_in(tmp_path) == [f"{RUN_ID}.{attempt}.log.gz" for attempt in (1, 2)]


@pytest.mark.parametrize("output", [b"short", LONG])
async def test_a_full_disk_costs_the_log_and_nothing_else(
    logs: RunLogs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, output: bytes
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LogFolder, "keep", refuse)
    live = logs.open(RUN_ID, 1)
    live.write(output)
    logs.close(live)
    await logs.wait_packed()
    assert await logs.read(RUN_ID, 1) is None
    assert "cannot be kept: [Errno 28]" in caplog.text


async def test_beyond_its_room_a_node_forgets_the_oldest(tmp_path: Path) -> None:
    logs = opened(tmp_path, bytes_max=20 * BLOCK_BYTES)
    for number in range(100):
        live = logs.open(f"{number:012x}-j", 1)
        live.write(b"x")
        logs.close(live)
        await logs.wait_packed()
        assert logs.figures.disk_bytes <= 20 * BLOCK_BYTES
    assert await logs.read(f"{99:012x}-j", 1) is not None
    assert await logs.read(f"{0:012x}-j", 1) is None


async def test_it_knows_which_logs_are_gone_because_they_are_old(logs: RunLogs) -> None:
    logs.check_kept(RUN_ID)
    await logs.prune(1_796_004_000_000 - SPAN_MS)
    logs.check_kept(RUN_ID)
    await logs.prune(1_796_004_000_000 + SPAN_MS)
    with pytest.raises(NotFound, match="so old that node n1"):
        logs.check_kept(RUN_ID)


async def test_the_logs_of_a_run_go_with_it(logs: RunLogs) -> None:
    live = logs.open(RUN_ID, 1)
    live.write(b"x")
    logs.close(live)
    await logs.remove(RUN_ID, 1)
    assert await logs.read(RUN_ID, 1) is None


async def test_a_log_that_cannot_be_read_is_not_found_and_says_why(logs: RunLogs, tmp_path: Path) -> None:
    live = logs.open(RUN_ID, 1)
    live.write(b"x")
    logs.close(live)
    path = tmp_path / "logs" / RUN_ID[:6] / f"{RUN_ID}.1.log.gz"
    path.write_bytes(b"damaged")
    with pytest.raises(NotFound, match=r"attempt 1 .* on node n1 cannot be read: it has no header of ours"):
        await logs.read(RUN_ID, 1)


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "0" * 12 + "-a/b", "0" * 12 + "-a.b", "", "0" * 12 + "-a\n"])
async def test_no_id_leads_out_of_the_folder(logs: RunLogs, run_id: str) -> None:
    with pytest.raises(NotFound):
        await logs.read(run_id, 1)
    with pytest.raises(NotFound):
        await anext(logs.follow(run_id, 1, 0))


async def test_the_logs_of_runs_that_were_pruned_go_with_them(idle: LiveNode) -> None:
    """On every node: each hears whose logs are to go (M11, M20)."""
    logs = idle.node.service._logs
    live = logs.open(RUN_ID, 2)
    live.write(b"once")
    logs.close(live)
    kept = logs.open(RUN_ID[:-1] + "B", 1)
    kept.write(b"still")
    logs.close(kept)
    await logs.wait_packed()
    idle.node.runtime._on_events(1, [encode_event(RunsPruned(runs=((RUN_ID, 2),)))])
    await logs.wait_packed()
    assert await logs.read(RUN_ID, 2) is None
    assert await logs.read(kept.run_id, 1) == KeptLog(head=b"still")
