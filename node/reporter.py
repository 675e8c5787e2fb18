"""Reports of this node that must be answered: results, withdrawals, starts. Each is proposed until it gets a definite
answer, since the state machine drops repeats; what it answers (ok, fenced, …) ends the matter either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

from raftlog.errors import LogClosed, LogError
from raftlog.interface import Lane, Log
from statemachine.codec import decode_reply, encode_command
from statemachine.commands import AnyReply, Detach, Finish, Start, Withdraw

AGAIN_AFTER_S = 0.5
REPORTS_IN_FLIGHT_MAX = 2_048
"""Reports proposed at once; the others wait here, so that the log's own queue never overflows with them."""
REPORTS_BESIDE_STARTS_MAX = 256
"""The same while claims wait whose time has come: a late start breaks a promise, a late report only waits. Not zero:
what ran and is not reported runs again if this node dies."""

logger = logging.getLogger(__name__)

Report = Finish | Start | Withdraw | Detach
Answered = Callable[[Report, AnyReply], None]


class Reporter:
    """Bounded by the claims that a node can hold: each has one report under way at a time."""

    def __init__(self, log: Log, *, timeout_s: float) -> None:
        self._log = log
        self._timeout_s = timeout_s
        self._waiting: deque[tuple[Report, Answered]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight_max = REPORTS_IN_FLIGHT_MAX
        self._failing = False
        """Since an answer came last. Said once: thousands of reports may wait for a log that is away or a disk that is
        full, and a line for each and each attempt fills what is left of that disk."""

    def __len__(self) -> int:
        """Reports that are not answered."""
        return len(self._tasks) + len(self._waiting)

    def report(self, report: Report, answered: Answered) -> None:
        """Returns at once; calls `answered` when the cluster has answered."""
        self._waiting.append((report, answered))
        self._propose_waiting()

    def yield_to_starts(self, starts_wait: bool) -> None:
        """Whether claims wait whose time has come: reports then take less of the node and the log."""
        self._in_flight_max = REPORTS_BESIDE_STARTS_MAX if starts_wait else REPORTS_IN_FLIGHT_MAX
        self._propose_waiting()

    def _propose_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._tasks) < self._in_flight_max:
            task = loop.create_task(self._report(*self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._propose_waiting()

    async def wait_answered(self, timeout_s: float) -> bool:
        """Whether every report was answered in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        return not len(self)

    def stop(self) -> None:
        """Give up what is not answered yet: the state machine gives those runs back when the session ends."""
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    async def _report(self, report: Report, answered: Answered) -> None:
        command = encode_command(report)
        while True:
            try:
                reply = await self._log.propose(command, lane=Lane.WORK, timeout_s=self._timeout_s)
            except LogClosed:
                return
            except LogError as error:
                self._warn_once(report, error)
                await asyncio.sleep(AGAIN_AFTER_S)
            else:
                self._failing = False
                answered(report, decode_reply(reply))
                return

    def _warn_once(self, report: Report, error: LogError) -> None:
        if not self._failing:
            self._failing = True
            kind = type(report).__name__
            logger.warning("%s of run %s: %s; again until it is answered, as all others", kind, report.run_id, error)
