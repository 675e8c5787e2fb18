"""A state machine for the tests of the log: a hash chain over all commands, in LMDB, that drops repeats."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgpack

from raftlog.disk import Disk
from raftlog.interface import EVERY_NODE, Applied, Event, Proposal

Observer = Callable[[int, "Proposal | None", bytes, bool], None]
"""(index, proposal, digest after it, whether it was a repeat)"""


class ChainApplier:
    """Replies to a command with its number in the order of all commands that were not repeats. A command
    `event:<topic>` also gives an event of that topic."""

    def __init__(self, disk: Disk, observer: Observer | None = None) -> None:
        self._database = disk.database("state/chain")
        self._observer = observer

    def applied_index(self, transaction: Any) -> int:
        return self._get(transaction, b"index", 0)

    def incarnation_of(self, transaction: Any, node: str) -> int:
        incarnation: int = self._get(transaction, b"proposer:" + node.encode(), (0, 0, []))[0]
        return incarnation

    def count(self, transaction: Any) -> int:
        return self._get(transaction, b"count", 0)

    def digest(self, transaction: Any) -> bytes:
        return self._get(transaction, b"digest", b"")

    def apply(self, transaction: Any, *, index: int, proposal: Proposal | None) -> Applied:
        assert index == self.applied_index(transaction) + 1
        self._put(transaction, b"index", index)
        if proposal is None:
            self._observe(index, None, self.digest(transaction), False)
            return Applied(replies=())
        return self._apply_proposal(transaction, index, proposal)

    def _apply_proposal(self, transaction: Any, index: int, proposal: Proposal) -> Applied:
        key = b"proposer:" + proposal.node.encode()
        stored = self._get(transaction, key, (0, 0, []))
        incarnation, floor, results = stored if stored[0] >= proposal.incarnation else (proposal.incarnation, 0, [])
        known = dict(map(tuple, results))
        if proposal.incarnation < incarnation or proposal.seq < floor or proposal.seq in known:
            replies = known.get(proposal.seq, [b"stale"] * len(proposal.commands))
            self._observe(index, proposal, self.digest(transaction), True)
            return Applied(replies=replies)
        replies = [self._apply_command(transaction, command) for command in proposal.commands]
        floor = max(floor, proposal.acknowledged)
        known = {seq: kept for seq, kept in known.items() if seq >= floor} | {proposal.seq: replies}
        self._put(transaction, key, (incarnation, floor, list(known.items())))
        self._observe(index, proposal, self.digest(transaction), False)
        return Applied(replies=replies, events=[_event(command) for command in proposal.commands if _event(command)])

    def _apply_command(self, transaction: Any, command: bytes) -> bytes:
        count = self.count(transaction) + 1
        self._put(transaction, b"count", count)
        self._put(transaction, b"digest", blake2b(self.digest(transaction) + command, digest_size=16).digest())
        return b"%d" % count

    def _observe(self, index: int, proposal: Proposal | None, digest: bytes, repeat: bool) -> None:
        if self._observer is not None:
            self._observer(index, proposal, digest, repeat)

    def _get(self, transaction: Any, key: bytes, default: Any) -> Any:
        stored = transaction.get(key, db=self._database)
        return default if stored is None else msgpack.unpackb(stored, raw=False)

    def _put(self, transaction: Any, key: bytes, value: Any) -> None:
        transaction.put(key, msgpack.packb(value), db=self._database)


def _event(command: bytes) -> Event | None:
    if not command.startswith(b"event:"):
        return None
    topic = command.removeprefix(b"event:").decode()
    return Event(topic or EVERY_NODE, command)
