"""Carries the logs of ended attempts to a LogStore, in the background, each at least once, and reads them back.

What waits is a link in a folder of its own: it outlives a kill of this node, and the removal of the log for want of
room. So a log is not lost before it was carried, unless more wait than a node may keep waiting: then the oldest is
given up, and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass

from node.kept_log import DamagedLog, KeptLog, unpacked
from node.log_folder import FOLDER_DIGITS, SUFFIX, LogFolder
from node.log_store import LogStore, StoreError

AT_ONCE = 4
"""Logs on their way."""
WAITING_MAX = 100_000
"""Logs that wait; at a hundred a second, what a store that is away for a quarter of an hour leaves behind."""
RETRY_AFTER_S, RETRY_AFTER_MAX_S = 1.0, 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveFigures:
    """Since this process began; `waiting` is what is not carried yet."""

    uploaded: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0


class LogArchive:
    """Of the event loop's thread only. `run` until cancelled."""

    def __init__(self, store: LogStore, folder: LogFolder, *, waiting_max: int = WAITING_MAX) -> None:
        self._store = store
        self._folder = folder
        self._waiting_max = waiting_max
        self._waiting: deque[str] = deque()
        self._news = asyncio.Event()
        self._under_way = 0
        self._uploaded = self._failed = self._dropped = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, run_id: str, attempt: int) -> None:
        """The log of this attempt has just been kept."""
        try:
            self._push(self._folder.make_wait(run_id, attempt))
        except OSError as error:
            self._dropped += 1
            logger.error("the log of run %s will not be uploaded: %s", run_id, error)

    async def run(self) -> None:
        """Carry what waits, also what an earlier process of this node left waiting."""
        known = set(self._waiting)
        for name in await asyncio.to_thread(self._folder.waiting):
            if name not in known:
                self._push(name)
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._carry_forever())

    async def wait_carried(self, timeout_s: float) -> bool:
        """Whether nothing waits any more, in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def read(self, run_id: str, attempt: int) -> KeptLog | None:
        """None when the store has none. Raises StoreError."""
        data = await self._store.get(_key(f"{run_id}.{attempt}{SUFFIX}"))
        try:
            return None if data is None else unpacked(data)
        except DamagedLog as error:
            raise StoreError(f"the log of attempt {attempt} of run {run_id} is damaged: {error}") from None

    async def remove(self, run_id: str, attempts: int) -> None:
        """Raises StoreError."""
        await self._store.delete([_key(f"{run_id}.{attempt}{SUFFIX}") for attempt in range(1, attempts + 1)])

    @property
    def figures(self) -> ArchiveFigures:
        waiting = len(self._waiting) + self._under_way
        return ArchiveFigures(uploaded=self._uploaded, failed=self._failed, dropped=self._dropped, waiting=waiting)

    def _push(self, name: str) -> None:
        self._waiting.append(name)
        if len(self._waiting) > self._waiting_max:
            self._dropped += 1
            self._folder.end_wait(self._waiting.popleft())
        self._idle.clear()
        self._news.set()

    async def _carry_forever(self) -> None:
        retry_after_s = RETRY_AFTER_S
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            name = self._waiting.popleft()
            self._under_way += 1
            carried = await self._carry(name)
            self._under_way -= 1
            if carried:
                retry_after_s = RETRY_AFTER_S
                if not self._waiting and not self._under_way:
                    self._idle.set()
            else:
                self._waiting.appendleft(name)
                await asyncio.sleep(retry_after_s)
                retry_after_s = min(retry_after_s * 2, RETRY_AFTER_MAX_S)

    async def _carry(self, name: str) -> bool:
        try:
            data = await asyncio.to_thread(self._folder.read_waiting, name)
            if data is not None:
                await self._store.put(_key(name), data)
                self._uploaded += 1
            await asyncio.to_thread(self._folder.end_wait, name)
        except (StoreError, OSError) as error:
            self._failed += 1
            logger.warning("the log %s was not uploaded and will be tried again: %s", name, error)
            return False
        return True


def _key(name: str) -> str:
    return f"{name[:FOLDER_DIGITS]}/{name}"
