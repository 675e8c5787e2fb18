"""What a leader has sent to each follower and not heard back of, and what a follower answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from raftlog import guards

Message = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class Follower:
    """One follower as the leader sees it. Sequence numbers count the leader's append_entries; each answer echoes
    one."""

    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(seq, bytes) of what was sent and not answered."""
    in_flight_bytes: int = 0
    sent_seq: int = 0
    sent_commit_index: int = 0
    echoed_seq: int = 0
    """Of a member that has joined: an empty store's answers say nothing about who leads."""
    reset_floor: int = 0
    """Rejections of what was sent before the last rejection was acted upon say nothing new."""

    def sent(self, seq: int, size: int, commit_index: int) -> None:
        self.sent_seq, self.sent_commit_index = seq, commit_index
        if size:
            self.in_flight.append((seq, size))
            self.in_flight_bytes += size

    def echoed(self, seq: int, *, joined: bool) -> None:
        if joined:
            self.echoed_seq = max(self.echoed_seq, seq)
        while self.in_flight and self.in_flight[0][0] <= seq:
            self.in_flight_bytes -= self.in_flight.popleft()[1]

    def forget_in_flight(self) -> None:
        """What was under way is lost with its connection, or was rejected."""
        self.in_flight.clear()
        self.in_flight_bytes = 0


class Answer(NamedTuple):
    """A next_node_idx in the making: the answer to the append_entries `seq` of a leader in `term`."""

    term: int
    seq: int
    next_index: int
    reset: bool
    success: bool
    joined: bool = True
    """See joining.py."""

    def message(self) -> Message:
        return {
            "type": "next_node_idx",
            "term": self.term,
            "seq": self.seq,
            "next_node_idx": self.next_index,
            "reset": self.reset,
            "success": self.success,
            "joined": self.joined,
        }


class Answers:
    """The answers of one tick, one or two a leader however many append_entries it sent."""

    def __init__(self) -> None:
        self._pending: dict[str, list[Answer]] = {}

    def add(self, peer: str, answer: Answer) -> None:
        self._pending[peer] = _merged(self._pending.get(peer, []), answer)

    def take(self) -> list[tuple[str, Message]]:
        """(leader, message), and begin anew."""
        taken, self._pending = self._pending, {}
        return [(peer, answer.message()) for peer, answers in taken.items() for answer in answers]


def _merged(earlier: list[Answer], answer: Answer) -> list[Answer]:
    """What is left to say after one more answer. Within a term an acknowledgement stays true, so the furthest one is
    kept and a rejection before it is settled by it; a rejection after it is said as well."""
    same_term = [former for former in earlier if former.term == answer.term]
    accepted = [former for former in same_term if former.success]
    if answer.success:
        furthest = max(former.next_index for former in (*accepted, answer))
        return [answer._replace(next_index=furthest)]
    return [*accepted, answer]


class Ballots:
    """Who voted for this node in the current term: a vote that is delivered twice counts once (S12)."""

    def __init__(self) -> None:
        self._term = 0
        self._voters: set[str] = set()

    def is_first(self, term: int, voter: str) -> bool:
        if term != self._term:
            self._term, self._voters = term, set()
        if voter in self._voters:
            return False
        self._voters.add(voter)
        return True


def is_reset_to_act_upon(follower: Follower, message: Message) -> bool:
    return bool(message["reset"]) and guards.is_new_reset(message, follower.reset_floor)
