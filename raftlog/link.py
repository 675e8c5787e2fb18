"""What a node knows about one of its peers: where it is, the connection to it, and when to try again."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.addresses import Address
from raftlog.connection import Connection

PING_PERIOD_S = 1.0
"""Two followers have nothing to say to each other; this keeps their connection known to live."""
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0


@dataclass(kw_only=True, slots=True)
class Link:
    """`dials`: this node makes the connection, the peer accepts it."""

    peer: str
    dials: bool
    address: Address | None = None
    """Where to dial it; None for a peer that dials."""
    connection: Connection | None = None
    """Established, or being dialled."""
    epoch: int | None = None
    """The number that the Raft node knows the established connection by; None once the loss has been announced."""
    resolving: bool = False
    attempts: int = 0
    """Dials since the last connection that lasted."""
    dial_at_s: float = 0.0
    failure: str = ""
    """Why the last dial failed: the same reason is not logged twice in a row."""

    @property
    def live(self) -> Connection | None:
        """The connection, if messages can be sent on it."""
        connection = self.connection
        return connection if connection and connection.session and not connection.is_closed else None

    def may_dial(self, now_s: float) -> bool:
        return self.dials and self.connection is None and not self.resolving and now_s >= self.dial_at_s

    def established(self, connection: Connection, epoch: int) -> None:
        self.connection = connection
        self.epoch = epoch
        self.failure = ""

    def failed(self, reason: str, now_s: float, jitter: float, *, lasted_s: float = 0.0) -> None:
        """Try again later: twice as late each time, with jitter (0 to 1) so that two nodes do not keep step. That a
        peer proved itself is no reason to dial faster, if it misbehaved right after (`lasted_s`)."""
        if lasted_s > BACKOFF_MAX_S:
            self.attempts = 0
        self.connection = None
        self.failure = reason
        backoff_s = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** min(self.attempts, 10))
        self.attempts += 1
        self.dial_at_s = now_s + backoff_s * (0.5 + jitter / 2)

    def next_turn_s(self, timeout_s: float) -> float:
        """When this link needs attention though nothing comes in."""
        connection = self.connection
        if connection is None:
            return self.dial_at_s if self.dials and not self.resolving else float("inf")
        dies_at_s = connection.dies_at_s(timeout_s)
        return min(dies_at_s, connection.sent_s + PING_PERIOD_S) if connection.session else dies_at_s
