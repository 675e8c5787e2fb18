"""Drives the leader's duties beside the log's leader."""

from __future__ import annotations

import asyncio
import logging

from node.clock import Clock
from node.config import NodeConfig
from node.duties import Duty, DutyDone, LeaderDuties
from node.views import StateSource
from node.wakeup import Wakeup
from raftlog.errors import LogError
from raftlog.interface import Lane, Log, LogStatus, Role
from statemachine.codec import decode_reply, encode_command
from statemachine.commands import AnyReply, SessionReply

logger = logging.getLogger(__name__)


class DutyLoop:
    """Looks at the state a few times a second while this node leads, and does nothing else."""

    def __init__(self, *, config: NodeConfig, log: Log, source: StateSource, clock: Clock) -> None:
        self._config = config
        self._log = log
        self._source = source
        self._clock = clock
        self._duties = LeaderDuties(config.cluster)
        self._term: int | None = None
        self._done: list[DutyDone] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._wakeup = Wakeup()

    async def wait_answered(self) -> None:
        """Until no proposal of a duty waits for its answer."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def on_status(self, status: LogStatus) -> None:
        """A new leader begins at once."""
        self._wakeup.wake()

    def on_buckets_moved(self) -> None:
        """Buckets have changed hands; nothing is urgent about it."""
        self._duties.buckets_moved()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.turn()
            await self._wakeup.sleep(self._config.duties_every_s)

    def turn(self) -> None:
        status = self._log.status
        if status.role is not Role.LEADER or status.term != self._term:
            self._duties.stand_down()
        self._term = status.term
        if status.role is not Role.LEADER:
            return
        done, self._done = self._done, []
        with self._source.view() as view:
            duties = self._duties.step(self._clock.boottime(), self._clock.wall_ms(), view, done)
        for duty in duties:
            task = asyncio.get_running_loop().create_task(self._propose(duty))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _propose(self, duty: Duty) -> None:
        try:
            reply = await self._propose_once(duty)
            while isinstance(reply, SessionReply) and reply.remaining:
                # At once: a dead node may have held tens of thousands of claims, and they all wait.
                reply = await self._propose_once(duty)
        except LogError as error:
            logger.warning("%s %s: %s", *duty.name[:2], error)
        else:
            logger.info("%s %s: %s", *duty.name[:2], reply.code)
        self._done.append(DutyDone(duty=duty.name))

    async def _propose_once(self, duty: Duty) -> AnyReply:
        data, timeout_s = encode_command(duty.command), self._config.propose_timeout_s
        return decode_reply(await self._log.propose(data, lane=Lane.URGENT, timeout_s=timeout_s))
