"""The settings of the log. `RaftConfig` must be the same on every node; `Identity` says which node this is."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class RaftConfig:
    """Times in seconds, sizes in bytes. `validate()` checks the relations; a node calls it before it starts."""

    heartbeat_s: float = 0.1
    """The leader's silence is at most this long."""
    election_min_s: float = 0.6
    """A follower that hears no leader stands after a random time between this and `election_max_s`."""
    election_max_s: float = 1.2
    leader_fallback_s: float = 1.5
    """A leader that no majority answered for this long steps down (a one-way failure keeps it no longer than this)."""
    connection_timeout_s: float = 4.0
    """A connection on which nothing was heard for this long is closed."""
    retry_s: float = 0.7
    """A proposal or barrier without a result is sent again after this time, under the same id."""
    apply_slice_s: float = 0.03
    """Applying pauses after this long, so that heartbeats never starve."""
    apply_slice_max_s: float = 0.08
    """It goes on for as long as the last commit took, up to this: with commits of 80 ms a slice of 30 ms left a node a
    quarter of its time to apply, and one that lagged could not catch up."""
    tick_wait_max_s: float = 0.25
    """The longest time between two steps, whatever the timers say."""

    command_bytes_max: int = 240 * 1024
    """One command; it fits an envelope."""
    envelope_bytes_max: int = 256 * 1024
    """One log entry: an envelope of commands."""
    envelope_commands_max: int = 1024
    append_batch_bytes: int = MIB
    """Entries of one append_entries, passed by at most one entry. Larger than an envelope: entries are never split."""
    in_flight_bytes_max: int = 4 * MIB
    """Entries sent to one follower that it has not answered."""
    result_bytes_max: int = MIB
    """Replies of one forwarded proposal; a larger result is not sent, the proposer answers from its own apply."""
    journal_cache_bytes: int = 16 * MIB
    """Recent entries kept in memory, so that followers which keep up cost no reads."""

    proposals_in_flight_max: int = 6
    """Proposals of one lane of a client under way at once: enough to fill the pipe, few enough to make groups."""
    group_bytes_max: int = 64 * 1024
    """Commands packed into one proposal, unless one alone is larger: an entry is applied in one go, and heartbeats and
    urgent proposals wait behind it."""
    lane_bytes_min: int = 64 * 1024
    """What a lane may have under way however slow the log is: of three nodes, a tenth of a second of apply."""
    lane_bytes_max: int = 384 * 1024
    """And however fast."""
    work_target_s: float = 0.5
    """How long a proposal of the node's own work may take; the lane has less under way until it does not."""
    client_target_s: float = 0.2
    """The same for clients: shorter, so that they yield first. Two lanes of a few nodes' worth of this is what an
    urgent proposal can meet on its way."""
    proposals_waiting_max: int = 20_000
    """Commands waiting in a lane of a client to be packed."""
    waiting_bytes_max: int = 64 * MIB
    """Their bytes, in a lane of the node's own."""
    client_waiting_bytes_max: int = 4 * MIB
    """The same for the clients' lane: more than a second's worth is better refused than waited for."""
    proposals_pending_max: int = 64
    """Local proposals that a node keeps until their result."""
    appended_bytes_max: int = 2 * MIB
    """Proposals that a leader appends in one step, passed by at most one: heartbeats wait for a step's commit."""
    forwarded_waiting_max: int = 1024
    """Proposals of others that wait for a leader's next step; further ones are dropped, their node sends them again."""
    barriers_pending_max: int = 4096
    """Local barriers waiting in a node."""

    log_keep_bytes: int = 128 * MIB
    """Of the log on the disk (whole pages): what is applied is trimmed beyond it. A node that was away for longer than
    this lasts gets a copy of the state instead."""
    log_keep_entries: int = 1_000_000
    """The same in entries, whatever their size."""
    log_keep_follower_times: int = 2
    """So many times as much is kept while a follower that answers still needs it."""
    log_keep_snapshot_times: int = 8
    """So many times as much is kept while a copy of the state is under way, and until whoever got it has caught up: a
    follower that dies meanwhile must not fill the disk."""
    log_trim_entries_max: int = 512
    """Entries trimmed in one step, less than a millisecond of work."""
    snapshot_chunk_bytes: int = 128 * 1024
    """Keys and values in one chunk of a copy, passed by one of them at most."""
    snapshot_chunk_bytes_max: int = 2 * MIB
    """The largest chunk that is taken in."""
    snapshot_chunks_in_flight_max: int = 8
    """Chunks sent to one follower that are not on its disk yet."""
    snapshot_slice_s: float = 0.01
    """Reading chunks pauses after this long, so that heartbeats and commits never wait for a copy."""
    snapshot_idle_s: float = 30.0
    """A follower that made no sign for so long gets no more of a copy; if it is the only one, the copy is closed. Until
    then it can go on where its connection was lost."""
    snapshot_life_s: float = 1800.0
    """How long a copy may take: it is a read transaction, and until it ends no page that changed can be used again."""

    def validate(self) -> None:
        """Raises ValueError naming the relation that does not hold."""
        for holds, relation in self._relations():
            if not holds:
                raise ValueError(f"the log's settings do not fit: {relation}")

    def _relations(self) -> list[tuple[bool, str]]:
        return [
            (self.heartbeat_s > 0, "heartbeat_s > 0"),
            (self.election_min_s > 3 * self.heartbeat_s, "election_min_s > 3 x heartbeat_s"),
            (self.election_max_s > self.election_min_s, "election_max_s > election_min_s"),
            (self.leader_fallback_s > 3 * self.heartbeat_s, "leader_fallback_s > 3 x heartbeat_s"),
            (self.leader_fallback_s <= 3.0, "leader_fallback_s <= 3: a cut-off leader must not keep its role"),
            (self.connection_timeout_s >= self.election_max_s, "connection_timeout_s >= election_max_s"),
            (self.retry_s > self.heartbeat_s, "retry_s > heartbeat_s"),
            (0 < self.apply_slice_s <= self.apply_slice_max_s, "0 < apply_slice_s <= apply_slice_max_s"),
            (self.apply_slice_max_s < self.heartbeat_s, "apply_slice_max_s < heartbeat_s"),
            (0 < self.tick_wait_max_s <= self.election_min_s, "0 < tick_wait_max_s <= election_min_s"),
            (self.command_bytes_max + 1024 <= self.envelope_bytes_max, "a command and its header fit an envelope"),
            (self.envelope_bytes_max < self.append_batch_bytes, "envelope_bytes_max < append_batch_bytes"),
            (self.append_batch_bytes < self.in_flight_bytes_max, "append_batch_bytes < in_flight_bytes_max"),
            (0 < self.group_bytes_max <= self.envelope_bytes_max, "0 < group_bytes_max <= envelope_bytes_max"),
            (0 < self.lane_bytes_min <= self.lane_bytes_max, "0 < lane_bytes_min <= lane_bytes_max"),
            (0 < self.client_target_s <= self.work_target_s, "0 < client_target_s <= work_target_s"),
            (self.appended_bytes_max > 0, "appended_bytes_max > 0"),
            (
                self.command_bytes_max < self.client_waiting_bytes_max <= self.waiting_bytes_max,
                "command_bytes_max < client_waiting_bytes_max <= waiting_bytes_max",
            ),
            (self.envelope_commands_max >= 1, "envelope_commands_max >= 1"),
            (0 < self.proposals_in_flight_max <= self.proposals_pending_max, "in flight <= pending proposals"),
            (min(self.log_keep_bytes, self.log_keep_entries, self.log_trim_entries_max) > 0, "log_keep_... > 0"),
            (
                1 <= self.log_keep_follower_times <= self.log_keep_snapshot_times,
                "1 <= log_keep_follower_times <= log_keep_snapshot_times",
            ),
            (
                0 < self.snapshot_chunk_bytes < self.snapshot_chunk_bytes_max,
                "0 < snapshot_chunk_bytes < snapshot_chunk_bytes_max",
            ),
            (self.snapshot_chunks_in_flight_max > 0, "snapshot_chunks_in_flight_max > 0"),
            (0 < self.snapshot_slice_s < self.heartbeat_s, "0 < snapshot_slice_s < heartbeat_s"),
            (
                self.connection_timeout_s < self.snapshot_idle_s < self.snapshot_life_s,
                "connection_timeout_s < snapshot_idle_s < snapshot_life_s",
            ),
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who this node is. Its store remembers cluster and node and refuses to start as another."""

    node: str
    members: tuple[str, ...]
    """Ids of all voting nodes: this one among them, unless it is a learner."""
    cluster_id: str
    bootstrap: bool = False
    """This node belongs to the cluster's first start. An empty store without it neither votes nor stands, nor
    does it count, until it has caught up with a leader that a majority of the others confirms: under its old id it may
    have promised things that the lost store knew."""
    learner: bool = False
    """This node follows the log and proposes, but neither votes nor stands, nor is it counted: it comes and goes
    without touching the quorum."""

    def validate(self) -> None:
        """Raises ValueError: the node must be a member (a learner must not), ids must be distinct."""
        if self.learner and self.node in self.members:
            raise ValueError(f"node {self.node!r} is to be a learner, but is among the members")
        if not self.learner and self.node not in self.members:
            raise ValueError(f"node {self.node!r} is not among the members {', '.join(self.members)}")
        if self.learner and self.bootstrap:
            raise ValueError("a learner joins a cluster that is there: it does not bootstrap one")
        if not self.members:
            raise ValueError("a cluster has members")
        if len(set(self.members)) != len(self.members):
            raise ValueError("two members carry the same id")
        if not self.cluster_id:
            raise ValueError("the cluster id is empty")

    @property
    def majority(self) -> int:
        return len(self.members) // 2 + 1
