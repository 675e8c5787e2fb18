"""The links to the other nodes: one connection a peer, the old one closed before the new one counts (hole S14).

Of two nodes the one with the smaller id dials, so two connections between them never compete. Only what comes on a
peer's newest established connection is delivered, under the number that the Raft node gave it: Raft may rely on first
in, first out between two `peer_connected` calls.

Everything runs on the caller's thread: `turn` and the selector's callbacks take input, `send` and `flush` give output.
A connection that fails while sending is announced by the next `turn`, never from within `send`.
"""

from __future__ import annotations

import logging
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from raftlog.addresses import Address, Resolved, Resolver, Target, numeric_target, stream_socket
from raftlog.auth import NODE_ID_LENGTH_MAX, NONCE_BYTES, AcceptorHandshake, Credentials, DialerHandshake
from raftlog.connection import Connection, Message
from raftlog.link import PING_PERIOD_S, Link
from raftlog.listener import Listener
from raftlog.refusals import RefusalLog
from raftlog.wire import FrameTooLarge, WireError

logger = logging.getLogger(__name__)

UNPROVEN_MAX = 32
"""Accepted connections still in their handshake; the oldest gives way."""
LEARNERS_MAX = 256
"""Nodes beside the members that follow the log of this one."""


class PeerInput(Protocol):
    """Who takes what comes from the peers: the Raft node."""

    def peer_connected(self, peer: str) -> int: ...

    def peer_disconnected(self, peer: str, *, connection: int) -> None: ...

    def receive(self, peer: str, message: Message, *, connection: int) -> None:
        """Judges the message before anything of it is used. Raises MessageRefused."""


