"""Retention, beside the log's leader: asks for what is old enough to be forgotten.

It reads a part at a time and rests in between for many times what that took, so a history of any size costs the node a
small and even share of its time. What may go is judged again by the state machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from node.clock import Clock
from node.config import NodeConfig
from node.sweep import Sweep
from node.views import StateSource
from raftlog.errors import LogError
from raftlog.interface import Lane, Log, Role
from statemachine.codec import decode_reply, encode_command
from statemachine.history_commands import PruneItem, PruneRuns

SWEEP_EVERY_S = 60.0
"""From the end of one way through all jobs to the beginning of the next."""
REST = 20
"""A step that took t seconds is followed by so many times t of rest: five percent of the loop's time at most."""
REST_S_MIN = 0.05

logger = logging.getLogger(__name__)


class RetentionLoop:
    """Runs on every node, works beside the leader."""

    def __init__(self, *, config: NodeConfig, log: Log, source: StateSource, clock: Clock) -> None:
        self._config = config
        self._log = log
        self._source = source
        self._clock = clock
        self._sweep: Sweep | None = None

    async def run(self) -> None:
        """Until cancelled."""
        rest_s = SWEEP_EVERY_S
        while True:
            await asyncio.sleep(rest_s)
            began_s = self._clock.monotonic()
            goes_on = await self.step()
            took_s = self._clock.monotonic() - began_s
            rest_s = max(REST_S_MIN, REST * took_s) if goes_on else SWEEP_EVERY_S

    async def step(self) -> bool:
        """Prune a part; whether the way through the jobs goes on."""
        if self._log.status.role is not Role.LEADER:
            self._sweep = None
            return False
        sweep = self._sweep or Sweep(keep_days=self._config.runs_keep_days)
        with self._source.view() as view:
            items = sweep.step(view)
        if items:
            await self._prune(items)
        self._sweep = None if sweep.is_over else sweep
        return not sweep.is_over

    async def _prune(self, items: Sequence[PruneItem]) -> None:
        command = PruneRuns(now_ms=self._clock.wall_ms(), items=tuple(items))
        try:
            data, timeout_s = encode_command(command), self._config.propose_timeout_s
            reply = decode_reply(await self._log.propose(data, lane=Lane.WORK, timeout_s=timeout_s))
        except LogError as error:
            logger.warning("history was not pruned: %s", error)
        else:
            logger.info("pruned %d runs of %d jobs: %s", _count(items), len(items), reply.code)


def _count(items: Sequence[PruneItem]) -> int:
    return sum(len(item.run_ids) for item in items)
