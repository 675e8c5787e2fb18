"""Group commit, sans-IO: commands that wait are packed into proposals, a few of which are under way at a time.

The fewer are under way, the larger the groups: while the log works on some, the others gather. A proposal's number is
its name for ever; `acknowledged` tells the appliers which results nobody will ask for again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from raftlog.config import RaftConfig
from raftlog.errors import CommandTooLarge, LogOverloaded

HEADER_BYTES: Final = 512
"""Room for the envelope's fields around the commands."""
COMMAND_HEADER_BYTES: Final = 5
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024


class Waiting:
    """A command that has no result yet. `slot` is its owner's (a future)."""

    __slots__ = ("command", "group", "slot")

    def __init__(self, command: bytes, slot: Any) -> None:
        self.command = command
        self.slot = slot
        self.group: Group | None = None
        """The proposal that it was sent in; None while it was not sent."""


class Group:
    """The commands of one proposal."""

    __slots__ = ("acknowledged", "members", "open_count", "seq")

    def __init__(self, seq: int, acknowledged: int, members: list[Waiting]) -> None:
        self.seq = seq
        self.acknowledged = acknowledged
        self.members = members
        self.open_count = len(members)
        """Members that somebody still waits for."""

    @property
    def commands(self) -> list[bytes]:
        return [waiting.command for waiting in self.members]


class Grouping:
    """Numbers the proposals of one incarnation, from 1."""

    def __init__(self, config: RaftConfig) -> None:
        self._config = config
        self._waiting: OrderedDict[Waiting, None] = OrderedDict()
        self._waiting_bytes = 0
        self._under_way: dict[int, Group] = {}
        self._last_seq = 0

    def __len__(self) -> int:
        """Commands without a result, sent or not."""
        return len(self._waiting) + sum(group.open_count for group in self._under_way.values())

    def add(self, command: bytes, slot: Any) -> Waiting:
        """Raises CommandTooLarge or LogOverloaded."""
        if len(command) > self._config.command_bytes_max:
            raise CommandTooLarge(f"a command of {len(command)} bytes; the limit is {self._config.command_bytes_max}")
        if len(self._waiting) >= self._config.proposals_waiting_max or self._waiting_bytes > WAITING_BYTES_MAX:
            raise LogOverloaded(f"{len(self._waiting)} commands wait for the log")
        waiting = Waiting(command, slot)
        self._waiting[waiting] = None
        self._waiting_bytes += len(command)
        return waiting

    def next_group(self) -> Group | None:
        """The next proposal to send; None if nothing waits or enough is under way."""
        if not self._waiting or len(self._under_way) >= self._config.proposals_in_flight_max:
            return None
        self._last_seq += 1
        group = Group(self._last_seq, self._acknowledged(), self._take_members())
        for waiting in group.members:
            waiting.group = group
        self._under_way[group.seq] = group
        return group

    def resolve(self, seq: int) -> Sequence[Waiting]:
        """A proposal's result is there, in the order of its members; none if nobody waits for it any more."""
        group = self._under_way.pop(seq, None)
        return group.members if group else ()

    def give_up(self, waiting: Waiting) -> int | None:
        """Nobody waits for this command any more. An unsent one never will be; returns the number of its proposal if
        that is to be cancelled, since nobody waits for any of it."""
        group = waiting.group
        if group is None:
            if waiting in self._waiting:
                del self._waiting[waiting]
                self._waiting_bytes -= len(waiting.command)
            return None
        group.open_count -= 1
        if group.open_count or self._under_way.pop(group.seq, None) is None:
            return None
        return group.seq

    def take_all(self) -> tuple[list[Waiting], list[Waiting]]:
        """The end: (never sent, sent without a result)."""
        unsent, sent = [*self._waiting], [waiting for group in self._under_way.values() for waiting in group.members]
        self._waiting.clear()
        self._under_way.clear()
        self._waiting_bytes = 0
        return unsent, sent

    def _acknowledged(self) -> int:
        """Everything up to here has a result that was seen, or nobody who would ask for it."""
        return min(self._under_way, default=self._last_seq) - 1

    def _take_members(self) -> list[Waiting]:
        members: list[Waiting] = []
        room = self._config.envelope_bytes_max - HEADER_BYTES
        while self._waiting and len(members) < self._config.envelope_commands_max:
            first = next(iter(self._waiting))
            room -= len(first.command) + COMMAND_HEADER_BYTES
            if room < 0:
                break
            self._waiting.popitem(last=False)
            self._waiting_bytes -= len(first.command)
            members.append(first)
        return members
