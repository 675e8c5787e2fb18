"""Starting the log process as a child of the node process, and ending it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from raftlog.client import LogClient
from raftlog.config import RaftConfig
from raftlog.errors import LogRefused
from raftlog.process import READY, REFUSED

logger = logging.getLogger(__name__)

START_TIMEOUT_S: Final = 60.0
"""From the fork until the log is open; a store is opened in a fraction of a second, but a busy disk may take longer."""
STOP_TIMEOUT_S: Final = 5.0
"""From closing its socket until it is killed: one tick and its commit."""
DAMAGE_SIGNALS: Final = frozenset({signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT})
"""What comes of reading a mapped file that is cut, damaged or cannot be read."""


async def start_log_process(argv: Sequence[str], data_dir: Path, config: RaftConfig) -> LogClient:
    """Run `argv`, which must call `process.run_log_process` for this data directory, and connect to it.

    Closing the client ends the child; the child's end shows in `client.closed`. Call it from the thread that lives as
    long as the node (the system may end the child with the thread that made it). The child logs to our standard error.
    Raises LogRefused, with the child's reason, if it does not start, and LogClosed if it ends right after."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        await _wait_ready(process)
        client = await LogClient.connect(data_dir, config)
    except LogRefused:
        await _stop(process, timeout_s=STOP_TIMEOUT_S)  # it has said why, and is on its way out
        raise
    except BaseException:
        await _stop(process)
        raise
    client.after_close(lambda: _stop(process, timeout_s=STOP_TIMEOUT_S))
    client.process_id = process.pid
    return client


async def _wait_ready(process: asyncio.subprocess.Process) -> None:
    """Until the child says that it is ready. Raises LogRefused."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            line = (await process.stdout.readline()).rstrip()
    except TimeoutError:
        raise LogRefused(f"the log process was not ready within {START_TIMEOUT_S:g} s") from None
    if line == READY:
        return
    if line.startswith(REFUSED):
        raise LogRefused(line.removeprefix(REFUSED).decode(errors="replace"))
    how = _described(await process.wait())
    raise LogRefused(f"the log process ended before it was ready ({how}); its log says why")


async def _stop(process: asyncio.subprocess.Process, *, timeout_s: float = 0.0) -> str:
    """Give it time to end by itself, then kill it; returns once it is gone, how it ended."""
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        if process.returncode is None:
            logger.warning("the log process did not end by itself; it is killed")
            process.kill()
        await process.wait()
    return _described(process.returncode or 0)


def _described(code: int) -> str:
    """How a process ended, by its exit code."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    if -code in DAMAGE_SIGNALS:
        return f"killed by {name}: its database file is damaged, or the disk cannot be read"
    return f"killed by {name}"
