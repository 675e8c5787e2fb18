"""N22 against the links of a node: garbage, oversized and replayed frames, wrong secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftlog.addresses import Address
from raftlog.peers import UNPROVEN_MAX
from raftlog.wire import FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX, frame, pack
from tests.raftlog.peer_net import Net, RawPeer, note


@pytest.fixture
def net() -> Iterator[Net]:
    net = Net()
    yield net
    net.close()


class TestHostile:
    """Each ends in a closed connection and a line in the log; the peers that are there do not notice."""

    @pytest.fixture
    def honest(self, net: Net) -> Iterator[Callable[[], None]]:
        """n0 and n2 are connected; n1 may dial n2 too. The returned check says that they still are."""
        two = net.start("n2", {"n1": Address("127.0.0.1", 1), "n0": Address("127.0.0.1", 1)})
        one = net.start("n0", {"n2": Address("127.0.0.1", two.port)})
        net.run_until(lambda: bool(one.connected() and two.connected()))

        def check() -> None:
            one.send("n2", note(99))
            one.flush()
            net.run_until(lambda: net.nodes["n2"].told[-1] == (99, "n0", 1))
            assert net.nodes["n0"].told == [("connected", "n2", 1)]

        yield check
        check()

    @pytest.mark.parametrize(
        "garbage",
        [
            b"GET / HTTP/1.1\r\nHost: n2\r\n\r\n",
            b"\xff" * 4,
            (HANDSHAKE_FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
            frame(b"\xc1\xff\xfe", 100),
            frame(pack({"type": "request_vote", "term": 10**6}), 100),
            frame(pack([b"x"] * 10), 100),
            frame(b"", 100),
            frame(b"\x80\x05\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.", 100),
        ],
        ids=["http", "length", "oversized", "no msgpack", "a vote", "a list", "empty", "pickle"],
    )
    def test_garbage_before_the_handshake(
        self, net: Net, honest: Callable[[], None], garbage: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        sock = net.raw("n2")
        sock.sendall(garbage)
        net.run_until(lambda: bool(caplog.messages))
        assert "stranger" in caplog.text
        assert "Traceback" not in caplog.text
        sock.settimeout(5)
        assert sock.recv(100) == b""

    def test_a_wrong_secret(self, net: Net, honest: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        peer = RawPeer(net, secret=b"another secret!!")
        peer.write(peer.begin())
        assert peer.is_closed
        assert "does not know the cluster secret" in caplog.text
        assert "sixteen" not in caplog.text

    @pytest.mark.parametrize(
        "message",
        [
            ["no", "map"],
            "text",
            None,
            {"type": "a message that the node refuses"},
        ],
    )
    def test_a_proven_peer_with_a_message_of_another_shape(
        self, net: Net, honest: Callable[[], None], message: Any
    ) -> None:
        peer = RawPeer(net)
        peer.shake_hands()
        peer.send(message)
        assert peer.is_closed
        net.turn_peers()
        assert net.nodes["n2"].told[-2:] == [("connected", "n1", 2), ("lost", "n1", 2)]

    def test_a_replayed_frame(self, net: Net, honest: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
        peer = RawPeer(net)
        peer.shake_hands()
        peer.send(note(1))
        peer.sock.sendall(peer.sent[-1])
        assert peer.is_closed
        net.turn_peers()
        assert net.nodes["n2"].told[-3:] == [("connected", "n1", 2), (1, "n1", 2), ("lost", "n1", 2)]
        assert "not authentic" in caplog.text

    def test_a_whole_recorded_conversation(
        self, net: Net, honest: Callable[[], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        peer = RawPeer(net)
        peer.shake_hands()
        peer.send(note(1))
        net.run_until(lambda: net.nodes["n2"].told[-1][0] == 1)
        told = len(net.nodes["n2"].told)
        thief = net.raw("n2")
        for framed in peer.sent:
            thief.sendall(framed)
        net.run_until(lambda: "does not know the cluster secret" in caplog.text)
        assert len(net.nodes["n2"].told) == told
        assert "n1" in net.peers["n2"].connected()

    def test_an_oversized_frame_of_a_proven_peer(self, net: Net, honest: Callable[[], None]) -> None:
        peer = RawPeer(net)
        peer.shake_hands()
        peer.sock.sendall((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
        assert peer.is_closed

    def test_a_flood_of_connections_costs_a_bounded_number(
        self, net: Net, honest: Callable[[], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(UNPROVEN_MAX + 10):
            net.raw("n2")
        net.run_until(lambda: len(caplog.messages) == 10)
        assert len(net.peers["n2"]._unproven) == UNPROVEN_MAX
        peer = RawPeer(net)
        peer.shake_hands()
