"""The replicated log as the node process uses it: over the Unix socket of its log process."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

from raftlog import errors
from raftlog import local_protocol as local
from raftlog.config import RaftConfig
from raftlog.errors import DiskFull, LogClosed, LogOverloaded, NoQuorum, OutcomeUnknown
from raftlog.grouping import Grouping, Waiting
from raftlog.handover import check_successor
from raftlog.interface import EventListener, Lane, LogStatus, Role, StatusListener
from raftlog.unix_socket import short_address
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, FrameParser, WireError, frame, pack

logger = logging.getLogger(__name__)

HELLO_TIMEOUT_S: Final = 10.0
BARRIERS_IN_FLIGHT_MAX: Final = 4
"""Read barriers under way; later readers share the next one."""

SHAPES: Final[dict[str, tuple[type, ...]]] = {
    local.HELLO: (int, int, dict),
    local.REPLY: (int, list),
    local.REFUSED: (int, str, str),
    local.BARRIER: (int, int),
    local.NO_BARRIER: (int,),
    local.EVENTS: (int, str, list),
    local.STATUS: (dict,),
}


class LogClient(asyncio.Protocol):
    """A `Log`. All calls belong to the event loop that made it.

    `closed` is done, with the reason, as soon as the log process is gone: the node must end then."""

    def __init__(self, config: RaftConfig) -> None:
        """Not yet usable: see `connect` and `child.start_log_process`."""
        self.process_id: int | None = None
        """Of the log process, if it is a child of this one."""
        self.end = "nobody waited for it"
        """How it ended, once `close` has waited for its end."""
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[str] = self._loop.create_future()
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._parser = FrameParser(LOCAL_FRAME_BYTES_MAX)
        self._grouping = Grouping(config)
        self._pump_scheduled = False
        self._incarnation = 0
        self._status: LogStatus | None = None
        self._listeners: defaultdict[str, list[EventListener]] = defaultdict(list)
        self._status_listeners: list[StatusListener] = []
        self._barriers: dict[int, asyncio.Future[int]] = {}
        self._last_barrier = 0
        self._next_barrier: asyncio.Future[int] | None = None
        self._after_close: Callable[[], Awaitable[str]] | None = None

    @classmethod
    async def connect(cls, data_dir: Path, config: RaftConfig) -> LogClient:
        """Connect to the log process of a data directory. Raises LogClosed if there is none or it does not answer."""
        client = cls(config)
        try:
            with short_address(local.socket_path(data_dir)) as address:
                await client._loop.create_unix_connection(lambda: client, address)
            client._send(local.HELLO, local.VERSION)
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                await client._hello
        except (OSError, TimeoutError) as error:
            await client.close()
            raise LogClosed(f"the log process of {data_dir} does not answer: {error}") from error
        return client

    # --- the Log protocol --------------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def status(self) -> LogStatus:
        """As last told by the log process; its indices are at most a second old."""
        assert self._status is not None
        return self._status

    async def propose(self, command: bytes, *, lane: Lane = Lane.CLIENT, timeout_s: float = 10.0) -> bytes:
        """See `Log.propose`. A command that is still waiting to be sent when its time is over raises LogOverloaded:
        nothing happened, nor will."""
        self._check_open()
        if lane is Lane.CLIENT and self.status.refuses_clients:
            raise DiskFull(f"the disks of {', '.join(self.status.low_disks)} are nearly full")
        waiting = self._grouping.add(command, self._loop.create_future(), lane)
        self._schedule_pump()
        timer = self._loop.call_later(timeout_s, self._time_is_over, waiting, timeout_s)
        try:
            reply: bytes = await waiting.slot
            return reply
        except asyncio.CancelledError:
            self._give_up(waiting)
            raise
        finally:
            timer.cancel()

    async def read_barrier(self, *, timeout_s: float = 5.0) -> int:
        """See `Log.read_barrier`. Readers that come while nothing can be asked yet share the next barrier. One whose
        time is over leaves alone: the barrier itself is answered as soon as there is a majority."""
        self._check_open()
        asked = self._barrier_to_come()
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(asked)
        except TimeoutError:
            raise NoQuorum(f"no majority confirmed the read barrier within {timeout_s:g} s") from None

    async def transfer_leadership(self, to: str | None = None, *, timeout_s: float = 2.0) -> bool:
        """See `Log.transfer_leadership`. Returns as soon as this node has heard of the new leader."""
        self._check_open()
        check_successor(self.status, to)
        if self.status.role is Role.LEADER:
            self._send(local.TRANSFER, to or "")
            await self._wait_status(lambda status: status.leader not in (None, status.node), timeout_s)
            self._check_open()
        return self.status.role is not Role.LEADER

    async def _wait_status(self, is_wanted: Callable[[LogStatus], bool], timeout_s: float) -> None:
        """Until such a status is told, or the time or the log process is over."""
        told = self._loop.create_future()

        def look(status: LogStatus) -> None:
            if is_wanted(status) and not told.done():
                told.set_result(None)

        self._status_listeners.append(look)
        try:
            await asyncio.wait((told, self.closed), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._status_listeners.remove(look)

    def subscribe(self, topic: str, listener: EventListener) -> None:
        if topic not in self._listeners:
            self._send(local.SUBSCRIBE, topic)
        self._listeners[topic].append(listener)

    def on_status(self, listener: StatusListener) -> None:
        self._status_listeners.append(listener)

    def after_close(self, end: Callable[[], Awaitable[str]]) -> None:
        """Have `close` wait for this too: the end of the child process that serves us, and how it ended."""
        self._after_close = end

    async def close(self) -> None:
        """End the log process, in order, and wait for its end. What has no result yet is refused or unknown."""
        if self._transport is not None:
            self._transport.close()
        self._ended("closed by this process")
        if self._after_close is not None:
            self.end = await self._after_close()

    # --- proposals ---------------------------------------------------------------------------------------------------

    def _schedule_pump(self) -> None:
        """Once a turn of the event loop, after everything that is about to propose: they travel together."""
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        while (group := self._grouping.next_group(self._loop.time())) is not None:
            self._send(local.PROPOSE, group.seq, group.acknowledged, group.commands)

    def _time_is_over(self, waiting: Waiting, timeout_s: float) -> None:
        if waiting.slot.done():
            return
        if waiting.group is None:
            waiting.slot.set_exception(LogOverloaded(f"waited {timeout_s:g} s behind others and was not sent"))
        else:
            waiting.slot.set_exception(OutcomeUnknown(f"no result within {timeout_s:g} s"))
        self._give_up(waiting)

    def _give_up(self, waiting: Waiting) -> None:
        cancelled_seq = self._grouping.give_up(waiting)
        if cancelled_seq is not None:
            self._send(local.CANCEL, cancelled_seq)
            self._schedule_pump()

    def _reply(self, seq: int, replies: list[bytes]) -> None:
        members = self._grouping.resolve(seq, self._loop.time())
        for waiting, reply in zip(members, replies, strict=bool(members)):
            if not waiting.slot.done():
                waiting.slot.set_result(reply)
        self._schedule_pump()

    def _refused(self, seq: int, error_name: str, reason: str) -> None:
        error_class = getattr(errors, error_name, errors.LogError)
        for waiting in self._grouping.resolve(seq, self._loop.time()):
            if not waiting.slot.done():
                waiting.slot.set_exception(error_class(reason))
        self._schedule_pump()

    # --- barriers ----------------------------------------------------------------------------------------------------

    def _barrier_to_come(self) -> asyncio.Future[int]:
        """A barrier that is asked for after this call."""
        if self._next_barrier is None:
            self._next_barrier = self._loop.create_future()
            self._loop.call_soon(self._ask_barrier)
        return self._next_barrier

    def _ask_barrier(self) -> None:
        asked = self._next_barrier
        if asked is None or len(self._barriers) >= BARRIERS_IN_FLIGHT_MAX:
            return
        self._next_barrier = None
        self._last_barrier += 1
        self._barriers[self._last_barrier] = asked
        self._send(local.BARRIER, self._last_barrier)

    def _barrier_passed(self, barrier_id: int, index: int) -> None:
        asked = self._barriers.pop(barrier_id, None)
        if asked is not None and not asked.done():
            asked.set_result(index)
        self._ask_barrier()

    def _barrier_refused(self, barrier_id: int) -> None:
        if (asked := self._barriers.pop(barrier_id, None)) is not None:
            _fail([asked], lambda: NoQuorum("too many read barriers are pending"))
        self._ask_barrier()

    # --- what the log process says -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport, but behave as one.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(f"the log process is gone{f' ({exc})' if exc else ''}")

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        try:
            while (content := self._parser.next_frame()) is not None:
                kind, fields = local.parse(content, SHAPES)
                _HANDLERS[kind](self, *fields)
        except WireError as error:
            logger.critical("the log process says what it should not: %s", error)
            if self._transport is not None:
                self._transport.abort()

    def _greeted(self, version: int, incarnation: int, status: dict[str, Any]) -> None:
        if version != local.VERSION or self._hello.done():
            raise WireError(f"local protocol {version}; this process speaks {local.VERSION}")
        self._incarnation = incarnation
        self._status = local.status_from(status)
        self._hello.set_result(None)

    def _events(self, applied_index: int, topic: str, bodies: list[bytes]) -> None:
        for listener in self._listeners.get(topic, ()):
            listener(applied_index, bodies)

    def _status_told(self, content: dict[str, Any]) -> None:
        self._status = local.status_from(content)
        for listener in self._status_listeners:
            listener(self._status)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed.done():
            raise LogClosed(self.closed.result())

    def _ended(self, reason: str) -> None:
        """Whoever waits is told what may have become of his command."""
        if self.closed.done():
            return
        self.closed.set_result(reason)
        unsent, sent = self._grouping.take_all()
        barriers = [*self._barriers.values(), self._next_barrier, self._hello]
        _fail([waiting.slot for waiting in unsent], lambda: LogClosed(reason))
        _fail([waiting.slot for waiting in sent], lambda: OutcomeUnknown(reason))
        _fail([barrier for barrier in barriers if barrier is not None], lambda: LogClosed(reason))
        self._barriers.clear()

    def _send(self, *message: Any) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(pack(message), LOCAL_FRAME_BYTES_MAX))


def _fail(futures: list[asyncio.Future[Any]], error: Callable[[], Exception]) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error())
            future.exception()  # seen: nobody need be waiting for it


_HANDLERS: Final[dict[str, Callable[..., None]]] = {
    local.HELLO: LogClient._greeted,
    local.REPLY: LogClient._reply,
    local.REFUSED: LogClient._refused,
    local.BARRIER: LogClient._barrier_passed,
    local.NO_BARRIER: LogClient._barrier_refused,
    local.EVENTS: LogClient._events,
    local.STATUS: LogClient._status_told,
}
