"""Links between nodes over real loopback sockets, on a clock of the tests' own: nothing here waits for time."""

from __future__ import annotations

import itertools
import select
import selectors
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from raftlog import connection as connection_module
from raftlog.addresses import Address
from raftlog.connection import Message
from raftlog.link import BACKOFF_MAX_S, PING_PERIOD_S
from raftlog.listener import ACCEPT_PAUSE_S
from raftlog.wire import FRAME_BYTES_MAX, frame, pack, unpack
from tests.raftlog.peer_net import TIMEOUT_S, TURNS_MAX, Net, RawPeer, is_connection, note


@pytest.fixture
def net() -> Iterator[Net]:
    net = Net()
    yield net
    net.close()


def test_messages_pass_both_ways_in_order(net: Net) -> None:
    one, two = net.pair()
    net.run_until(lambda: one.connected() == ["n2"] and two.connected() == ["n1"])
    for number in range(100):
        one.send("n2", note(number))
        two.send("n1", note(1000 + number))
    one.flush()
    two.flush()
    net.run_until(lambda: len(net.nodes["n1"].told) == len(net.nodes["n2"].told) == 101)
    assert net.nodes["n2"].told == [("connected", "n1", 1), *[(number, "n1", 1) for number in range(100)]]
    assert net.nodes["n1"].told == [("connected", "n2", 1), *[(1000 + number, "n2", 1) for number in range(100)]]


def test_a_message_of_megabytes_passes(net: Net) -> None:
    one, two = net.pair()
    net.run_until(lambda: bool(one.connected() and two.connected()))
    big = {"type": "propose", "envelope": bytes(3 * 1024 * 1024)}
    received: list[Message] = []
    net.nodes["n2"].receive = lambda peer, message, *, connection: received.append(message)  # type: ignore[method-assign]
    for _ in range(4):
        one.send("n2", big)
    one.flush()
    net.run_until(lambda: len(received) == 4)
    assert received == [big] * 4


def test_a_message_that_can_never_be_sent_is_left_out_and_those_around_it_arrive(net: Net) -> None:
    one, two = net.pair()
    net.run_until(lambda: bool(one.connected() and two.connected()))
    one.send("n2", note(1))
    one.send("n2", {"type": "propose", "envelope": bytes(FRAME_BYTES_MAX)})
    one.send("n2", note(2))
    one.flush()
    net.run_until(lambda: len(net.nodes["n2"].told) == 3)
    assert net.nodes["n2"].told[1:] == [(1, "n1", 1), (2, "n1", 1)]


def test_messages_without_a_connection_are_dropped(net: Net) -> None:
    one, two = net.pair()
    one.send("n2", note(1))
    one.send("nobody", note(2))
    one.flush()
    net.run_until(lambda: bool(one.connected() and two.connected()))
    net.settle()
    assert net.nodes["n2"].told == [("connected", "n1", 1)]


