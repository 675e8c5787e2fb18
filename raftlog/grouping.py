"""Group commit, sans-IO: commands that wait are packed into proposals, a few of which are under way at a time.

The fewer are under way, the larger the groups: while the log works on some, the others gather. A proposal's number is
its name for ever; `acknowledged` tells the appliers which results nobody will ask for again. Each lane has a queue and
room under way of its own, so that none waits for another here; how much depends on how fast the log is (window.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from raftlog.config import RaftConfig
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.interface import Lane
from raftlog.window import Window

HEADER_BYTES: Final = 512
"""Room for the envelope's fields around the commands."""
COMMAND_HEADER_BYTES: Final = 5


class Waiting:
    """A command that has no result yet. `slot` is its owner's (a future)."""

    __slots__ = ("command", "group", "lane", "slot")

    def __init__(self, command: bytes, slot: Any, lane: Lane) -> None:
        self.command = command
        self.slot = slot
        self.lane = lane
        self.group: Group | None = None
        """The proposal that it was sent in; None while it was not sent."""


class Group:
    """The commands of one proposal, all of one lane."""

    __slots__ = ("acknowledged", "lane", "members", "open_count", "sent_s", "seq", "size")

    def __init__(self, *, seq: int, acknowledged: int, lane: Lane, members: list[Waiting], sent_s: float) -> None:
        self.seq = seq
        self.acknowledged = acknowledged
        self.lane = lane
        self.members = members
        self.sent_s = sent_s
        self.size = sum(len(waiting.command) for waiting in members)
        """Bytes of the commands."""
        self.open_count = len(members)
        """Members that somebody still waits for."""

    @property
    def commands(self) -> list[bytes]:
        return [waiting.command for waiting in self.members]


class _Queue:
    """One lane: what waits in it, and what it has under way."""

    def __init__(self, config: RaftConfig, lane: Lane) -> None:
        self._config = config
        self._waiting_bytes_max = config.client_waiting_bytes_max if lane is Lane.CLIENT else config.waiting_bytes_max
        self.window = _window(config, lane)
        self.waiting: OrderedDict[Waiting, None] = OrderedDict()
        self.waiting_bytes = 0
        self.groups_under_way = 0
        self.bytes_under_way = 0

    def add(self, waiting: Waiting) -> None:
        if len(self.waiting) >= self._config.proposals_waiting_max or self.waiting_bytes > self._waiting_bytes_max:
            raise LogOverloaded(f"{len(self.waiting)} commands wait for the log")
        self.waiting[waiting] = None
        self.waiting_bytes += len(waiting.command)

    def remove(self, waiting: Waiting) -> None:
        if waiting in self.waiting:
            del self.waiting[waiting]
            self.waiting_bytes -= len(waiting.command)

    def has_turn(self) -> bool:
        """Whether something waits and may go: something always may while nothing is under way."""
        room = self.groups_under_way < self._config.proposals_in_flight_max
        return bool(self.waiting) and room and self.bytes_under_way < self.window.bytes

    def take_members(self) -> list[Waiting]:
        """Half a window at most: the log works on one half while the other gathers."""
        members: list[Waiting] = []
        room = self._config.envelope_bytes_max - HEADER_BYTES
        wanted = room - min(self._config.group_bytes_max, self.window.bytes // 2)
        while self.waiting and len(members) < self._config.envelope_commands_max:
            first = next(iter(self.waiting))
            room -= len(first.command) + COMMAND_HEADER_BYTES
            if room < (wanted if members else 0):
                break
            self.waiting.popitem(last=False)
            self.waiting_bytes -= len(first.command)
            members.append(first)
        return members

    def sent(self, group: Group) -> None:
        self.groups_under_way += 1
        self.bytes_under_way += group.size

    def ended(self, group: Group) -> None:
        self.groups_under_way -= 1
        self.bytes_under_way -= group.size


class Grouping:
    """Numbers the proposals of one incarnation, from 1. `now_s` is any clock that does not go back, the same always."""

    def __init__(self, config: RaftConfig) -> None:
        self._config = config
        self._lanes = {lane: _Queue(config, lane) for lane in Lane}
        self._under_way: dict[int, Group] = {}
        self._last_seq = 0

    def __len__(self) -> int:
        """Commands without a result, sent or not."""
        waiting = sum(len(queue.waiting) for queue in self._lanes.values())
        return waiting + sum(group.open_count for group in self._under_way.values())

    def add(self, command: bytes, slot: Any, lane: Lane = Lane.CLIENT) -> Waiting:
        """Raises CommandTooLarge or LogOverloaded."""
        if len(command) > self._config.command_bytes_max:
            raise CommandTooLarge(f"a command of {len(command)} bytes; the limit is {self._config.command_bytes_max}")
        waiting = Waiting(command, slot, lane)
        self._lanes[lane].add(waiting)
        return waiting

    def next_group(self, now_s: float) -> Group | None:
        """The next proposal to send, of the first lane that has a turn; None if nothing waits or enough is under
        way."""
        for lane, queue in self._lanes.items():
            if queue.has_turn():
                return self._send(lane, queue, now_s)
        return None

    def resolve(self, seq: int, now_s: float) -> Sequence[Waiting]:
        """A proposal's result is there, in the order of its members; none if nobody waits for it any more."""
        group = self._ended(seq)
        if group is None:
            return ()
        queue = self._lanes[group.lane]
        queue.window.answered(sent_s=group.sent_s, now_s=now_s, more_waits=bool(queue.waiting))
        return group.members

    def give_up(self, waiting: Waiting) -> int | None:
        """Nobody waits for this command any more. An unsent one never will be; returns the number of its proposal if
        that is to be cancelled, since nobody waits for any of it."""
        group = waiting.group
        if group is None:
            self._lanes[waiting.lane].remove(waiting)
            return None
        group.open_count -= 1
        if group.open_count or self._ended(group.seq) is None:
            return None
        return group.seq

    def take_all(self) -> tuple[list[Waiting], list[Waiting]]:
        """The end: (never sent, sent without a result)."""
        unsent = [waiting for queue in self._lanes.values() for waiting in queue.waiting]
        sent = [waiting for group in self._under_way.values() for waiting in group.members]
        self._lanes = {lane: _Queue(self._config, lane) for lane in Lane}
        self._under_way.clear()
        return unsent, sent

    def _send(self, lane: Lane, queue: _Queue, now_s: float) -> Group:
        self._last_seq += 1
        group = Group(
            seq=self._last_seq,
            acknowledged=self._acknowledged(),
            lane=lane,
            members=queue.take_members(),
            sent_s=now_s,
        )
        for waiting in group.members:
            waiting.group = group
        self._under_way[group.seq] = group
        queue.sent(group)
        return group

    def _ended(self, seq: int) -> Group | None:
        group = self._under_way.pop(seq, None)
        if group is not None:
            self._lanes[group.lane].ended(group)
        return group

    def _acknowledged(self) -> int:
        """Everything up to here has a result that was seen, or nobody who would ask for it."""
        return min(self._under_way, default=self._last_seq) - 1


def _window(config: RaftConfig, lane: Lane) -> Window:
    """The urgent lane yields to nothing."""
    target_s = {Lane.URGENT: float("inf"), Lane.WORK: config.work_target_s, Lane.CLIENT: config.client_target_s}[lane]
    return Window(target_s=target_s, bytes_min=config.lane_bytes_min, bytes_max=config.lane_bytes_max)