class Peers:
    """All links of this node. `random` gives [0, 1) for the jitter of reconnects, `nonce` that many fresh random bytes.
    `addresses` are the members'. A node that listens for nobody is a learner: it dials them all.

    A connection that brought nothing, or did not finish its handshake, in `timeout_s` is dead.
    Raises OSError if the address to listen on is taken."""

    def __init__(
        self,
        *,
        credentials: Credentials,
        listen: Address | None,
        addresses: Mapping[str, Address],
        node: PeerInput,
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
        random: Callable[[], float],
        nonce: Callable[[int], bytes],
        timeout_s: float,
    ) -> None:
        self._credentials = credentials
        self._node = node
        self._selector = selector
        self._clock = clock
        self._random = random
        self._nonce = nonce
        self._timeout_s = timeout_s
        self._stopping = False
        self._aside = False
        self._refusals = RefusalLog(logger, clock)
        self._links = {
            peer: Link(peer=peer, address=address, dials=listen is None or credentials.node < peer)
            for peer, address in sorted(addresses.items())
            if peer != credentials.node
        }
        self._members = frozenset(self._links)
        self._unproven: dict[Connection, None] = {}
        self._listeners = [Listener(listen, selector, clock, self._refusals, self._accepted)] if listen else []
        self._resolver = Resolver()
        selector.register(self._resolver.wakeup, selectors.EVENT_READ, self._on_resolved)

    @property
    def port(self) -> int:
        [listener] = self._listeners
        return listener.port

    def connected(self) -> list[str]:
        """The peers that messages can be sent to now."""
        return [peer for peer, link in self._links.items() if link.live]

    # --- output ------------------------------------------------------------------------------------------------------

    def send(self, peer: str, message: Message) -> None:
        """Queue a message for a peer; dropped if there is no connection (Raft sends again)."""
        link = self._links.get(peer)
        if link is None or (connection := link.live) is None:
            return
        try:
            connection.send(message)
        except FrameTooLarge as error:
            logger.error("a %s message to %s was not sent: %s", message.get("type"), peer, error)

    def flush(self) -> None:
        """Put on its way what was queued, as far as the sockets take it."""
        for link in self._links.values():
            if connection := link.live:
                connection.flush()

    # --- input -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """What time asks for: announce losses, drop what is silent, dial. Call it before each step of the Raft node but
        after the selector's callbacks: what was heard while this process stood still counts."""
        now_s = self._clock()
        for link in [*self._links.values()]:
            self._keep_alive(link, now_s)
            self._announce_loss(link)
            if link.may_dial(now_s) and not self._aside:
                self._find_and_dial(link)
        for connection in [*self._unproven]:
            if now_s >= connection.dies_at_s(self._timeout_s):
                connection.close("no handshake in time", refused=True)
        for listener in self._listeners:
            listener.turn(now_s)

    def next_turn_s(self) -> float:
        """When (on the clock) `turn` must be called though nothing comes in."""
        links = [] if self._aside else self._links.values()
        moments = [link.next_turn_s(self._timeout_s) for link in links]
        moments += [connection.dies_at_s(self._timeout_s) for connection in self._unproven]
        moments += [listener.next_turn_s() for listener in self._listeners]
        return min(moments, default=float("inf"))

    def stand_aside(self, aside: bool) -> None:
        """From now on be cut off from all peers, as by the network; or no longer."""
        if aside and not self._aside:
            self._close_all("this node stands aside")
        self._aside = aside

    def close(self) -> None:
        self._stopping = True
        self._close_all("this node stops")
        for listener in self._listeners:
            listener.close()
        self._selector.unregister(self._resolver.wakeup)
        self._resolver.close()

    def _close_all(self, reason: str) -> None:
        for connection in [*self._unproven, *(link.connection for link in self._links.values() if link.connection)]:
            connection.close(reason)

    # --- told by the connections -------------------------------------------------------------------------------------

    def established(self, connection: Connection) -> None:
        assert connection.peer is not None
        link = self._links.setdefault(connection.peer, Link(peer=connection.peer, dials=False))
        self._unproven.pop(connection, None)
        if link.connection is not None and link.connection is not connection:
            link.connection.close("replaced by a newer connection")
        self._announce_loss(link)
        link.established(connection, self._node.peer_connected(link.peer))
        logger.info("connected %s", connection)

    def received(self, connection: Connection, message: Any) -> None:
        assert connection.peer is not None
        link = self._links[connection.peer]
        if type(message) is not dict:
            raise WireError("a message must be a map")
        if link.connection is connection and link.epoch is not None:
            self._node.receive(link.peer, message, connection=link.epoch)

    def closed(self, connection: Connection, reason: str, *, refused: bool) -> None:
        self._unproven.pop(connection, None)
        link = next((link for link in self._links.values() if link.connection is connection), None)
        repeated = link is not None and connection.session is None and reason == link.failure
        if not repeated and not self._stopping:
            self._refusals.warning(f"connection {connection} {'refused' if refused else 'closed'}: {reason}")
        if link is not None:
            lasted_s = self._clock() - connection.opened_s if connection.session else 0.0
            link.failed(reason, self._clock(), self._random(), lasted_s=lasted_s)

    def _announce_loss(self, link: Link) -> None:
        if link.epoch is not None and link.live is None:
            epoch, link.epoch = link.epoch, None
            self._node.peer_disconnected(link.peer, connection=epoch)
            if link.peer not in self._members and link.connection is None:
                del self._links[link.peer]

    def _keep_alive(self, link: Link, now_s: float) -> None:
        connection = link.connection
        if connection is None:
            return
        if now_s >= connection.dies_at_s(self._timeout_s):
            connection.close(
                f"nothing heard for {self._timeout_s:g} s" if connection.session else "no handshake in time"
            )
        elif connection.session and now_s - connection.sent_s >= PING_PERIOD_S:
            connection.ping()
            connection.flush()

    # --- making connections ------------------------------------------------------------------------------------------

    def _find_and_dial(self, link: Link) -> None:
        assert link.address is not None, "who dials knows where to"
        if target := numeric_target(link.address):
            self._dial(link, target)
        else:
            link.resolving = True
            self._resolver.request(link.peer, link.address)

    def _on_resolved(self, mask: int) -> None:
        for resolved in self._resolver.take():
            self._resolved(self._links[resolved.peer], resolved)

    def _resolved(self, link: Link, resolved: Resolved) -> None:
        link.resolving = False
        if resolved.targets and not self._aside:
            self._dial(link, resolved.targets[link.attempts % len(resolved.targets)])
        else:
            self._not_dialled(link, resolved.failure)

    def _dial(self, link: Link, target: Target) -> None:
        """Whatever becomes of the connect shows when the socket turns writable."""
        try:
            sock = stream_socket(target.family)
        except OSError as error:
            self._not_dialled(link, str(error.strerror))
            return
        sock.connect_ex(target.address)
        handshake = DialerHandshake(self._credentials, link.peer, self._nonce(NONCE_BYTES))
        link.connection = Connection(sock, self._selector, handshake, self, self._clock, remote=str(link.address))

    def _not_dialled(self, link: Link, reason: str) -> None:
        if reason != link.failure:
            self._refusals.warning(f"cannot dial {link.peer}: {reason}")
        link.failed(reason, self._clock(), self._random())

    def _may_dial(self, node: str) -> bool:
        """Of two members one dials; whoever else knows the secret is a learner."""
        if node in self._members:
            return not self._links[node].dials
        learners = self._links.keys() - self._members
        is_another = 0 < len(node) <= NODE_ID_LENGTH_MAX and node != self._credentials.node
        return is_another and (node in learners or len(learners) < LEARNERS_MAX)

    def _accepted(self, sock: socket.socket, host: str) -> None:
        if self._aside:
            sock.close()
            return
        handshake = AcceptorHandshake(self._credentials, self._may_dial, self._nonce(NONCE_BYTES))
        self._unproven[Connection(sock, self._selector, handshake, self, self._clock, remote=host)] = None
        if len(self._unproven) > UNPROVEN_MAX:
            next(iter(self._unproven)).close("too many connections without a handshake", refused=True)