class TestOneConnectionAPeer:
    """S14: after a reconnect nothing of the old connection is delivered any more."""

    def test_what_the_old_connection_still_holds_is_not_delivered_after_the_new_one(self, net: Net) -> None:
        net.start("n2", {"n1": Address("127.0.0.1", 1)})
        old = RawPeer(net)
        old.shake_hands()
        old.send(note(1))
        net.run_until(lambda: len(net.nodes["n2"].told) == 2)

        new = RawPeer(net)
        proof = new.begin()
        old.send(note(2))
        new.write(proof)
        self.take_newest_first(net, {old.sock.getsockname(): 1, new.sock.getsockname(): 0})
        new.finish()
        new.send(note(3))
        net.run_until(lambda: net.nodes["n2"].told[-1][0] == 3)
        assert net.nodes["n2"].told == [
            ("connected", "n1", 1),
            (1, "n1", 1),
            ("lost", "n1", 1),
            ("connected", "n1", 2),
            (3, "n1", 2),
        ]
        assert old.is_closed

    def take_newest_first(self, net: Net, order: dict[Any, int]) -> None:
        """Both sockets are readable in one batch of the selector, and the new connection's turn comes first."""
        connections = [key for key in net.selector.get_map().values() if is_connection(key.fileobj)]
        keys = {key.fileobj.getpeername(): key for key in connections}  # type: ignore[union-attr]
        assert set(keys) == set(order)
        for key in keys.values():
            assert select.select([key.fileobj], [], [], 5)[0]
        for name in sorted(order, key=lambda name: order[name]):
            keys[name].data(selectors.EVENT_READ)

    def test_a_frame_read_in_one_piece_with_the_goodbye_is_delivered_before_the_loss(self, net: Net) -> None:
        net.start("n2", {"n1": Address("127.0.0.1", 1)})
        peer = RawPeer(net)
        peer.shake_hands()
        peer.send(note(1))
        peer.sock.close()
        net.run_until(lambda: len(net.nodes["n2"].told) == 3)
        assert net.nodes["n2"].told == [("connected", "n1", 1), (1, "n1", 1), ("lost", "n1", 1)]

    def test_a_restarted_dialer_replaces_its_old_connection(self, net: Net) -> None:
        one, two = net.pair()
        net.run_until(lambda: bool(one.connected() and two.connected()))
        address = net.address("n2")
        stale = net.peers.pop("n1")  # stands still, with its socket open, as a partitioned or stopped node does
        again = net.start("n1", {"n2": address})
        net.run_until(lambda: bool(again.connected()))
        net.peers["stale"] = stale
        net.run_until(lambda: len(net.nodes["n2"].told) == 3)
        assert net.nodes["n2"].told == [("connected", "n1", 1), ("lost", "n1", 1), ("connected", "n1", 2)]


