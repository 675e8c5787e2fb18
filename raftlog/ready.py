"""What a node wants done after a step, and the messages between nodes.

Messages between nodes are dicts of msgpack types. Field types: int unless said otherwise.
    append_entries  term, commit_index, prevLogIdx, prevLogTerm, entries: [[payload: bytes, index, term], ...],
                    seq, last_index
    next_node_idx   term, next_node_idx, reset: bool, success: bool, seq     (the answer; seq echoes the append's)
    request_vote    term, last_log_index, last_log_term, transfer: bool      (transfer: the leader told it to stand)
    response_vote   term
    pre_vote        term, round, last_log_index, last_log_term               (would you vote for me? in no new term)
    pre_vote_answer term, round, granted: bool
    timeout_now     term                                                     (the leader's: stand at once)
    snapshot_offer  term, snapshot, index, index_term                        (a copy of the state at this entry)
    snapshot_chunk  term, snapshot, chunk, data: bytes, digest: bytes        (digest: of all of it, in the last chunk)
    snapshot_answer term, snapshot, chunk, ready: bool, next_index           (chunk: the next one wanted, when ready;
                                                                              next_index: no copy is needed, or 0)
    propose         envelope: bytes                                          (forwarded to the leader; see envelope.py)
    result          incarnation, seq, replies: [bytes, ...]                  (the leader's answer to it)
    barrier         id                                                       (forwarded to the leader)
    barrier_result  id, index
    disk            low: bool                                                (space.py's: the sender is short of room)
All integers are >= 0 and < 2**63. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.barriers import BarrierPassed
from raftlog.interface import Event, LogStatus
from raftlog.outbox import Outgoing
from raftlog.proposals import Result


class AppliedEvents(NamedTuple):
    """Events of one topic that applying the entry at `applied_index` gave."""

    applied_index: int
    topic: str
    bodies: Sequence[bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """What one step wants done; see the module's head for the order."""

    immediate: Sequence[Outgoing]
    held: Sequence[Outgoing]
    results: Sequence[Result]
    barriers: Sequence[BarrierPassed]
    events: Sequence[AppliedEvents]
    status: LogStatus
    status_changed: bool
    """Role, leader, term, quorum or snapshots_received differ from the last step's."""


def grouped(applied_index: int, events: Sequence[Event]) -> list[AppliedEvents]:
    """One AppliedEvents a topic, in the order of the topics' first events."""
    by_topic: dict[str, list[bytes]] = {}
    for event in events:
        by_topic.setdefault(event.topic, []).append(event.body)
    return [AppliedEvents(applied_index, topic, bodies) for topic, bodies in by_topic.items()]
