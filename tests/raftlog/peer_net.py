"""Some nodes' links over real loopback sockets, on one selector and one clock that the test moves."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from raftlog.addresses import Address
from raftlog.auth import NONCE_BYTES, Credentials, DialerHandshake, Session
from raftlog.connection import Message
from raftlog.errors import MessageRefused
from raftlog.peers import Peers
from raftlog.wire import FRAME_BYTES_MAX, FrameParser, frame, pack, unpack

SECRET = b"sixteen byte key"
TIMEOUT_S = 4.0
TURNS_MAX = 2000


def note(number: int) -> Message:
    """A message as good as any to tell one from the other."""
    return {"type": "barrier", "id": number}


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Recorder:
    """Stands for the Raft node: writes down what it is told."""

    told: list[tuple[Any, ...]] = field(default_factory=list)
    connections: int = 0

    def peer_connected(self, peer: str) -> int:
        self.connections += 1
        self.told.append(("connected", peer, self.connections))
        return self.connections

    def peer_disconnected(self, peer: str, *, connection: int) -> None:
        self.told.append(("lost", peer, connection))

    def receive(self, peer: str, message: Message, *, connection: int) -> None:
        if "id" not in message:
            raise MessageRefused("a message without an id")
        self.told.append((message["id"], peer, connection))


class Net:
    """Some nodes' links on one selector and one clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.selector = selectors.DefaultSelector()
        self.peers: dict[str, Peers] = {}
        self.nodes: dict[str, Recorder] = {}
        self.sockets: list[socket.socket] = []
        self._nonces = 0

    def nonce(self, size: int) -> bytes:
        self._nonces += 1
        return self._nonces.to_bytes(size, "big")

    def start(self, node: str, others: dict[str, Address], *, port: int = 0, secret: bytes = SECRET) -> Peers:
        self.nodes[node] = Recorder()
        self.peers[node] = Peers(
            credentials=Credentials(node=node, cluster_id="c1", secret=secret),
            listen=Address("127.0.0.1", port),
            addresses=others,
            node=self.nodes[node],
            selector=self.selector,
            clock=self.clock,
            random=lambda: 0.5,
            nonce=self.nonce,
            timeout_s=TIMEOUT_S,
        )
        return self.peers[node]

    def pair(self, **changed: Any) -> tuple[Peers, Peers]:
        """n2, which accepts, and n1, which dials it."""
        accepting = self.start("n2", {"n1": Address("127.0.0.1", 1)})
        return self.start("n1", {"n2": Address("127.0.0.1", accepting.port)}, **changed), accepting

    def address(self, node: str) -> Address:
        return Address("127.0.0.1", self.peers[node].port)

    def turn(self, wait_s: float = 0.0) -> bool:
        """What came, then what time asks for, as a driver does. Whether anything came."""
        events = self.selector.select(wait_s)
        for key, mask in events:
            key.data(mask)
        self.turn_peers()
        return bool(events)

    def turn_peers(self) -> None:
        for peers in self.peers.values():
            peers.turn()

    def run_until(self, condition: Callable[[], bool], *, move_clock: bool = False) -> None:
        """Turn until the condition holds; `move_clock`: when nothing comes for a moment, go to the next deadline."""
        quiet_s = 0.02 if move_clock else 0.005
        for _ in range(TURNS_MAX):
            if condition():
                return
            came = self.turn(quiet_s) or self.turn(quiet_s)  # the second sees what the end of the first has dialled
            if move_clock and not came and not condition():
                self.clock.now_s = max(self.clock.now_s, min(peers.next_turn_s() for peers in self.peers.values()))
                self.turn_peers()
        pytest.fail(f"did not happen; told: { {node: recorder.told for node, recorder in self.nodes.items()} }")

    def settle(self) -> None:
        """Turn until nothing comes any more, on a clock that stands still."""
        while self.turn(wait_s=0.02):
            pass

    def raw(self, node: str) -> socket.socket:
        """A connection of somebody who speaks for himself."""
        sock = socket.create_connection(("127.0.0.1", self.peers[node].port), timeout=5)
        self.sockets.append(sock)
        return sock

    def close(self) -> None:
        for peers in self.peers.values():
            peers.close()
        for sock in self.sockets:
            sock.close()
        self.selector.close()


def is_connection(sock: Any) -> bool:
    try:
        return bool(sock.getpeername())
    except OSError:
        return False


class RawPeer:
    """Speaks the protocol as n1 with n2, byte by byte, so that tests can do what Peers never would."""

    def __init__(self, net: Net, *, secret: bytes = SECRET) -> None:
        self.net = net
        self.sock = net.raw("n2")
        self.parser = FrameParser(FRAME_BYTES_MAX)
        credentials = Credentials(node="n1", cluster_id="c1", secret=secret)
        self.handshake = DialerHandshake(credentials, "n2", net.nonce(NONCE_BYTES))
        self.sent: list[bytes] = []

    def write(self, content: bytes) -> None:
        framed = frame(content, FRAME_BYTES_MAX)
        self.sent.append(framed)
        self.sock.sendall(framed)

    def read(self) -> bytes:
        """The next frame's content; turns the net meanwhile. b'' when the connection is closed."""
        self.sock.settimeout(0.005)
        for _ in range(TURNS_MAX):
            if (content := self.parser.next_frame()) is not None:
                return content
            self.net.turn()
            try:
                data = self.sock.recv(65536)
            except TimeoutError:
                continue
            except ConnectionResetError:
                return b""
            if not data:
                return b""
            self.parser.feed(data)
        pytest.fail("nothing came")

    def begin(self) -> bytes:
        """Say hello; returns the proof that is to be written."""
        self.write(self.handshake.start())
        proof = self.handshake.receive(unpack(self.read()))
        assert proof is not None
        return proof

    def shake_hands(self) -> Session:
        self.write(self.begin())
        return self.finish()

    def finish(self) -> Session:
        self.handshake.receive(unpack(self.read()))
        assert self.handshake.session is not None
        return self.handshake.session

    def send(self, message: Any) -> None:
        assert self.handshake.session is not None
        self.write(self.handshake.session.sealer.seal(pack(message)))

    @property
    def is_closed(self) -> bool:
        return self.read() == b""
