"""What an attempt puts out, while it runs: bounded, spilled to files, followed by readers."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node import live_log
from node.interface import LogPiece
from node.kept_log import HEAD_BYTES_MAX, TAIL_BYTES_MAX, KeptLog
from node.live_files import LiveFiles
from node.live_log import FLUSH_BYTES, LiveLog

KEPT_BYTES_MAX = HEAD_BYTES_MAX + TAIL_BYTES_MAX
PIECE = bytes(range(256)) * 256


def expected(whole: bytes) -> KeptLog:
    """By the definition: the first part, and the last of the rest."""
    rest = whole[HEAD_BYTES_MAX:]
    tail = rest[-TAIL_BYTES_MAX:]
    return KeptLog(head=whole[:HEAD_BYTES_MAX], tail=tail, cut_bytes=len(rest) - len(tail))


@pytest.fixture
def live(tmp_path: Path) -> LiveLog:
    return LiveLog("r", 1, LiveFiles(tmp_path / "live" / "r.1"))


async def followed(live: LiveLog, offset: int = 0) -> list[tuple[int, bytes]]:
    return [(piece.offset, piece.data) async for piece in live.follow(offset)]


def left_by_a_kill(tmp_path: Path) -> KeptLog:
    return LiveFiles(tmp_path / "live" / "r.1").left_behind()


async def turns_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - threads write files: there is nothing to be told by
            await asyncio.sleep(0)


async def test_a_short_output_touches_no_file(live: LiveLog, tmp_path: Path) -> None:
    for piece in (b"one\n", b"", b"two\n"):
        live.write(piece)
    live.end()
    assert live.kept_in_memory() == await live.kept() == KeptLog(head=b"one\ntwo\n")
    assert left_by_a_kill(tmp_path) == KeptLog(head=b"") and not (tmp_path / "live").exists()


@given(sizes=st.lists(st.integers(0, KEPT_BYTES_MAX), min_size=1, max_size=6))
def test_beginning_and_end_are_kept_and_what_is_missing_is_counted(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    async def check() -> None:
        live, whole = LiveLog("r", 1, LiveFiles(tmp_path_factory.mktemp("x") / "r.1")), b""
        for number, size in enumerate(sizes):
            piece = (PIECE[number:] * (size // len(PIECE) + 2))[:size]
            live.write(piece)
            whole += piece
            await asyncio.sleep(0)
        live.end()
        assert live.total_bytes == len(whole)
        assert await live.kept() == expected(whole)
        assert live.kept_bytes == expected(whole).kept_bytes

    asyncio.run(check())


async def test_a_gigabyte_costs_what_is_kept(live: LiveLog) -> None:
    live.write(b"the beginning")
    for _ in range(16):
        live.write(bytes(64 * 1024 * 1024))
    live.write(b"the end")
    live.end()
    kept = await live.kept()
    assert kept.head.startswith(b"the beginning") and kept.tail.endswith(b"the end")
    assert kept.kept_bytes == KEPT_BYTES_MAX
    assert kept.total_bytes == 13 + 1024**3 + 7


async def one_more(reader: AsyncIterator[LogPiece]) -> LogPiece:
    return await anext(reader)


async def test_a_reader_gets_what_was_put_out_and_then_what_comes(live: LiveLog) -> None:
    live.write(b"before ")
    reader = live.follow(0)
    assert (await anext(reader)).data == b"before "
    waiting = asyncio.create_task(one_more(reader))
    late = asyncio.create_task(one_more(live.follow(7)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done() and not late.done()
    live.write(b"after")
    assert await waiting == await late == LogPiece(offset=7, data=b"after")
    live.end()
    assert [piece async for piece in reader] == []


async def test_a_reader_goes_on_from_any_place_in_memory_or_in_the_file(live: LiveLog) -> None:
    whole = PIECE * 3
    for begin in range(0, len(whole), 10_000):
        live.write(whole[begin : begin + 10_000])
    await live.kept()
    live.write(b"more")
    live.end()
    assert b"".join(data for _, data in await followed(live)) == whole + b"more"
    for offset in (FLUSH_BYTES - 1, FLUSH_BYTES, 2 * FLUSH_BYTES + 7, len(whole), len(whole) + 4, 10**9):
        assert b"".join(data for _, data in await followed(live, offset)) == (whole + b"more")[offset:]


async def test_a_reader_that_is_too_slow_misses_what_was_cut_and_sees_where(live: LiveLog) -> None:
    live.write(b"h" * HEAD_BYTES_MAX)
    live.write(b"lost" * TAIL_BYTES_MAX)
    live.write(b"t" * TAIL_BYTES_MAX)
    live.end()
    pieces = await followed(live)
    kept = await live.kept()
    jumps = [(begin, end) for (begin, data), (end, _) in pairwise(pieces) if begin + len(data) != end]
    assert len(jumps) == 1
    assert b"".join(data for _, data in pieces) == kept.head + kept.tail
    assert pieces[-1][0] + len(pieces[-1][1]) == live.total_bytes == kept.total_bytes


async def test_what_was_put_out_so_far_is_on_the_disk_when_the_node_is_killed(
    live: LiveLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_log, "FLUSH_AFTER_S", 0.0)
    live.write(b"h" * (HEAD_BYTES_MAX + 5))
    await turns_until(lambda: left_by_a_kill(tmp_path).kept_bytes == HEAD_BYTES_MAX + 5)
    assert left_by_a_kill(tmp_path) == KeptLog(head=b"h" * HEAD_BYTES_MAX, tail=b"h" * 5)
    live.write(b"t" * (TAIL_BYTES_MAX + 5))
    await turns_until(lambda: left_by_a_kill(tmp_path).total_bytes == live.total_bytes)
    live.end()
    assert left_by_a_kill(tmp_path) == await live.kept()


async def test_a_disk_that_refuses_costs_memory_but_no_output(
    live: LiveLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(live.files, "append_head", refuse)
    live.write(PIECE * 2)
    await live.kept()
    live.write(PIECE)
    live.end()
    assert await live.kept() == KeptLog(head=PIECE * 3)
    assert caplog.text.count("cannot be written while it runs") == 1
