"""The in-process twin behaves as every log does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from raftlog_applier import ChainApplier
from raftlog_conformance import LogConformance

from raftlog.disk import LmdbDisk
from raftlog.errors import LogClosed, OutcomeUnknown
from raftlog.memory import MemoryLog


class MemoryHarness:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        self._disk = LmdbDisk(self._path, map_bytes=256 * 1024 * 1024, synchronous=False)
        self.applier = ChainApplier(self._disk)
        self.log = MemoryLog(self.applier, self._disk)

    def applied(self) -> tuple[int, int]:
        with self._disk.environment.begin() as transaction:
            return self.applier.applied_index(transaction), self.applier.count(transaction)

    async def restart(self) -> None:
        await self.close()
        self._open()

    async def close(self) -> None:
        await self.log.close()
        self._disk.close()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    made = MemoryHarness(tmp_path)
    yield made
    await made.close()


class TestMemoryLog(LogConformance):
    async def test_an_error_in_apply_closes_the_log(self, harness: MemoryHarness) -> None:
        """The log process would end; here the error reaches the event loop, and nobody is told a result."""
        heard: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
        before = harness.applied()
        harness.applier._apply_command = lambda transaction, command: 1 / 0  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknown):
            await harness.log.propose(b"poison")
        assert isinstance(heard[0]["exception"], ZeroDivisionError)
        assert harness.applied() == before
        with pytest.raises(LogClosed):
            await harness.log.propose(b"after")

    async def test_a_result_that_comes_too_late_is_unknown(self, harness: MemoryHarness) -> None:
        with pytest.raises(OutcomeUnknown):
            await harness.log.propose(b"late", timeout_s=-1)
        assert await harness.log.propose(b"next")