class TestReconnect:
    def test_a_peer_that_comes_back_is_found_again(self, net: Net) -> None:
        one, two = net.pair()
        net.run_until(lambda: bool(one.connected() and two.connected()))
        address = net.address("n2")
        net.peers.pop("n2").close()
        net.run_until(lambda: net.nodes["n1"].told[-1][0] == "lost")
        net.start("n2", {"n1": Address("127.0.0.1", 1)}, port=address.port)
        net.run_until(lambda: bool(one.connected()), move_clock=True)
        assert net.nodes["n1"].told == [("connected", "n2", 1), ("lost", "n2", 1), ("connected", "n2", 2)]

    def test_dials_come_ever_later_up_to_a_bound_and_one_line_is_logged(
        self, net: Net, caplog: pytest.LogCaptureFixture
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            port = reserved.getsockname()[1]
        one = net.start("n1", {"n2": Address("127.0.0.1", port)})
        link = one._links["n2"]
        pauses = []
        for attempt in range(10):
            net.run_until(lambda attempt=attempt: link.attempts == attempt + 1, move_clock=True)  # type: ignore[misc]
            pauses.append(link.dial_at_s - net.clock())
        assert pauses[0] < 0.05
        for earlier, later in itertools.pairwise(pauses):
            assert later == pytest.approx(min(2 * earlier, 0.75 * BACKOFF_MAX_S))
        assert len(caplog.messages) == 1
        assert "Connection refused" in caplog.messages[0]

    def test_a_name_is_resolved_on_the_way(self, net: Net) -> None:
        """(dkron#1001)"""
        two = net.start("n2", {"n1": Address("127.0.0.1", 1)})
        one = net.start("n1", {"n2": Address("localhost", two.port)})
        net.run_until(lambda: bool(one.connected()))

    def test_a_name_that_nobody_knows_is_tried_on(self, net: Net, caplog: pytest.LogCaptureFixture) -> None:
        one = net.start("n1", {"n2": Address("a" * 64 + ".invalid", 1)})
        net.run_until(lambda: one._links["n2"].attempts == 3, move_clock=True)
        assert len(caplog.messages) == 1
        assert "no address for" in caplog.messages[0]

    def test_without_file_descriptors_dialling_is_tried_on(self, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
        one, _ = net.pair()

        def no_socket(family: int) -> socket.socket:
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr("raftlog.peers.stream_socket", no_socket)
            net.run_until(lambda: one._links["n2"].attempts == 2, move_clock=True)
        net.run_until(lambda: bool(one.connected()), move_clock=True)


class TestSilence:
    def test_pings_keep_two_peers_with_nothing_to_say_connected(self, net: Net) -> None:
        one, two = net.pair()
        net.run_until(lambda: bool(one.connected() and two.connected()))
        until_s = net.clock() + 10 * TIMEOUT_S
        net.run_until(lambda: net.clock() > until_s, move_clock=True)
        assert net.nodes["n1"].told == [("connected", "n2", 1)]
        assert net.nodes["n2"].told == [("connected", "n1", 1)]

    def test_a_silent_peer_is_given_up_at_the_timeout(self, net: Net) -> None:
        one, two = net.pair()
        net.run_until(lambda: bool(one.connected() and two.connected()))
        net.peers.pop("n2")
        net.settle()
        heard_s = net.clock()
        while net.nodes["n1"].told[-1][0] != "lost":
            net.turn()
            net.clock.now_s += PING_PERIOD_S / 4
            assert net.clock() <= heard_s + TIMEOUT_S + PING_PERIOD_S
        assert net.clock() >= heard_s + TIMEOUT_S
        two.close()

    def test_what_was_sent_while_this_process_stood_still_is_heard_before_the_timeout_is_judged(self, net: Net) -> None:
        net.start("n2", {"n1": Address("127.0.0.1", 1)})
        peer = RawPeer(net)
        peer.shake_hands()
        peer.send(note(1))
        net.clock.now_s += 3 * TIMEOUT_S
        net.run_until(lambda: len(net.nodes["n2"].told) > 1)
        assert net.nodes["n2"].told == [("connected", "n1", 1), (1, "n1", 1)]

    def test_a_stranger_who_says_nothing_is_closed_at_the_timeout(self, net: Net) -> None:
        two = net.start("n2", {"n1": Address("127.0.0.1", 1)})
        net.raw("n2")
        net.run_until(lambda: len(two._unproven) == 1)
        net.run_until(lambda: not two._unproven, move_clock=True)

    def test_a_stranger_who_dribbles_is_closed_at_the_timeout_too(self, net: Net) -> None:
        two = net.start("n2", {"n1": Address("127.0.0.1", 1)})
        sock = net.raw("n2")
        net.run_until(lambda: len(two._unproven) == 1)
        for _ in range(5):
            sock.sendall(b"\0")
            net.settle()
            net.clock.now_s += TIMEOUT_S / 5
        net.settle()
        assert not two._unproven

    def test_a_peer_that_does_not_answer_the_dial_is_given_up(self, net: Net) -> None:
        deaf = socket.create_server(("127.0.0.1", 0))
        net.sockets.append(deaf)
        one = net.start("n1", {"n2": Address("127.0.0.1", deaf.getsockname()[1])})
        net.run_until(lambda: one._links["n2"].attempts == 2, move_clock=True)
        assert net.nodes["n1"].told == []

    def test_an_acceptor_that_dribbles_does_not_keep_the_dialer_waiting(self, net: Net) -> None:
        dribbling = socket.create_server(("127.0.0.1", 0))
        net.sockets.append(dribbling)
        one = net.start("n1", {"n2": Address("127.0.0.1", dribbling.getsockname()[1])})
        net.run_until(lambda: one._links["n2"].connection is not None)
        accepted, _ = dribbling.accept()
        net.sockets.append(accepted)
        for _ in range(5):
            accepted.sendall(b"\0")
            net.settle()
            net.clock.now_s += TIMEOUT_S / 5
        net.settle()
        assert one._links["n2"].attempts == 1

    def test_a_frame_that_arrives_slowly_keeps_a_connection_alive(self, net: Net) -> None:
        net.start("n2", {"n1": Address("127.0.0.1", 1)})
        peer = RawPeer(net)
        sealed = peer.shake_hands().sealer.seal(pack(note(1)))
        link = net.peers["n2"]._links["n1"]
        for byte in frame(sealed, FRAME_BYTES_MAX):
            net.clock.now_s += 0.6 * TIMEOUT_S
            peer.sock.sendall(bytes([byte]))
            net.run_until(lambda: link.next_turn_s(0.0) == net.clock())
        assert net.nodes["n2"].told == [("connected", "n1", 1), (1, "n1", 1)]


class TestOverflow:
    def test_a_peer_that_does_not_read_loses_its_connection_and_the_loss_is_told_by_the_next_turn(
        self, net: Net, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_module, "OUTGOING_BYTES_MAX", 100_000)
        two = net.start("n2", {"n1": Address("127.0.0.1", 1)})
        RawPeer(net).shake_hands()
        message = {"type": "propose", "envelope": bytes(30_000)}
        for _ in range(TURNS_MAX):
            two.send("n1", message)
            two.flush()
            if not two.connected():
                break
        assert not two.connected()
        assert net.nodes["n2"].told == [("connected", "n1", 1)]
        two.turn()
        assert net.nodes["n2"].told == [("connected", "n1", 1), ("lost", "n1", 1)]

    def test_a_slow_reader_gets_everything_in_order(self, net: Net) -> None:
        two = net.start("n2", {"n1": Address("127.0.0.1", 1)})
        peer = RawPeer(net)
        session = peer.shake_hands()
        for number in range(300):
            two.send("n1", {**note(number), "envelope": bytes(20_000)})
        two.flush()
        assert two._links["n1"].live is not None
        assert two._links["n1"].live.outgoing_bytes > 0
        seen = [unpack(session.opener.open(peer.read()))["id"] for _ in range(300)]
        assert seen == list(range(300))
        assert two._links["n1"].live.outgoing_bytes == 0


def test_another_node_at_a_peers_address_is_not_taken_for_it(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    three = net.start("n3", {"n1": Address("127.0.0.1", 1)})
    one = net.start("n1", {"n2": Address("127.0.0.1", three.port)})
    net.run_until(lambda: one._links["n2"].attempts >= 2, move_clock=True)
    assert net.nodes["n1"].told == []
    assert net.nodes["n3"].told == []
    assert "looks for node 'n2'" in caplog.text


def test_two_nodes_with_different_secrets_never_connect(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    one, _ = net.pair(secret=b"another secret!!")
    net.run_until(lambda: one._links["n2"].attempts >= 3, move_clock=True)
    assert net.nodes["n1"].told == []
    assert net.nodes["n2"].told == []


def test_when_accepting_fails_it_pauses_and_goes_on(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = net.pair()

    class Exhausted:
        def __init__(self, sock: socket.socket) -> None:
            self.sock = sock
            self.calls = 0

        def accept(self) -> Any:
            self.calls += 1
            raise OSError(24, "Too many open files")

    listener = two._listeners[0]
    exhausted = Exhausted(listener._sock)
    with monkeypatch.context() as patched:
        patched.setattr(listener, "_sock", exhausted)
        patched.setattr(net.selector, "unregister", lambda sock: None)
        listener._on_ready(selectors.EVENT_READ)
    net.selector.unregister(listener._sock)
    assert listener.next_turn_s() == net.clock() + ACCEPT_PAUSE_S
    assert exhausted.calls == 1
    net.run_until(lambda: bool(one.connected() and two.connected()), move_clock=True)
    assert listener.next_turn_s() == float("inf")


@pytest.mark.parametrize("aside", ["n1", "n2"], ids=["the one that dials", "the one that accepts"])
def test_who_stands_aside_is_cut_off_until_it_comes_back(net: Net, aside: str) -> None:
    net.pair()
    net.run_until(lambda: bool(net.peers["n1"].connected() and net.peers["n2"].connected()))
    net.peers[aside].stand_aside(True)
    net.run_until(lambda: all(told.told[-1][0] == "lost" for told in net.nodes.values()))
    for _ in range(20):
        net.clock.now_s += 1.0
        net.settle()
        net.peers[aside].stand_aside(True)
        assert not (net.peers["n1"].connected() or net.peers["n2"].connected())
        assert net.peers[aside].next_turn_s() > net.clock.now_s, "it does not spin"
    net.peers[aside].stand_aside(False)
    net.run_until(lambda: bool(net.peers["n1"].connected() and net.peers["n2"].connected()), move_clock=True)


def test_an_address_in_use_is_said_at_once(net: Net) -> None:
    two = net.start("n2", {})
    with pytest.raises(OSError, match="in use"):
        net.start("n3", {}, port=two.port)
    del net.peers["n2"]
    two.close()
