"""Carries out what the session keeper wants: commands about this node's own session, and what came of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from node.clock import Clock
from node.config import NodeConfig
from node.sessions import Open, Opened, OpenFailed, Renew, Renewed, RenewFailed, SessionEvent
from node.skew import ClockSkews
from node.views import StateSource
from raftlog.errors import LogError
from raftlog.interface import Lane, Log
from statemachine.codec import decode_reply, encode_command
from statemachine.commands import AnyReply, Command, ExpireSession, OpenSession, RenewSession, SessionReply
from statemachine.keys import KINDS

logger = logging.getLogger(__name__)

Tell = Callable[[SessionEvent], None]


class SessionCalls:
    """`version`, `tzdata` and how many attempts are `running` are shown to the other nodes. `kinds` are those of the
    targets that it can run. `skews` learns what time it is for the others before they give this node any work."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        log: Log,
        source: StateSource,
        clock: Clock,
        skews: ClockSkews,
        version: str,
        tzdata: str,
        running: Callable[[], int],
        kinds: Collection[str],
    ) -> None:
        self._config = config
        self._log = log
        self._source = source
        self._clock = clock
        self._skews = skews
        self._version = version
        self._tzdata = tzdata
        self._running = running
        # What it cannot run it offers no slots for: such a run waits for a node that can.
        self._kind_slots = dict(config.kind_slots) | {kind: 0 for kind in KINDS if kind not in kinds}
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()

    def call(self, action: Open | Renew, tell: Tell) -> None:
        """Returns at once; tells the outcome later."""
        call = self._open(action, tell) if isinstance(action, Open) else self._renew(action, tell)
        self._spawn(call)

    def _spawn(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, action: Open, tell: Tell) -> None:
        try:
            await self._log.read_barrier(timeout_s=self._config.propose_timeout_s)
            incarnation = self._last_incarnation() + 1
            reply = await self._propose(self._opening(incarnation))
        except LogError as error:
            logger.warning("no session yet: %s", error)
            tell(OpenFailed(opening=action.opening))
        else:
            self._look_at_the_clock()
            tell(Opened(opening=action.opening, incarnation=incarnation, code=reply.code))

    def _last_incarnation(self) -> int:
        with self._source.view() as view:
            session = view.session(self._config.node)
        return 0 if session is None else session.incarnation

    def _look_at_the_clock(self) -> None:
        """What was just acknowledged has been applied here: the state is of now."""
        with self._source.view() as view:
            self._skews.caught_up(view.clock_ms())

    def _opening(self, incarnation: int) -> OpenSession:
        return OpenSession(
            now_ms=self._clock.wall_ms(),
            node=self._config.node,
            incarnation=incarnation,
            http=self._config.http,
            raft=self._config.raft,
            slots=self._config.slots,
            ahead=self._config.ahead,
            version=self._version,
            tzdata=self._tzdata,
            kind_slots=self._kind_slots,
            tags=dict(self._config.tags),
            takes_buckets=self._config.takes_buckets,
        )

    async def _renew(self, action: Renew, tell: Tell) -> None:
        with self._source.view() as view:
            applied_index = view.applied_index
        command = RenewSession(
            now_ms=self._clock.wall_ms(),
            node=self._config.node,
            incarnation=action.incarnation,
            renewal=action.renewal,
            draining=action.draining,
            applied_index=applied_index,
            running=self._running(),
        )
        try:
            reply = await self._propose(command)
        except LogError as error:
            logger.warning("renewal %d: %s", action.renewal, error)
            tell(RenewFailed(incarnation=action.incarnation, renewal=action.renewal))
        else:
            self._look_at_the_clock()
            tell(Renewed(incarnation=action.incarnation, renewal=action.renewal, code=reply.code))
            if action.draining:
                self._draining.set()

    async def wait_draining(self, *, timeout_s: float) -> bool:
        """Whether the cluster has acknowledged in time that this node takes no more claims."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._draining.wait()
        except TimeoutError:
            return False
        return True

    async def leave(self, incarnation: int, renewal: int, *, timeout_s: float) -> None:
        """End this node's own session, giving back what it still holds. A failure only costs the others the TTL."""
        command = ExpireSession(
            now_ms=self._clock.wall_ms(), node=self._config.node, incarnation=incarnation, renewal=renewal
        )
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._propose(command)
                while isinstance(reply, SessionReply) and reply.remaining:
                    reply = await self._propose(command)
        except (LogError, TimeoutError) as error:
            logger.warning("the session was not ended: %s", error or "no answer in time")

    async def _propose(self, command: Command) -> AnyReply:
        data, timeout_s = encode_command(command), self._config.propose_timeout_s
        return decode_reply(await self._log.propose(data, lane=Lane.URGENT, timeout_s=timeout_s))
