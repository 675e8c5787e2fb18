"""Delivers the notifications that the cluster owes, beside the log's leader.

At least once: a notification stays in the replicated outbox until a receiver took it and that was committed, so after a
crash the next leader's node delivers it again, under the same id. Which try is due when is decided by the state
machine; here is only the sending, in tasks of its own: a receiver that is slow or dead holds nothing but its own place.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

from node.clock import Clock
from node.config import NodeConfig
from node.messages import body_of, headers_of, message_id
from node.views import StateSource
from raftlog.errors import LogError
from raftlog.interface import Lane, Log, Role
from statemachine.codec import encode_command
from statemachine.history_commands import ReportNotification
from statemachine.history_records import Notification
from statemachine.limits import DETAIL_LENGTH_MAX

DELIVER_EVERY_S = 0.5
"""How often the leader's node looks for notifications that are due."""
DELIVERIES_MAX = 32
"""Messages under way at once."""
RECEIVER_MAX = 4
"""Of those, to one receiver."""
REPORTED_MAX = 4_096
"""Places of the outbox that are known to be empty although this node's copy of the state may show them yet."""

logger = logging.getLogger(__name__)

Place = tuple[int, int]
"""Where a notification stands in the outbox: (when it is due, number). A later try stands elsewhere."""


class Sender(Protocol):
    """Sends a message to a receiver: executor.webhook has the one that uses the network."""

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """None when it was taken, else why not; never raises."""
        ...


class DeliveryLoop:
    """Runs on every node, works beside the leader."""

    def __init__(self, *, config: NodeConfig, log: Log, source: StateSource, clock: Clock, sender: Sender) -> None:
        self._config = config
        self._log = log
        self._source = source
        self._clock = clock
        self._sender = sender
        self._under_way: dict[Place, str] = {}
        self._reported: dict[Place, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled; what is under way is dropped then, and delivered again by the next leader's node."""
        try:
            while True:
                self.turn()
                await asyncio.sleep(DELIVER_EVERY_S)
        finally:
            for task in self._tasks:
                task.cancel()

    async def wait_idle(self) -> None:
        """Until no message is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def turn(self) -> None:
        """Start what is due and has a place."""
        if self._log.status.role is not Role.LEADER:
            return
        busy = Counter(self._under_way.values())
        with self._source.view() as view:
            for notification in view.notifications_until(self._clock.wall_ms()):
                if len(self._under_way) >= DELIVERIES_MAX:
                    return
                self._maybe_start(notification, busy)

    def _maybe_start(self, notification: Notification, busy: Counter[str]) -> None:
        place, receiver = (notification.next_ms, notification.number), urlsplit(notification.url).netloc
        if place in self._under_way or place in self._reported or busy[receiver] >= RECEIVER_MAX:
            return
        busy[receiver] += 1
        self._under_way[place] = receiver
        task = asyncio.get_running_loop().create_task(self._deliver(place, notification))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, place: Place, notification: Notification) -> None:
        try:
            headers = headers_of(notification, self._clock.wall_ms())
            error = await self._sender.send(notification.url, body_of(notification), headers)
            if error is not None:
                logger.warning("notification %s was not delivered: %s", message_id(notification), error)
            await self._report(place, error)
        finally:
            del self._under_way[place]

    async def _report(self, place: Place, error: str | None) -> None:
        """If the log does not answer, the notification is still owed, and is sent again."""
        at_ms, number = place
        reason = None if error is None else error[:DETAIL_LENGTH_MAX]
        command = ReportNotification(now_ms=self._clock.wall_ms(), at_ms=at_ms, number=number, error=reason)
        try:
            data, timeout_s = encode_command(command), self._config.propose_timeout_s
            await self._log.propose(data, lane=Lane.WORK, timeout_s=timeout_s)
        except LogError as failure:
            logger.warning("the end of a delivery was not recorded: %s", failure)
            return
        self._reported[place] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
