"""The part of the consensus that is about the state as a whole: the log is trimmed behind it, and a follower that lacks
what was trimmed gets a copy of it.

The transfer goes on beside heartbeats and appends, and in the ticks' own commits:
    leader                                           follower
    snapshot_offer  ─▶ (again until it is answered)
                       ◀─ snapshot_answer            from which chunk on; not yet; or: no copy is needed
    snapshot_chunk  ─▶ (a few in flight)
                       ◀─ snapshot_answer            held: what is acknowledged is on its disk
    the last chunk  ─▶                               the copy is the state, log and indices follow, in one commit
                       ◀─ snapshot_answer            the next entry wanted
"""

from __future__ import annotations

from raftlog import guards
from raftlog.config import Identity, RaftConfig
from raftlog.disk import Disk
from raftlog.elections import Elections
from raftlog.errors import MessageRefused
from raftlog.interface import Applier
from raftlog.joining import Joining
from raftlog.journal import LmdbJournal
from raftlog.meta import MetaStore
from raftlog.outbox import Message, Outbox
from raftlog.pysyncobj_bindings import PeerNode, Seams
from raftlog.replication import Follower
from raftlog.snapshot_receiving import SnapshotReceiver
from raftlog.snapshot_sending import SnapshotSender
from raftlog.trimming import Trimming


class StateCopies(Elections):
    """See the module's head. No properties: the library's constructor reads every attribute (trap 9)."""

    def __init__(
        self,
        *,
        identity: Identity,
        config: RaftConfig,
        seams: Seams,
        journal: LmdbJournal,
        meta: MetaStore,
        disk: Disk,
        applier: Applier,
        outbox: Outbox,
    ) -> None:
        self._append_seq = 0
        self._followers = {peer: Follower() for peer in sorted(identity.members) if peer != identity.node}
        self._trimming = Trimming(config, journal)
        self._catching_up: dict[str, int] = {}
        """Followers that have installed a copy, and how far they must come until they are like the others."""
        self.snapshots_out = SnapshotSender(config=config, applier=applier, outbox=outbox, clock=seams.clock)
        self._snapshots_in = SnapshotReceiver(disk=disk, meta=meta, applier=applier)
        self.snapshots_received = 0
        self.durable_applied_index = 0
        super().__init__(
            identity=identity, config=config, seams=seams, journal=journal, joining=Joining(meta), outbox=outbox
        )

    # What the node asks.

    def commit_index(self) -> int:
        return int(self._SyncObj__raftCommitIndex)

    def applied_index(self) -> int:
        return int(self._SyncObj__raftLastApplied)

    def log_bytes(self) -> int:
        return self._trimming.log_bytes

    # In a tick.

    def _SyncObj__tryLogCompaction(self) -> None:  # noqa: N802
        """The state is on the disk beside the log, so there is nothing to dump: old entries are trimmed. What this tick
        applied stays until the next: a copy that is begun now stands at what is committed."""
        needs = (self._needed_by_followers, self._needed_for_copies) if self.is_leader() else (_nobody, _nobody)
        self._trimming.step(self.durable_applied_index, for_followers=needs[0], for_copies=needs[1])

    def send_snapshots(self) -> None:
        """After the appends: a leader sends copies of its state to whoever lacks what is not in its log any more."""
        if not self.is_leader():
            self.snapshots_out.close()
            self._catching_up.clear()
            return
        self.snapshots_out.step(
            term=self.term(),
            behind=[peer.id for peer in self._known.values() if self._needs_snapshot(peer)],
            connected=[peer for peer in self._known if self.is_connected(peer)],
            first_index=self._journal.first_index,
            term_of=lambda index: self._journal.entry(index)[2],
        )

    # Messages.

    def _on_snapshot_offer(self, node: PeerNode, message: Message) -> None:
        if self._hears(node, message):
            self._snapshots_in.offered(node.id, message, self.commit_index())

    def _on_snapshot_chunk(self, node: PeerNode, message: Message) -> None:
        if not self._hears(node, message):
            return
        installed = self._snapshots_in.received(node.id, message, self.commit_index())
        if installed is not None:
            self._install(node, message, installed.index, installed.index_term)

    def _hears(self, node: PeerNode, message: Message) -> bool:
        """Whether this is the leader in office. Chunks may delay its heartbeats on a slow line, so they count as
        such."""
        if message["term"] != self.term() or self.leader() != node.id:
            return False
        self._heard_leader_at = self._clock()
        self._SyncObj__raftElectionDeadline = self._clock() + self._SyncObj__generateRaftTimeout()
        return True

    def _install(self, node: PeerNode, message: Message, index: int, term: int) -> None:
        """The received copy is the state: log and indices follow, in the same commit."""
        self._journal.install(index, term)
        self._SyncObj__raftCommitIndex = self._SyncObj__raftLastApplied = index
        self._joining.applied(term, index)
        self.snapshots_received += 1
        next_index = guards.next_index_behind_copy(index, self._journal.last_index)
        self._snapshots_in.decline(node.id, message, next_index)

    def _on_snapshot_answer(self, node: PeerNode, message: Message) -> None:
        if message["term"] > self.term():
            self._step_down(message["term"])
            return
        if not self.is_leader() or not guards.is_current_answer(message, self.term()):
            return
        if message["next_index"] > self._journal.last_index + 1:
            raise MessageRefused(f"an answer of {node.id} about entries that this leader does not have")
        self._SyncObj__lastResponseTime[node] = self._clock()
        next_index = self.snapshots_out.answered(node.id, message)
        if next_index is not None:
            self._has_snapshot(node, next_index)

    def _has_snapshot(self, node: PeerNode, next_index: int) -> None:
        """The follower has committed all that is before `next_index`. Its rejections of earlier appends are settled."""
        follower = self._followers[node.id]
        follower.reset_floor = self._append_seq
        follower.forget_in_flight()
        self._SyncObj__raftMatchIndex[node] = max(self._SyncObj__raftMatchIndex[node], next_index - 1)
        self._SyncObj__raftNextIndex[node] = next_index
        self._catching_up[node.id] = self._journal.last_index

    def _needs_snapshot(self, peer: PeerNode) -> bool:
        """The first entry that is kept serves for its term only: what a follower lacks must be behind it."""
        return bool(self._SyncObj__raftNextIndex[peer] <= self._journal.first_index)

    def _needed_by_followers(self) -> float:
        """The last entry that every follower has which answers and is served from the log."""
        oldest = self._clock() - self._config.leader_fallback_s
        answering = [peer for peer in self._known.values() if self._answered_since(peer, oldest)]
        served = [self._SyncObj__raftMatchIndex[peer] for peer in answering if not self._needs_snapshot(peer)]
        return min(served, default=float("inf"))

    def _needed_for_copies(self) -> float:
        """The same of those that get a copy, or got one and are catching up."""
        oldest = self._clock() - self._config.leader_fallback_s
        needed = self.snapshots_out.needed_index()
        for peer_id, target in list(self._catching_up.items()):
            match_index = self._SyncObj__raftMatchIndex[self._known[peer_id]]
            if match_index >= target or not self._answered_since(self._known[peer_id], oldest):
                del self._catching_up[peer_id]
            else:
                needed = min(needed, match_index)
        return needed


def _nobody() -> float:
    return float("inf")
