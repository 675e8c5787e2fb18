"""Applied once by operation id: a proposer's results are kept until it says that it has seen them.

(node, incarnation, seq) names a proposal for ever. A repeat gets the kept result again; one that was acknowledged, or
that comes from an older incarnation, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from statemachine.codec import decode_proposer, decode_replies, encode
from statemachine.keys import SEPARATOR, U64, session_prefix
from statemachine.limits import INT_MAX, NODE_LENGTH_MAX, PROPOSAL_COMMANDS_MAX, RESULTS_KEPT_MAX
from statemachine.repeat_records import Proposer
from statemachine.tables import Tables

_NODE = re.compile(rf"[0-9A-Za-z._-]{{1,{NODE_LENGTH_MAX}}}", re.ASCII)


class Proposal(Protocol):
    """What the log hands to the machine, by shape: raftlog has the class."""

    @property
    def node(self) -> str: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def acknowledged(self) -> int: ...
    @property
    def commands(self) -> Sequence[bytes]: ...


def refusal_of(transaction: Any, tables: Tables, proposal: Proposal) -> str | None:
    """The code that refuses every command of the proposal; None if it may be applied, or was."""
    if not _is_wellformed(proposal):
        return "malformed"
    last = _proposer(transaction, tables, proposal.node)
    if last is None or last.incarnation < proposal.incarnation:
        return None
    if last.incarnation > proposal.incarnation:
        return "stale_incarnation"
    return "stale_proposal" if proposal.seq <= last.acknowledged else None


def last_incarnation(transaction: Any, tables: Tables, node: str) -> int:
    """The newest incarnation of a proposer; 0: it has proposed nothing."""
    last = _proposer(transaction, tables, node)
    return 0 if last is None else last.incarnation


def kept_result(transaction: Any, tables: Tables, proposal: Proposal) -> Sequence[bytes] | None:
    """The replies that the proposal got when it was applied; None if it was not."""
    value = transaction.get(_result_key(proposal, proposal.seq), db=tables.results)
    return None if value is None else decode_replies(value)


def keep_result(transaction: Any, tables: Tables, proposal: Proposal, replies: Sequence[bytes]) -> None:
    """Remember the replies, and forget those that the proposer will not ask for again."""
    last = _proposer(transaction, tables, proposal.node)
    now = Proposer(incarnation=proposal.incarnation, acknowledged=_floor(proposal, last))
    if now != last:
        transaction.put(proposal.node.encode(), encode(now), db=tables.proposers)
        _forget(transaction, tables, proposal.node, _result_key(proposal, now.acknowledged))
    transaction.put(_result_key(proposal, proposal.seq), encode(tuple(replies)), db=tables.results)


def _floor(proposal: Proposal, last: Proposer | None) -> int:
    """The sequence number up to which no result is kept."""
    floor = max(0, min(proposal.acknowledged, proposal.seq - 1), proposal.seq - RESULTS_KEPT_MAX)
    return max(floor, last.acknowledged) if last is not None and last.incarnation == proposal.incarnation else floor


def _forget(transaction: Any, tables: Tables, node: str, until: bytes) -> None:
    """Drop the node's results up to this key: those of older incarnations sort below it too."""
    cursor = transaction.cursor(db=tables.results)
    found = cursor.set_range(node.encode() + SEPARATOR)
    while found and cursor.key() <= until:
        found = cursor.delete()


def _proposer(transaction: Any, tables: Tables, node: str) -> Proposer | None:
    value = transaction.get(node.encode(), db=tables.proposers)
    return None if value is None else decode_proposer(value)


def _result_key(proposal: Proposal, seq: int) -> bytes:
    return session_prefix(proposal.node, proposal.incarnation) + U64.pack(seq)


def _is_wellformed(proposal: Proposal) -> bool:
    return (
        _NODE.fullmatch(proposal.node) is not None
        and 0 <= proposal.incarnation <= INT_MAX
        and 0 < proposal.seq <= INT_MAX
        and len(proposal.commands) <= PROPOSAL_COMMANDS_MAX
    )
