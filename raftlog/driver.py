"""The loop of the log process: wait, take input, one step, one commit, hand out. Nothing else runs beside it.

Whatever raises in here ends the process (trap 8): the tick's transaction is never committed by half.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Sequence

from raftlog.node import RaftNode
from raftlog.outbox import Outgoing
from raftlog.peers import Peers
from raftlog.server import LogServer
from raftlog.space import SpaceWatch


class Driver:
    """Drives one Raft node between its peers and its node process."""

    def __init__(
        self,
        *,
        node: RaftNode,
        peers: Peers,
        server: LogServer,
        space: SpaceWatch,
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
    ) -> None:
        self._node = node
        self._peers = peers
        self._server = server
        self._space = space
        self._selector = selector
        self._clock = clock

    def run(self) -> str:
        """Until the server says that it is finished, and why. What was stepped then is committed."""
        while self._server.finished is None:
            self.turn()
        return self._server.finished

    def turn(self) -> None:
        """Wait for input or the next deadline, whichever comes first; then one tick (the order is RaftNode's)."""
        for key, mask in self._selector.select(self._wait_s()):
            key.data(mask)
        self._peers.turn()
        self._server.turn()
        ready = self._node.step()
        self._send(ready.immediate)
        self._node.commit()
        self._send(ready.held)
        self._server.deliver(self._space.completed(ready))
        self._send(self._space.turn())
        self._peers.stand_aside(self._space.stands_aside())

    def _wait_s(self) -> float:
        deadline_s = min(self._node.next_deadline(), self._peers.next_turn_s(), self._server.next_turn_s())
        return max(0.0, deadline_s - self._clock())

    def _send(self, messages: Sequence[Outgoing]) -> None:
        """On its way before anything slow happens: what is immediate travels while this node's disk works."""
        for peer, message in messages:
            self._peers.send(peer, message)
        if messages:
            self._peers.flush()
