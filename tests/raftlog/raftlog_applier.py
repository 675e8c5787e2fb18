"""A state machine for the tests of the log: a hash chain over all commands, in LMDB, that drops repeats.

It keeps two databases: the state is in one of them, and a copy of another node's is received in the other."""

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
        self._environment = disk.environment
        self._which = disk.database("state/which")
        self._databases = (disk.database("state/chain"), disk.database("state/chain2"))
        self._observer = observer

    def database(self, transaction: Any, *, beside: bool = False) -> Any:
        return self._databases[(transaction.get(b"which", b"0", db=self._which) == b"1") != beside]

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

    def copy_state(self) -> ChainCopy:
        return ChainCopy(self, self._environment)

    def receive(self, transaction: Any, chunk: bytes) -> bool:
        try:
            pairs = msgpack.unpackb(chunk)
        except ValueError:
            return False
        beside = self.database(transaction, beside=True)
        if type(pairs) is not list or not all(all(type(part) is bytes for part in pair) for pair in pairs):
            return False
        return all(transaction.put(*pair, db=beside, append=True) for pair in pairs)

    def install(self, transaction: Any, *, index: int) -> bool:
        stored = transaction.get(b"index", db=self.database(transaction, beside=True))
        if stored is None or msgpack.unpackb(stored) != index:
            return False
        is_first = self.database(transaction) is self._databases[0]
        transaction.put(b"which", b"1" if is_first else b"0", db=self._which)
        return True

    def discard(self, transaction: Any) -> bool:
        """One step more than is needed, so that whoever calls it must be able to wait."""
        beside = self.database(transaction, beside=True)
        was_empty = transaction.stat(beside)["entries"] == 0
        transaction.drop(beside, delete=False)
        return bool(was_empty)

    def _apply_command(self, transaction: Any, command: bytes) -> bytes:
        count = self.count(transaction) + 1
        self._put(transaction, b"count", count)
        self._put(transaction, b"digest", blake2b(self.digest(transaction) + command, digest_size=16).digest())
        return b"%d" % count

    def _observe(self, index: int, proposal: Proposal | None, digest: bytes, repeat: bool) -> None:
        if self._observer is not None:
            self._observer(index, proposal, digest, repeat)

    def _get(self, transaction: Any, key: bytes, default: Any) -> Any:
        stored = transaction.get(key, db=self.database(transaction))
        return default if stored is None else msgpack.unpackb(stored, raw=False)

    def _put(self, transaction: Any, key: bytes, value: Any) -> None:
        transaction.put(key, msgpack.packb(value), db=self.database(transaction))


class ChainCopy:
    def __init__(self, applier: ChainApplier, environment: Any) -> None:
        self._transaction = environment.begin()
        self._database = applier.database(self._transaction)
        self.index = applier.applied_index(self._transaction)

    def read(self, position: bytes, bytes_max: int) -> tuple[bytes, bytes | None]:
        pairs = []
        with self._transaction.cursor(db=self._database) as cursor:
            found = cursor.set_range(position) if position else cursor.first()
            while found and bytes_max > 0:
                pairs.append(cursor.item())
                bytes_max -= sum(map(len, pairs[-1]))
                found = cursor.next()
            return msgpack.packb(pairs), cursor.key() if found else None

    def close(self) -> None:
        self._transaction.abort()


def _event(command: bytes) -> Event | None:
    if not command.startswith(b"event:"):
        return None
    topic = command.removeprefix(b"event:").decode()
    return Event(topic or EVERY_NODE, command)
