"""Drives the ticker: reads the state, proposes what it says, tells it what came of that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from node.backfill_steps import BackfillSteps, Stepped
from node.clock import Clock
from node.config import NodeConfig
from node.deadline_watch import DeadlineWatch
from node.ticker import Appeared, Fired, Moved, Released, Ticker, TickerEvent, TickerStep
from node.views import StateSource, StateView
from node.wakeup import Wakeup
from raftlog.errors import LogError
from raftlog.interface import Lane, Log
from statemachine.codec import decode_reply, encode_command
from statemachine.commands import Deadline, Fire, FireReply, Release, StepBackfill

OWNED_AGAIN_AFTER_S = 5.0
"""How often the buckets of this node are read again, in case the event of their move was lost."""

logger = logging.getLogger(__name__)


class TickLoop:
    """`session` says which session this node holds: without one it owns no bucket."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        log: Log,
        source: StateSource,
        clock: Clock,
        ticker: Ticker,
        backfills: BackfillSteps,
        session: Callable[[], int | None],
    ) -> None:
        self._config = config
        self._log = log
        self._source = source
        self._clock = clock
        self._ticker = ticker
        self._backfills = backfills
        self._session = session
        self._deadlines = DeadlineWatch()
        self._events: list[TickerEvent] = []
        self._stepped: list[Stepped] = []
        self._wakeup = Wakeup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._owned: Mapping[int, int] = {}
        self._owned_until_s = float("-inf")
        self.last_step_s = clock.monotonic()
        """When the loop last turned: scheduling has stalled when this is long ago."""

    def on_event(self, event: Appeared | Moved) -> None:
        if isinstance(event, Moved):
            self._owned_until_s = float("-inf")
        self._tell(event)

    def _tell(self, event: TickerEvent) -> None:
        self._events.append(event)
        self._wakeup.wake()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wakeup.sleep(self.turn())

    def turn(self) -> float:
        """One step of the ticker; returns the seconds until the next."""
        events, self._events = self._events, []
        stepped, self._stepped = self._stepped, []
        self.last_step_s = self._clock.monotonic()
        with self._source.view() as view:
            self._read_owned(view)
            step = self._ticker.step(self._clock.wall_ms(), view, self._owned, events)
            deadlines = self._deadlines.step(self.last_step_s, self._clock.wall_ms(), view, self._owned)
            backfills = self._backfills.step(self._clock.wall_ms(), view, self._owned, stepped)
        self._propose(step)
        for deadline in deadlines:
            self._spawn(self._end(deadline))
        for backfill in backfills:
            self._spawn(self._step_backfill(backfill))
        return self._sleep_s(step)

    def _read_owned(self, view: StateView) -> None:
        if self._session() is None:
            self._owned = {}
            self._owned_until_s = float("-inf")
        elif self.last_step_s >= self._owned_until_s:
            self._owned = view.owned_buckets(self._config.node)
            self._owned_until_s = self.last_step_s + OWNED_AGAIN_AFTER_S

    def _sleep_s(self, step: TickerStep) -> float:
        if step.more:
            return 0.0
        if step.wake_ms is None:
            return self._config.step_every_s
        return min(max((step.wake_ms - self._clock.wall_ms()) / 1000, 0.0), self._config.step_every_s)

    def _propose(self, step: TickerStep) -> None:
        for fire in step.fires:
            self._spawn(self._fire(fire))
        for release in step.releases:
            self._spawn(self._release(release))

    def _spawn(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fire(self, fire: Fire) -> None:
        codes = None
        try:
            reply = decode_reply(await self._propose_command(fire))
            if isinstance(reply, FireReply) and len(reply.codes) == len(fire.items):
                codes = reply.codes
            else:
                logger.error("a Fire of %d ticks was refused: %s", len(fire.items), reply.code)
        except LogError as error:
            logger.warning("a Fire of %d ticks: %s", len(fire.items), error)
        self._tell(Fired(fire=fire, codes=codes))

    async def _release(self, release: Release) -> None:
        answered = False
        try:
            # `clock_off`: this node's clock is ahead of the others', or their last word is old.
            answered = decode_reply(await self._propose_command(release)).code != "clock_off"
        except LogError as error:
            logger.warning("the release of run %s: %s", release.run_id, error)
        self._tell(Released(run_id=release.run_id, token=release.token, answered=answered))

    async def _end(self, deadline: Deadline) -> None:
        try:
            await self._propose_command(deadline)
        except LogError as error:
            logger.warning("the deadline of run %s: %s", deadline.run_id, error)
        self._deadlines.answered(self._clock.monotonic(), deadline)

    async def _step_backfill(self, step: StepBackfill) -> None:
        code = None
        try:
            code = decode_reply(await self._propose_command(step)).code
        except LogError as error:
            logger.warning("a step of backfill %s: %s", step.backfill_id, error)
        self._stepped.append(Stepped(backfill_id=step.backfill_id, code=code))
        self._wakeup.wake()

    async def _propose_command(self, command: Deadline | Fire | Release | StepBackfill) -> bytes:
        data, timeout_s = encode_command(command), self._config.propose_timeout_s
        return await self._log.propose(data, lane=Lane.WORK, timeout_s=timeout_s)
