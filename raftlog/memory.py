"""The in-process twin of the replicated log: one node, no network, no processes. For tests and development."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from raftlog.config import RaftConfig
from raftlog.disk import Disk
from raftlog.errors import LogClosed, OutcomeUnknown
from raftlog.grouping import Group, Grouping
from raftlog.handover import check_successor
from raftlog.interface import Applied, Applier, EventListener, Lane, LogStatus, Proposal, Role, StatusListener
from raftlog.meta import MetaStore
from raftlog.ready import AppliedEvents, grouped


class MemoryLog:
    """A `Log` that applies to the given disk in the event loop's own thread, one commit a turn of the loop. It keeps no
    log of its own: the state and its index are what lasts. A disk without fsync makes it as fast as a dictionary."""

    def __init__(self, applier: Applier, disk: Disk, *, node: str = "n1", config: RaftConfig | None = None) -> None:
        self._applier = applier
        self._disk = disk
        self._node = node
        self._config = config or RaftConfig()
        self._grouping = Grouping(self._config)
        self._listeners: defaultdict[str, list[EventListener]] = defaultdict(list)
        self._status_listeners: list[StatusListener] = []
        self._closed = False
        self._turn_scheduled = False
        self._incarnation = MetaStore(disk).next_incarnation()
        self._index = applier.applied_index(disk.transaction)
        self._apply(None)  # as a new leader's empty entry would be
        disk.commit()

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def status(self) -> LogStatus:
        return LogStatus(
            node=self._node,
            role=Role.FOLLOWER if self._closed else Role.LEADER,
            leader=None if self._closed else self._node,
            term=self._incarnation,
            commit_index=self._index,
            applied_index=self._index,
            last_index=self._index,
            quorum=not self._closed,
            members=(self._node,),
            proposals_pending=len(self._grouping),
        )

    async def propose(self, command: bytes, *, lane: Lane = Lane.CLIENT, timeout_s: float = 10.0) -> bytes:
        """See `Log.propose`."""
        self._check_open()
        loop = asyncio.get_running_loop()
        waiting = self._grouping.add(command, loop.create_future(), lane)
        self._schedule_turn()
        try:
            async with asyncio.timeout(timeout_s):
                reply: bytes = await waiting.slot
                return reply
        except TimeoutError:
            raise OutcomeUnknown(f"no result within {timeout_s:g} s") from None
        finally:
            if not waiting.slot.done() or waiting.slot.cancelled():
                self._grouping.give_up(waiting)

    async def read_barrier(self, *, timeout_s: float = 5.0) -> int:
        """See `Log.read_barrier`. Everything acknowledged is committed here."""
        self._check_open()
        return self._index

    async def transfer_leadership(self, to: str | None = None, *, timeout_s: float = 2.0) -> bool:
        """See `Log.transfer_leadership`. There is nobody else."""
        self._check_open()
        check_successor(self.status, to)
        return False

    def subscribe(self, topic: str, listener: EventListener) -> None:
        self._listeners[topic].append(listener)

    def on_status(self, listener: StatusListener) -> None:
        self._status_listeners.append(listener)

    async def close(self) -> None:
        """Refuse what waits and what comes. The disk stays open: it is its opener's."""
        if not self._closed:
            self._closed = True
            self._refuse_waiting()
            self._tell_status()

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed("the log is closed")

    def _refuse_waiting(self) -> None:
        unsent, sent = self._grouping.take_all()
        for waiting in unsent:
            if not waiting.slot.done():
                waiting.slot.set_exception(LogClosed("the log was closed before the command was sent"))
        for waiting in sent:
            if not waiting.slot.done():
                waiting.slot.set_exception(OutcomeUnknown("the log was closed"))

    def _schedule_turn(self) -> None:
        """One turn for everything that is about to be proposed: it travels together."""
        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        now_s = asyncio.get_running_loop().time()
        groups = [] if self._closed else list(iter(lambda: self._grouping.next_group(now_s), None))
        if not groups:
            return
        try:
            applied = [self._apply(self._proposal(group)) for group in groups]
            self._disk.commit()
        except BaseException:
            self._disk.abort()
            self._closed = True
            self._refuse_waiting()
            raise
        first_index = self._index - len(groups) + 1
        for index, (group, outcome) in enumerate(zip(groups, applied, strict=True), first_index):
            self._hand_out(index, group, outcome)
        self._tell_status()
        self._schedule_turn()  # more may have gathered than may be under way at once

    def _proposal(self, group: Group) -> Proposal:
        return Proposal(
            node=self._node,
            incarnation=self._incarnation,
            seq=group.seq,
            acknowledged=group.acknowledged,
            commands=group.commands,
        )

    def _apply(self, proposal: Proposal | None) -> Applied:
        self._index += 1
        return self._applier.apply(self._disk.transaction, index=self._index, proposal=proposal)

    def _hand_out(self, index: int, group: Group, applied: Applied) -> None:
        members = self._grouping.resolve(group.seq, asyncio.get_running_loop().time())
        for waiting, reply in zip(members, applied.replies, strict=True):
            if not waiting.slot.done():
                waiting.slot.set_result(reply)
        self._tell_events(grouped(index, applied.events))

    def _tell_events(self, events: list[AppliedEvents]) -> None:
        for told in events:
            for listener in self._listeners[told.topic]:
                listener(told.applied_index, told.bodies)

    def _tell_status(self) -> None:
        for listener in self._status_listeners:
            listener(self.status)
