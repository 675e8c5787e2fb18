"""The half of the consensus that is about leaders: who stands, who is voted for, who hands over. Core is the other.

A node stands after a majority has said that it would vote for it (the pre-vote, at the term that it has), or when its
leader tells it to. It neither grants nor votes while it hears a leader of its term (stickiness), unless that leader
hands over. Together: who is merely deaf, or was away, cannot depose a leader that serves the others.
"""

from __future__ import annotations

from pysyncobj import syncobj

from raftlog import guards
from raftlog.config import Identity, RaftConfig
from raftlog.handover import Handover
from raftlog.interface import Role
from raftlog.joining import Joining
from raftlog.journal import LmdbJournal
from raftlog.outbox import Message, Outbox
from raftlog.pre_votes import PreVotes
from raftlog.pysyncobj_bindings import PeerNode, Seams, library_settings
from raftlog.replication import Ballots

_ROLES = {
    syncobj._RAFT_STATE.FOLLOWER: Role.FOLLOWER,
    syncobj._RAFT_STATE.CANDIDATE: Role.CANDIDATE,
    syncobj._RAFT_STATE.LEADER: Role.LEADER,
}


class Elections(syncobj.SyncObj):  # type: ignore[misc]  # the library is untyped
    """See the module's head. No properties: the library's constructor reads every attribute (trap 9)."""

    def __init__(
        self,
        *,
        identity: Identity,
        config: RaftConfig,
        seams: Seams,
        journal: LmdbJournal,
        joining: Joining,
        outbox: Outbox,
    ) -> None:
        self._config = config
        self._clock = seams.clock
        self._random = seams.random
        self._journal = journal
        self._joining = joining
        self._outbox = outbox
        self._majority = identity.majority
        self._ballots = Ballots()
        self._pre_votes = PreVotes(majority=identity.majority, round_s=config.election_max_s)
        self._handover = Handover()
        self._told_to_stand = False
        self._heard_leader_at = float("-inf")
        self._is_learner = identity.learner
        self._peers = [PeerNode(peer) for peer in sorted(identity.members) if peer != identity.node]
        self._known = {peer.id: peer for peer in self._peers}
        """The other members, and the learners that are connected."""
        super().__init__(PeerNode(identity.node), self._peers, library_settings(config), transport=outbox)

    # What the node asks.

    def role(self) -> Role:
        return _ROLES[self._SyncObj__raftState]

    def is_leader(self) -> bool:
        return bool(self._isLeader())

    def leader(self) -> str | None:
        leader = self._getLeader()
        return None if leader is None else str(leader.id)

    def term(self) -> int:
        return int(self._getTerm())

    def is_connected(self, peer: str) -> bool:
        return peer in self._known and self._known[peer] in self._SyncObj__connectedNodes

    def has_quorum(self) -> bool:
        """Leader: a majority answered within the fallback timeout. Others: a leader was heard within it."""
        oldest = self._clock() - self._config.leader_fallback_s
        if not self.is_leader():
            return self.leader() is not None and self._heard_leader_at > oldest
        return 1 + sum(self._answered_since(peer, oldest) for peer in self._peers) >= self._majority

    def next_deadline(self) -> float:
        """When the library's timers, or a handover, are next due; infinity if none is."""
        if self.is_leader():
            return min(float(self._SyncObj__newAppendEntriesTime), self._handover.ends_at)
        return float(self._SyncObj__raftElectionDeadline) if self._may_stand() else float("inf")

    def _answered_since(self, peer: PeerNode, oldest: float) -> bool:
        return bool(self._SyncObj__lastResponseTime.get(peer, float("-inf")) > oldest)

    # Standing.

    def _may_stand(self) -> bool:
        """Whether standing makes sense: with the votes of a majority within reach."""
        if self._is_learner or not self._joining.has_joined():
            return False
        return 1 + sum(self.is_connected(peer.id) for peer in self._peers) >= self._majority

    def _SyncObj__connectedToAnyone(self) -> bool:  # noqa: N802
        """The library asks this when the election timer has run out, and stands if it is true."""
        if not self._may_stand():
            self._pre_votes.forget()
            return False
        if self._told_to_stand or self._pre_votes.is_won():
            self._pre_votes.forget()
            self._outbox.by_transfer = self._told_to_stand
            return True
        self._ask_pre_votes()
        return False

    def _ask_pre_votes(self) -> None:
        """Ask soon again while nobody leads: it disturbs nobody, and the others may have heard the former leader a
        little later. Not in step with them: two that stand at once split the votes."""
        now = self._clock()
        self._SyncObj__raftElectionDeadline = now + self._config.heartbeat_s * (1.0 + self._random.random())
        self._SyncObj__raftLeader = None
        round_number = self._pre_votes.round_to_ask_in(now)
        last_term, last_index = self._last_entry()
        for peer in self._peers:
            self._outbox.put(
                peer.id,
                {
                    "type": "pre_vote",
                    "term": self.term(),
                    "round": round_number,
                    "last_log_index": last_index,
                    "last_log_term": last_term,
                },
            )

    def _last_entry(self) -> tuple[int, int]:
        """(term, index): of two logs the one with the larger pair is newer."""
        return self._journal.entry(self._journal.last_index)[2], self._journal.last_index

    def _stand_if_told(self) -> None:
        """Before the tick: at once, whatever the election timer says."""
        if self._told_to_stand and self._may_stand():
            self._SyncObj__raftElectionDeadline = float("-inf")

    def _has_stood_if_told(self) -> None:
        """After the tick: in this tick or not at all."""
        self._told_to_stand = self._outbox.by_transfer = False

    def _SyncObj__setState(self, newState: int) -> None:  # noqa: N802, N803
        """A leader that steps down waits like everybody else before it stands again: its own deadline is long past."""
        if self.is_leader() and newState != syncobj._RAFT_STATE.LEADER:
            self._SyncObj__raftElectionDeadline = self._clock() + self._SyncObj__generateRaftTimeout()
        super()._SyncObj__setState(newState)

    def _step_down(self, term: int) -> None:
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(syncobj._RAFT_STATE.FOLLOWER)
        self._SyncObj__raftLeader = None

    # Voting.

    def _pass_on(self, node: PeerNode, message: Message) -> None:
        super()._SyncObj__onMessageReceived(node, message)

    def _serves_a_leader(self) -> bool:
        """Leads, or has heard the leader of its term lately. Of its term: whoever is terms ahead of a leader must not
        hold on to it, since that leader cannot lead it (trap 5)."""
        heard_lately = self._heard_leader_at > self._clock() - self._config.election_min_s
        return self.is_leader() or (self.leader() is not None and heard_lately)

    def _on_vote_request(self, node: PeerNode, message: Message) -> None:
        """A store that may have forgotten what it acknowledged must not help elect a leader without it (S5). And nobody
        deposes a leader that serves: neither by this vote nor by the request's higher term."""
        if not self._joining.has_joined() or (self._serves_a_leader() and not message["transfer"]):
            return
        self._pre_votes.forget()
        self._pass_on(node, message)

    def _on_vote(self, node: PeerNode, message: Message) -> None:
        if message["term"] == self.term() and self._ballots.is_first(message["term"], node.id):
            self._pass_on(node, message)

    def _on_pre_vote(self, node: PeerNode, message: Message) -> None:
        answer = {"type": "pre_vote_answer", "term": self.term(), "round": message["round"]}
        self._outbox.put(node.id, answer | {"granted": self._would_vote(message)})

    def _would_vote(self, message: Message) -> bool:
        if not self._joining.has_joined() or self._serves_a_leader() or message["term"] < self.term():
            return False
        return (message["last_log_term"], message["last_log_index"]) >= self._last_entry()

    def _on_pre_vote_answer(self, node: PeerNode, message: Message) -> None:
        """A refusal may come from a node that is terms ahead but has an older log: nobody could ever be elected if this
        one, which could, did not catch up with the term."""
        if self._serves_a_leader():
            return
        if message["term"] > self.term():
            self._pre_votes.forget()
            self._step_down(message["term"])
        elif message["granted"]:
            self._pre_votes.grant(node.id, message["round"], self._clock())
            if self._pre_votes.is_won():
                self._SyncObj__raftElectionDeadline = float("-inf")

    # Handing over.

    def hand_over(self, peer: str | None) -> None:
        """Begin to hand the leadership to `peer`, or to the follower that has most of the log. Does nothing if this
        node does not lead, if a handover is under way, or if there is no such follower that answers and has, or is
        about to have, all of the log."""
        if not self.is_leader() or self._handover.is_under_way():
            return
        now = self._clock()
        able = [
            follower
            for follower in self._peers
            if peer in (None, follower.id)
            and self.is_connected(follower.id)
            and self._answered_since(follower, now - self._config.election_min_s)
            and guards.may_succeed(self._SyncObj__raftNextIndex[follower], self._journal.last_index)
        ]
        if able:
            target = max(able, key=lambda follower: (self._SyncObj__raftMatchIndex[follower], follower.id))
            self._handover.begin(target.id, now + self._config.election_min_s)

    def is_handing_over(self) -> bool:
        """Whether this leader appends nothing for the moment."""
        return self._handover.is_under_way()

    def _go_on_with_handover(self) -> None:
        """After the tick: tell the target once it has everything; give up when it has had its time."""
        target = self._handover.target
        if target is None:
            return
        if not self.is_leader() or self._clock() >= self._handover.ends_at:
            self._handover.end()
        elif not self._handover.told and self._has_everything(self._known[target]):
            self._handover.told = True
            self._outbox.put(target, {"type": "timeout_now", "term": self.term()})

    def _has_everything(self, peer: PeerNode) -> bool:
        return bool(self._SyncObj__raftMatchIndex[peer] == self._journal.last_index)

    def _on_timeout_now(self, node: PeerNode, message: Message) -> None:
        """Only from the leader in office, and in the same tick or never: an order that waited would depose a leader who
        has long given up handing over."""
        if message["term"] == self.term() and self.leader() == node.id:
            self._told_to_stand = True
