"""A copy of the leader's state on its way in: received beside the state, chunk by chunk, in the ticks' own commits.

How far it has come is durable with what has come, so a transfer goes on after a lost connection and after a restart. A
copy that another leader offers, or a later one of the same leader, begins anew: the room beside the state is emptied
first, a part of it a tick.
"""

from __future__ import annotations

import logging
from dataclasses import astuple, dataclass, replace

from raftlog import guards
from raftlog.disk import Disk
from raftlog.interface import Applier
from raftlog.meta import MetaStore
from raftlog.outbox import Message

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Receiving:
    """The copy that is being received."""

    term: int
    snapshot: int
    """With the term: which copy."""
    index: int
    index_term: int
    """The entry that it stands at."""
    chunk: int = 0
    """The next one; those before it are here."""
    digest: bytes = b""
    """Of those."""

    def is_of(self, message: Message) -> bool:
        return (self.term, self.snapshot) == (message["term"], message["snapshot"])


class SnapshotReceiver:
    """One follower's side of a transfer. Every write is part of the tick's transaction."""

    def __init__(self, *, disk: Disk, meta: MetaStore, applier: Applier) -> None:
        self._disk = disk
        self._meta = meta
        self._applier = applier
        self._room_is_empty = False
        """Not known at the start: the state before the last copy may still be there."""
        self._offer: tuple[str, Receiving] | None = None
        """To begin with when there is room."""
        self._answer: tuple[str, Message] | None = None
        stored = meta.receiving()
        self._receiving = None if stored is None else Receiving(*stored)

    def waits_for_room(self) -> bool:
        """Whether `work` should be called soon: a leader waits."""
        return self._offer is not None

    def offered(self, peer: str, message: Message, commit_index: int) -> None:
        """The leader says what it would send."""
        if not guards.is_news(message["index"], commit_index):
            self.decline(peer, message, commit_index + 1)
        elif self._receiving is not None and self._receiving.is_of(message):
            self._say(peer, message, chunk=self._receiving.chunk, ready=True)
        else:
            self._drop()
            self._offer = peer, Receiving(*(message[name] for name in ("term", "snapshot", "index", "index_term")))
            self._say(peer, message, ready=False)

    def received(self, peer: str, message: Message, commit_index: int) -> Receiving | None:
        """A chunk came. Returns the copy if that was the last one and it is the state now."""
        receiving = self._receiving
        if receiving is None or not receiving.is_of(message):
            # Given up here, because the log served after all: the leader is to ask, or it would wait for a sign.
            self._say(peer, message, ready=False)
            return None
        if not guards.is_news(receiving.index, commit_index):
            self.decline(peer, message, commit_index + 1)
            return None
        if message["chunk"] != receiving.chunk:
            self._say(peer, message, chunk=receiving.chunk, ready=True)
            return None
        if not self._applier.receive(self._disk.transaction, message["data"]):
            self._refuse(peer, message, "a chunk of it is none")
            return None
        digest = guards.digest_behind(receiving.digest, message["data"])
        receiving = replace(receiving, chunk=receiving.chunk + 1, digest=digest)
        if message["digest"]:
            return self._complete(peer, message, receiving)
        self._put(receiving)
        self._say(peer, message, chunk=receiving.chunk, ready=True)
        return None

    def _complete(self, peer: str, message: Message, receiving: Receiving) -> Receiving | None:
        if not guards.is_whole_copy(receiving.digest, message["digest"]):
            self._refuse(peer, message, "it is not what was read there")
            return None
        if not self._applier.install(self._disk.transaction, index=receiving.index):
            self._refuse(peer, message, f"it does not stand at {receiving.index}")
            return None
        self._put(None)
        self._room_is_empty = False
        return receiving

    def _refuse(self, peer: str, message: Message, reason: str) -> None:
        logger.error("the copy of %s's state is dropped and asked for again: %s", peer, reason)
        self._drop()
        self._say(peer, message, ready=False)

    def decline(self, peer: str, message: Message, next_index: int) -> None:
        """No copy is needed (any more): the log from `next_index` on is."""
        self._drop()
        self._say(peer, message, ready=False, next_index=next_index)

    def work(self, commit_index: int) -> None:
        """Once a tick: empty a part of the room, and begin when it is empty."""
        if self._receiving is not None and not guards.is_news(self._receiving.index, commit_index):
            self._drop()
        if self._receiving is None and not self._room_is_empty:
            self._room_is_empty = self._applier.discard(self._disk.transaction)
        if self._offer is not None and self._room_is_empty:
            (peer, receiving), self._offer = self._offer, None
            self._put(receiving)
            self._say(peer, {"term": receiving.term, "snapshot": receiving.snapshot}, ready=True)

    def take_answer(self) -> tuple[str, Message] | None:
        """What to say to the leader once this tick is committed: of several answers the last holds."""
        answer, self._answer = self._answer, None
        return answer

    def _say(self, peer: str, to: Message, *, ready: bool, chunk: int = 0, next_index: int = 0) -> None:
        named = {"type": "snapshot_answer", "term": to["term"], "snapshot": to["snapshot"]}
        self._answer = peer, named | {"ready": ready, "chunk": chunk, "next_index": next_index}

    def _drop(self) -> None:
        """What was received is worth nothing any more."""
        self._offer = None
        if self._receiving is not None:
            self._put(None)
            self._room_is_empty = False

    def _put(self, receiving: Receiving | None) -> None:
        self._receiving = receiving
        self._meta.put_receiving(None if receiving is None else list(astuple(receiving)))
