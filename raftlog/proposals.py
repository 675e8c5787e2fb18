"""Proposals on their way: this node's own until they have a result, and those that a leader appends for others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.config import RaftConfig
from raftlog.envelope import encode
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.interface import Proposal

Name = tuple[str, int, int]
"""(node, incarnation, seq)."""

Route = tuple[str, int, int]
"""(leader, term, connection): where proposals go. What was sent on another connection may be lost with it."""


class Result(NamedTuple):
    """The applier's replies to a local proposal, one a command. Handed out once a proposal."""

    incarnation: int
    seq: int
    replies: Sequence[bytes]


def name_of(proposal: Proposal) -> Name:
    return proposal.node, proposal.incarnation, proposal.seq


@dataclass(kw_only=True, slots=True)
class Pending:
    name: Name
    envelope: bytes
    sent_at: float | None = None


class LocalProposals:
    """This node's proposals without a result. Each is sent when there is a leader, again on every new route, and again
    after `retry_s`, always under the same name: the applier drops repeats."""

    def __init__(self, config: RaftConfig) -> None:
        self._config = config
        self._pending: dict[Name, Pending] = {}
        self._route: Route | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, proposal: Proposal) -> None:
        """Raises CommandTooLarge or LogOverloaded. Repeating a pending one does nothing."""
        name = name_of(proposal)
        if name in self._pending:
            return
        if len(self._pending) >= self._config.proposals_pending_max:
            raise LogOverloaded(f"{len(self._pending)} proposals are waiting for a result")
        self._pending[name] = Pending(name=name, envelope=self._sized_envelope(proposal))

    def cancel(self, name: Name) -> None:
        self._pending.pop(name, None)

    def resolve(self, name: Name, replies: Sequence[bytes]) -> Result | None:
        """The result to hand out, unless it was handed out or cancelled before."""
        if self._pending.pop(name, None) is None:
            return None
        return Result(name[1], name[2], replies)

    def take_due(self, now: float, route: Route) -> list[Pending]:
        """What is to be sent on this route now."""
        if route != self._route:
            self._route = route
            for pending in self._pending.values():
                pending.sent_at = None
        due = [pending for pending in self._pending.values() if self._due_at(pending) <= now]
        for pending in due:
            pending.sent_at = now
        return due

    def next_deadline(self) -> float:
        """When something is due next, given a route."""
        return min((self._due_at(pending) for pending in self._pending.values()), default=float("inf"))

    def _due_at(self, pending: Pending) -> float:
        return float("-inf") if pending.sent_at is None else pending.sent_at + self._config.retry_s

    def _sized_envelope(self, proposal: Proposal) -> bytes:
        largest = max(map(len, proposal.commands), default=0)
        if largest > self._config.command_bytes_max:
            raise CommandTooLarge(f"a command of {largest} bytes; the limit is {self._config.command_bytes_max}")
        if len(proposal.commands) > self._config.envelope_commands_max:
            raise CommandTooLarge(
                f"{len(proposal.commands)} commands; the limit is {self._config.envelope_commands_max}"
            )
        envelope = encode(proposal)
        if len(envelope) > self._config.envelope_bytes_max:
            raise CommandTooLarge(f"commands of {len(envelope)} bytes; the limit is {self._config.envelope_bytes_max}")
        return envelope


class LeaderProposals:
    """What a leader is to append, and what it has appended and not applied: of that, a repeat is not appended again.
    Everything is forgotten with the leadership; the proposers send again."""

    def __init__(self, config: RaftConfig) -> None:
        self._waiting: deque[bytes] = deque()
        self._waiting_max = config.forwarded_waiting_max
        self._appended_bytes_max = config.appended_bytes_max
        self._origins: dict[Name, str] = {}

    def offer(self, origin: str, name: Name, envelope: bytes) -> None:
        """Queue for appending; ignored if it is under way already or too much is waiting (its node sends it again)."""
        if name not in self._origins and len(self._waiting) < self._waiting_max:
            self._origins[name] = origin
            self._waiting.append(envelope)

    @property
    def waits(self) -> bool:
        """Whether the next step has something to append."""
        return bool(self._waiting)

    def take(self) -> list[bytes]:
        """What to append now, in order: as much as one commit should carry."""
        taken: list[bytes] = []
        room = self._appended_bytes_max
        while self._waiting and room > 0:
            taken.append(self._waiting.popleft())
            room -= len(taken[-1])
        return taken

    def applied(self, name: Name) -> str | None:
        """The node that waits for this proposal's result, if it was appended here in this leadership."""
        return self._origins.pop(name, None)

    def forget(self) -> None:
        self._waiting.clear()
        self._origins.clear()
