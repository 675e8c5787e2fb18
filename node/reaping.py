"""Ends what attempts left behind: all of it before this node opens its session, and what turns up later.

A session says that this node runs what it is handed, and nothing else. So what a killed node left in containers or
processes is ended before the node may take work again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from executor.interface import Executor, ReapingExecutor, Unavailable

REAP_EVERY_S = 15.0
"""How long something that slipped out of an attempt may stay, and what the health of a container engine lags behind."""
REAP_TIMEOUT_S = 5.0
"""An engine that does not answer must not keep the node from its other work. Its executor starts nothing before it has
reaped."""

logger = logging.getLogger(__name__)


class Reaper:
    """`unavailable` says of each kind of target that cannot run here now why not."""

    def __init__(self, executors: Mapping[str, Executor]) -> None:
        self._executors = {kind: one for kind, one in executors.items() if isinstance(one, ReapingExecutor)}
        self._kinds = tuple(executors)
        self.unavailable: dict[str, str] = {}

    async def reap(self) -> None:
        """Once, all kinds. Takes REAP_TIMEOUT_S a kind at most, and never raises for what an engine does."""
        for kind, executor in self._executors.items():
            await self._reap(kind, executor)

    async def run(self) -> None:
        """From time to time, until cancelled; at once over if there is nothing that could be left behind."""
        while self._executors:
            await asyncio.sleep(REAP_EVERY_S)
            await self.reap()

    def up_by_kind(self) -> dict[str, bool]:
        return {kind: kind not in self.unavailable for kind in self._kinds}

    async def _reap(self, kind: str, executor: ReapingExecutor) -> None:
        try:
            async with asyncio.timeout(REAP_TIMEOUT_S):
                ended = await executor.reap()
        except (Unavailable, TimeoutError) as error:
            self._set_unavailable(kind, str(error) or f"no answer within {REAP_TIMEOUT_S:g} s")
            return
        if self.unavailable.pop(kind, None) is not None:
            logger.info("targets of type %s can run again", kind)
        if ended:
            logger.warning("ended %d that runs of type %s had left behind", ended, kind)

    def _set_unavailable(self, kind: str, why: str) -> None:
        if self.unavailable.get(kind) != why:
            logger.error("targets of type %s cannot run: %s", kind, why)
        self.unavailable[kind] = why
