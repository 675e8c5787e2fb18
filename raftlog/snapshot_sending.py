"""Copies of this leader's state on their way to followers that lack what the log does not hold any more.

All followers of one time get the same copy: one read transaction, closed when nobody needs it, when it gets too old,
or with the leadership. Where each chunk begins is remembered, so a follower goes on where it stands: a chunk can be
read again as long as the copy is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from raftlog import guards
from raftlog.config import RaftConfig
from raftlog.errors import MessageRefused
from raftlog.interface import Applier, StateCopy
from raftlog.outbox import Message, Outbox

logger = logging.getLogger(__name__)

STALLED_S = 3.0
"""A follower whose answers say nothing new for so long is asked where it stands: it may have passed over chunks while
it knew no leader. What it answers is behind all the chunks that were sent, so nothing is sent twice for being slow."""


@dataclass(kw_only=True, slots=True)
class Copy:
    """An open copy, and how far it was read."""

    number: int
    state: StateCopy
    index_term: int
    chunk_bytes: int
    dies_at: float
    positions: list[bytes] = field(default_factory=lambda: [b""])
    """Where each chunk begins that was read, and the next one."""
    digest: bytes = b""
    """Of the chunks that were read."""
    is_read: bool = False
    """To its end: as many chunks as positions."""

    def chunk(self, number: int) -> Message:
        """The content of a chunk that was read before, or of the next one."""
        is_new = not self.is_read and number == len(self.positions) - 1
        data, position = self.state.read(self.positions[number], self.chunk_bytes)
        if is_new:
            self.digest = guards.digest_behind(self.digest, data)
            if position is None:
                self.is_read = True
            else:
                self.positions.append(position)
        is_last = self.is_read and number == len(self.positions) - 1
        return {"chunk": number, "data": data, "digest": self.digest if is_last else b""}

    def has(self, number: int) -> bool:
        return number < len(self.positions)


@dataclass(kw_only=True, slots=True)
class Transfer:
    """One follower's share of the copy."""

    heard_at: float
    offered_at: float = float("-inf")
    is_ready: bool = False
    """Whether the follower has said, on this connection, where to go on."""
    acknowledged: int = 0
    """Chunks that are on its disk."""
    moved_at: float = 0.0
    """When that was last more than before."""
    sent: int = 0

    def stalls(self, now: float) -> bool:
        return self.is_ready and self.sent > self.acknowledged and now >= self.moved_at + STALLED_S


class SnapshotSender:
    """The leader's side of all transfers."""

    def __init__(self, *, config: RaftConfig, applier: Applier, outbox: Outbox, clock: Callable[[], float]) -> None:
        self._config = config
        self._applier = applier
        self._outbox = outbox
        self._clock = clock
        self._copies = 0
        self._copy: Copy | None = None
        self._transfers: dict[str, Transfer] = {}
        self.has_more = False
        """Whether the last step stopped for want of time."""
        self.installed = 0
        """Copies that followers have installed."""

    def needed_index(self) -> float:
        """Whoever gets the copy asks for the entry behind this one next; infinity if nobody gets one."""
        return float("inf") if self._copy is None else self._copy.state.index

    def connected(self, peer: str) -> None:
        """A new connection: ask the follower how far it is."""
        transfer = self._transfers.get(peer)
        if transfer is not None:
            transfer.is_ready, transfer.offered_at = False, float("-inf")

    def close(self) -> None:
        """The leadership is over, or the node."""
        self._transfers.clear()
        self.has_more = False
        if self._copy is not None:
            self._copy.state.close()
            self._copy = None

    def step(
        self,
        *,
        term: int,
        behind: Collection[str],
        connected: Collection[str],
        first_index: int,
        term_of: Callable[[int], int],
    ) -> None:
        """Send what may be sent now. `behind` are the followers that need a copy."""
        now = self._clock()
        self._end_what_is_over(now, behind, first_index)
        for peer in behind:
            if peer in connected and peer not in self._transfers:
                self._transfers[peer] = Transfer(heard_at=now)
        if not self._transfers:
            self.close()
            return
        if self._copy is None:
            self._copy = self._open(now, term_of)
        self._send(term, self._copy, connected, now)

    def answered(self, peer: str, message: Message) -> int | None:
        """A follower's answer. Returns the index of the entry that it asks for next if it needs no copy (any more).

        Raises MessageRefused for an answer about chunks that it was not sent."""
        transfer, copy = self._transfers.get(peer), self._copy
        if transfer is None or copy is None or message["snapshot"] != copy.number:
            return None
        transfer.heard_at = self._clock()
        if message["next_index"]:
            self.installed += copy.is_read and transfer.sent == len(copy.positions)
            del self._transfers[peer]
            return int(message["next_index"])
        if not message["ready"]:
            transfer.is_ready, transfer.offered_at = False, self._clock()
        elif not transfer.is_ready:
            self._begin(peer, transfer, copy, message["chunk"])
        elif message["chunk"] > transfer.sent:
            raise MessageRefused(f"an answer of {peer} about chunks that were not sent")
        elif message["chunk"] > transfer.acknowledged:
            transfer.acknowledged, transfer.moved_at = message["chunk"], self._clock()
        return None

    def _begin(self, peer: str, transfer: Transfer, copy: Copy, chunk: int) -> None:
        if not copy.has(chunk):
            raise MessageRefused(f"an answer of {peer} about chunks that were not read")
        transfer.is_ready, transfer.acknowledged, transfer.sent = True, chunk, chunk
        transfer.moved_at = self._clock()

    def _end_what_is_over(self, now: float, behind: Collection[str], first_index: int) -> None:
        for peer, transfer in list(self._transfers.items()):
            if peer not in behind or now >= transfer.heard_at + self._config.snapshot_idle_s:
                del self._transfers[peer]
        copy = self._copy
        if copy is not None and (now >= copy.dies_at or copy.state.index < first_index):
            logger.warning("the copy of the state at %d is given up: too old", copy.state.index)
            self.close()

    def _open(self, now: float, term_of: Callable[[int], int]) -> Copy:
        self._copies += 1
        state = self._applier.copy_state()
        logger.info("a copy of the state at %d is sent to %s", state.index, ", ".join(self._transfers))
        return Copy(
            number=self._copies,
            state=state,
            index_term=term_of(state.index),
            chunk_bytes=self._config.snapshot_chunk_bytes,
            dies_at=now + self._config.snapshot_life_s,
        )

    def _send(self, term: int, copy: Copy, connected: Collection[str], now: float) -> None:
        """Offers, and then chunks for a slice of time, to whoever got fewest first."""
        self.has_more = False
        named = {"term": term, "snapshot": copy.number}
        for peer, transfer in sorted(self._transfers.items(), key=lambda item: (item[1].sent, item[0])):
            if peer not in connected:
                continue
            if transfer.stalls(now):
                transfer.is_ready = False
            if not transfer.is_ready and now >= transfer.offered_at + self._config.retry_s:
                transfer.offered_at = now
                offer = {"type": "snapshot_offer", "index": copy.state.index, "index_term": copy.index_term}
                self._outbox.put(peer, offer | named)
            while transfer.is_ready and self._may_send(transfer, copy):
                if self._clock() >= now + self._config.snapshot_slice_s:
                    self.has_more = True
                    return
                self._outbox.put(peer, {"type": "snapshot_chunk"} | named | copy.chunk(transfer.sent))
                transfer.sent += 1

    def _may_send(self, transfer: Transfer, copy: Copy) -> bool:
        room = transfer.sent < transfer.acknowledged + self._config.snapshot_chunks_in_flight_max
        return room and copy.has(transfer.sent)
