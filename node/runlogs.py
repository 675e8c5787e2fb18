"""The logs of this node's attempts, from their first byte to their removal: live while the attempt runs, then packed on
this node's disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from node.interface import LogPiece, NotFound
from node.kept_log import DamagedLog, KeptLog
from node.live_log import PIECE_BYTES_MAX, LiveLog
from node.log_archive import ArchiveFigures, LogArchive
from node.log_folder import FOLDER_SHIFT, LogFolder, is_run_id
from node.log_store import LogStore, StoreError

INLINE_BYTES_MAX = 32 * 1024
"""A log that is no longer is packed and written on the spot: that takes less than handing it to a thread."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFigures:
    """For /metrics. `archive` is None without a store."""

    disk_bytes: int
    archive: ArchiveFigures | None = None

    @property
    def waiting(self) -> int:
        return 0 if self.archive is None else self.archive.waiting


class RunLogs:
    """Of the event loop's thread only; what takes longer goes to threads."""

    def __init__(self, folder: LogFolder, *, node: str, store: LogStore | None = None) -> None:
        self._folder = folder
        self._archive = None if store is None else LogArchive(store, folder)
        self._node = node
        self._first_kept_ms = 0
        self._live: dict[tuple[str, int], LiveLog] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_shrinking = False
        with contextlib.suppress(OSError):
            folder.set_live_aside()

    # --- an attempt's own

    def open(self, run_id: str, attempt: int) -> LiveLog:
        """Where an attempt puts out from now on."""
        live = LiveLog(run_id, attempt, self._folder.live_files(run_id, attempt))
        self._live[run_id, attempt] = live
        return live

    def close(self, live: LiveLog) -> int | None:
        """The attempt is over: pack its log. Returns how many bytes are kept, None when there are none; a full disk
        must not cost the run its result."""
        live.end()
        if live.total_bytes and not (live.is_in_memory and live.kept_bytes <= INLINE_BYTES_MAX):
            self._do_in_background(self._pack(live))
            return live.kept_bytes
        self._forget(live)
        if not live.total_bytes or not self._keep(live.run_id, live.attempt, live.kept_in_memory()):
            return None
        self._kept(live.run_id, live.attempt)
        return live.kept_bytes

    async def _pack(self, live: LiveLog) -> None:
        """Until it is kept, readers get it from the live one."""
        with contextlib.suppress(OSError):
            log = await live.kept()
            if await asyncio.to_thread(self._keep, live.run_id, live.attempt, log):
                live.files.remove()
                self._kept(live.run_id, live.attempt)
        self._forget(live)

    def _forget(self, live: LiveLog) -> None:
        if self._live.get((live.run_id, live.attempt)) is live:
            del self._live[live.run_id, live.attempt]

    def _keep(self, run_id: str, attempt: int, log: KeptLog) -> bool:
        try:
            self._folder.keep(run_id, attempt, log)
        except OSError as error:
            logger.error("the log of run %s cannot be kept: %s", run_id, error)
            return False
        return True

    def _kept(self, run_id: str, attempt: int) -> None:
        if self._archive is not None:
            self._archive.add(run_id, attempt)
        self._maybe_shrink()

    # --- readers

    async def read(self, run_id: str, attempt: int) -> KeptLog | None:
        """An attempt's log, as far as it has come; None when it is not here: it was empty, is of another node, or was
        removed. Raises NotFound for what cannot be the id of a run, and for a log that cannot be read any more."""
        if not is_run_id(run_id):
            raise NotFound(f"There is no run {run_id!r}.")
        live = self._live.get((run_id, attempt))
        with contextlib.suppress(FileNotFoundError):
            if live is not None:
                return await live.kept()
        try:
            return await asyncio.to_thread(self._folder.read, run_id, attempt)
        except (DamagedLog, OSError) as error:
            message = f"The log of attempt {attempt} of run {run_id} on node {self._node} cannot be read: {error}."
            raise NotFound(message) from None

    async def read_archived(self, run_id: str, attempt: int) -> KeptLog | None:
        """What the store has; None without one, too. Raises NotFound when it cannot be asked."""
        if self._archive is None:
            return None
        try:
            return await self._archive.read(run_id, attempt)
        except StoreError as error:
            message = f"The log of attempt {attempt} of run {run_id} cannot be read from the log store: {error}."
            raise NotFound(message) from None

    async def follow(self, run_id: str, attempt: int, offset: int) -> AsyncIterator[LogPiece]:
        """What there is from the offset on, and what comes until the attempt has ended."""
        live = self._live.get((run_id, attempt))
        if live is not None:
            try:
                async for piece in live.follow(offset):
                    offset = piece.offset + len(piece.data)
                    yield piece
                return
            except FileNotFoundError:
                pass  # its first part has been packed in the meantime
        log = await self.read(run_id, attempt)
        for piece in pieces_of(log, offset) if log is not None else ():
            yield piece

    def check_kept(self, run_id: str) -> None:
        """Raises NotFound for a run that is so old that its logs are gone or about to go."""
        if int(run_id[:12], 16) >> FOLDER_SHIFT < self._first_kept_ms >> FOLDER_SHIFT:
            raise NotFound(f"Run {run_id} is so old that node {self._node} no longer keeps its logs.")

    # --- keeping house

    async def start(self) -> None:
        """Pack what a killed process of this node left behind, and see how much there is."""
        for run_id, attempt in await asyncio.to_thread(self._take_over):
            self._kept(run_id, attempt)

    def _take_over(self) -> list[tuple[str, int]]:
        taken = []
        for run_id, attempt, files in self._folder.left_behind():
            with contextlib.suppress(OSError):
                log = files.left_behind()
                if log.total_bytes and not self._keep(run_id, attempt, log):
                    continue
                files.remove()
                if log.total_bytes:
                    taken.append((run_id, attempt))
        self._folder.measure()
        return taken

    async def upload(self) -> None:
        """Carry logs to the store, if there is one, until cancelled."""
        if self._archive is not None:
            await self._archive.run()

    async def prune(self, before_ms: int) -> None:
        """Forget the logs of runs that were due before, some at a time."""
        self._first_kept_ms = max(before_ms, 0)
        await asyncio.to_thread(self._folder.prune, before_ms)

    async def remove(self, run_id: str, attempts: int) -> None:
        """Forget the logs of a run that had so many attempts, those in the store too. Raises StoreError."""
        await asyncio.to_thread(self._folder.remove, run_id, attempts)
        if self._archive is not None:
            await self._archive.remove(run_id, attempts)

    def forget(self, runs: Sequence[tuple[str, int]]) -> None:
        """Remove the logs of runs that are gone, each with how many attempts it had. Takes its time; what a store does
        not let go of stays there until it is old."""
        self._do_in_background(self._remove_all(runs))

    async def _remove_all(self, runs: Sequence[tuple[str, int]]) -> None:
        for run_id, attempts in runs:
            with contextlib.suppress(StoreError):
                await self.remove(run_id, attempts)

    @property
    def figures(self) -> LogFigures:
        archive = None if self._archive is None else self._archive.figures
        return LogFigures(disk_bytes=self._folder.disk_bytes, archive=archive)

    async def wait_packed(self) -> None:
        """Until nothing is under way any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def leave(self, timeout_s: float) -> None:
        """This node may never come back: what waits for the store gets so long."""
        await self.wait_packed()
        if self._archive is not None and not await self._archive.wait_carried(timeout_s):
            logger.warning("%d logs wait for the store until this node is started again", self.figures.waiting)

    def _maybe_shrink(self) -> None:
        if self._folder.is_too_large and not self._is_shrinking:
            self._is_shrinking = True
            self._do_in_background(self._shrink())

    async def _shrink(self) -> None:
        try:
            freed = await asyncio.to_thread(self._folder.shrink)
            logger.info("the logs of runs took too much room: the oldest %d KiB went", freed // 1024)
        except OSError as error:
            logger.error("the logs of runs cannot be removed: %s", error)
        finally:
            self._is_shrinking = False

    def _do_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def pieces_of(log: KeptLog, offset: int) -> Iterator[LogPiece]:
    """What is kept from the offset on, in pieces."""
    while True:
        begin, data = log.read(offset)
        if not data:
            return
        offset = begin + len(data[:PIECE_BYTES_MAX])
        yield LogPiece(offset=begin, data=data[:PIECE_BYTES_MAX])
