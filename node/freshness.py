"""Whether this node reaches a majority, and how old what it reads locally may be.

A read barrier that was asked for at time t and passed proves that everything acknowledged before t is in the local
state: from then on, a local read is at most (now - t) old.
"""

from __future__ import annotations

import asyncio
import logging

from node.clock import Clock
from raftlog.errors import LogClosed, LogError
from raftlog.interface import Log

PROBE_TIMEOUT_S = 2.0
"""Longer than an election, so that one is no lost majority yet."""

logger = logging.getLogger(__name__)


class QuorumProbe:
    """Asks for a barrier now and then; every other barrier of this node helps."""

    def __init__(self, log: Log, clock: Clock, *, every_s: float) -> None:
        self._log = log
        self._clock = clock
        self._every_s = every_s
        self._asked_s = float("-inf")

    @property
    def stale_s(self) -> float:
        """How old a local read may be; infinite when no barrier has passed yet."""
        return max(self._clock.monotonic() - self._asked_s, 0.0)

    async def barrier(self, timeout_s: float) -> int:
        """A read barrier for a caller. Raises LogError."""
        asked_s = self._clock.monotonic()
        index = await self._log.read_barrier(timeout_s=timeout_s)
        self._asked_s = max(self._asked_s, asked_s)
        return index

    async def run(self) -> None:
        """Until cancelled, or the log is closed. A barrier that nothing comes of is no reason to ask later: a leader's
        log process takes silence for a node process that hangs, and hands over."""
        while True:
            asked_s = self._clock.monotonic()
            try:
                await self.barrier(timeout_s=max(self._every_s, PROBE_TIMEOUT_S))
            except LogClosed:
                return
            except LogError as error:
                logger.warning("no majority: %s", error)
            await asyncio.sleep(max(asked_s + self._every_s - self._clock.monotonic(), 0.0))
