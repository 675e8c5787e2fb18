"""The log process' local socket: one client, well-formed requests, committed answers only."""

from __future__ import annotations

import selectors
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sample_status import STATUS

from raftlog import local_protocol as local
from raftlog.barriers import BarrierPassed
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.interface import LogStatus, Proposal, Role
from raftlog.proposals import Result
from raftlog.ready import AppliedEvents, Ready
from raftlog.server import CLIENT_WAIT_S, LogServer
from raftlog.service import CLIENT_SILENCE_S, STATUS_PERIOD_S
from raftlog.unix_socket import short_address
from raftlog.wire import LOCAL_FRAME_BYTES_MAX, FrameParser, frame, pack, unpack


@dataclass
class FakeNode:
    incarnation: int = 7
    status: LogStatus = STATUS
    asked: list[Any] = field(default_factory=list)
    refusal: Exception | None = None

    def propose(self, proposal: Proposal) -> None:
        if self.refusal:
            raise self.refusal
        self.asked.append(proposal)

    def cancel(self, *, incarnation: int, seq: int) -> None:
        self.asked.append(("cancel", incarnation, seq))

    def barrier(self, barrier_id: int) -> None:
        if self.refusal:
            raise self.refusal
        self.asked.append(("barrier", barrier_id))

    def transfer(self, peer: str | None = None) -> None:
        self.asked.append(("transfer", peer))


class Setup:
    def __init__(self, path: Path) -> None:
        self.now_s = 50.0
        self.node = FakeNode()
        self.selector = selectors.DefaultSelector()
        self.path = path
        self.server = LogServer(path, node=self.node, selector=self.selector, clock=lambda: self.now_s)
        self.sockets: list[socket.socket] = []
        self.parser = FrameParser(LOCAL_FRAME_BYTES_MAX)

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        self.sockets.append(sock)
        sock.settimeout(5)
        with short_address(self.path) as address:
            sock.connect(address)
        self.turn()
        return sock

    def greeted(self) -> socket.socket:
        sock = self.connect()
        self.say(sock, local.HELLO, local.VERSION)
        assert self.hear(sock)[0] == local.HELLO
        return sock

    def turn(self) -> None:
        """Unix sockets deliver at once: what was written is there."""
        while events := self.selector.select(0):
            for key, mask in events:
                key.data(mask)

    def say(self, sock: socket.socket, *message: Any) -> None:
        sock.sendall(frame(pack(message), LOCAL_FRAME_BYTES_MAX))
        self.turn()

    def hear(self, sock: socket.socket) -> list[Any]:
        while (content := self.parser.next_frame()) is None:
            data = sock.recv(65536)
            assert data, "closed"
            self.parser.feed(data)
        message: list[Any] = unpack(content)
        return message

    def is_silent(self, sock: socket.socket) -> bool:
        sock.setblocking(False)
        try:
            return sock.recv(1) == b"never"
        except BlockingIOError:
            return True
        finally:
            sock.settimeout(5)

    def close(self) -> None:
        self.server.close()
        for sock in self.sockets:
            sock.close()
        self.selector.close()


def ready(**changed: Any) -> Ready:
    nothing: dict[str, Any] = {"immediate": [], "held": [], "results": [], "barriers": [], "events": []}
    return Ready(**{**nothing, "status": STATUS, "status_changed": False, **changed})


@pytest.fixture(params=["short", "long"])
def setup(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Setup]:
    directory = tmp_path / ("d" * 120 if request.param == "long" else "d")
    directory.mkdir()
    made = Setup(directory / local.SOCKET_NAME)
    yield made
    made.close()
    assert not made.path.exists()


def test_the_socket_file_is_its_owners_only(setup: Setup) -> None:
    assert stat.S_IMODE(setup.path.stat().st_mode) == 0o600


def test_a_hello_is_answered_with_incarnation_and_status(setup: Setup) -> None:
    sock = setup.connect()
    setup.say(sock, local.HELLO, local.VERSION)
    kind, version, incarnation, status = setup.hear(sock)
    assert (kind, version, incarnation) == (local.HELLO, local.VERSION, 7)
    assert local.status_from(status) == STATUS


def test_a_proposal_goes_to_the_node_under_its_name_and_its_reply_comes_back(setup: Setup) -> None:
    sock = setup.greeted()
    setup.say(sock, local.PROPOSE, 5, 3, [b"a", b"b"])
    assert setup.node.asked == [
        Proposal(node="n1", incarnation=7, seq=5, acknowledged=3, commands=[b"a", b"b"]),
    ]
    setup.server.deliver(ready(results=[Result(7, 5, (b"A", b"B"))]))
    assert setup.hear(sock) == [local.REPLY, 5, [b"A", b"B"]]


def test_a_result_of_an_earlier_life_is_nobodys(setup: Setup) -> None:
    sock = setup.greeted()
    setup.server.deliver(ready(results=[Result(6, 5, (b"A",)), Result(7, 6, (b"B",))]))
    assert setup.hear(sock) == [local.REPLY, 6, [b"B"]]


@pytest.mark.parametrize("refusal", [LogOverloaded("full"), CommandTooLarge("large")])
def test_a_proposal_that_the_node_refuses_is_refused_by_name(setup: Setup, refusal: Exception) -> None:
    sock = setup.greeted()
    setup.node.refusal = refusal
    setup.say(sock, local.PROPOSE, 5, 3, [b"a"])
    setup.server.deliver(ready())
    assert setup.hear(sock) == [local.REFUSED, 5, type(refusal).__name__, str(refusal)]


def test_barriers_are_asked_and_answered_or_refused(setup: Setup) -> None:
    sock = setup.greeted()
    setup.say(sock, local.BARRIER, 1)
    assert setup.node.asked == [("barrier", 1)]
    setup.server.deliver(ready(barriers=[BarrierPassed(1, 42)]))
    assert setup.hear(sock) == [local.BARRIER, 1, 42]
    setup.node.refusal = LogOverloaded("full")
    setup.say(sock, local.BARRIER, 2)
    setup.server.deliver(ready())
    assert setup.hear(sock) == [local.NO_BARRIER, 2]


def test_a_cancelled_proposal_is_cancelled_in_the_node(setup: Setup) -> None:
    setup.say(setup.greeted(), local.CANCEL, 5)
    assert setup.node.asked == [("cancel", 7, 5)]


def test_a_transfer_goes_to_the_node_with_or_without_a_name(setup: Setup) -> None:
    client = setup.greeted()
    setup.say(client, local.TRANSFER, "n2")
    setup.say(client, local.TRANSFER, "")
    assert setup.node.asked == [("transfer", "n2"), ("transfer", None)]


def test_only_subscribed_topics_are_told(setup: Setup) -> None:
    sock = setup.greeted()
    setup.say(sock, local.SUBSCRIBE, "n1")
    events = [AppliedEvents(8, "n2", [b"x"]), AppliedEvents(8, "n1", [b"y", b"z"]), AppliedEvents(9, "*", [b"w"])]
    setup.server.deliver(ready(events=events))
    assert setup.hear(sock) == [local.EVENTS, 8, "n1", [b"y", b"z"]]
    assert setup.is_silent(sock)


class TestStatus:
    def test_a_change_is_told_at_once(self, setup: Setup) -> None:
        sock = setup.greeted()
        changed = replace(STATUS, role=Role.FOLLOWER, leader=None, quorum=False)
        setup.server.deliver(ready(status=changed, status_changed=True))
        kind, content = setup.hear(sock)
        assert kind == local.STATUS
        assert local.status_from(content) == changed

    def test_indices_are_sampled(self, setup: Setup) -> None:
        sock = setup.greeted()
        moved = replace(STATUS, applied_index=10)
        setup.server.deliver(ready(status=moved))
        assert setup.is_silent(sock)
        setup.now_s += STATUS_PERIOD_S
        setup.server.deliver(ready(status=moved))
        assert local.status_from(setup.hear(sock)[1]) == moved

    def test_nothing_new_is_not_told(self, setup: Setup) -> None:
        sock = setup.greeted()
        setup.now_s += 10 * STATUS_PERIOD_S
        setup.server.deliver(ready())
        assert setup.is_silent(sock)


class TestASilentClient:
    def test_a_leader_whose_client_hangs_hands_over(self, setup: Setup) -> None:
        """The cluster's duties are done by the client of the leader: while it hangs, nobody's session would end."""
        setup.greeted()
        setup.now_s += CLIENT_SILENCE_S - 0.01
        setup.server.deliver(ready())
        assert setup.node.asked == []
        setup.now_s += 0.01
        setup.server.deliver(ready())
        setup.server.deliver(ready())
        assert setup.node.asked == [("transfer", None)]

    def test_it_is_tried_again_while_nobody_takes_over(self, setup: Setup) -> None:
        setup.greeted()
        for _ in range(2):
            setup.now_s += CLIENT_SILENCE_S
            setup.server.deliver(ready())
        assert setup.node.asked == [("transfer", None)] * 2

    def test_whoever_asks_for_something_leads_on(self, setup: Setup) -> None:
        client = setup.greeted()
        setup.now_s += CLIENT_SILENCE_S
        setup.say(client, local.CANCEL, 1)
        setup.server.deliver(ready())
        assert setup.node.asked == [("cancel", 7, 1)]

    def test_whoever_waited_for_a_leader_to_be_asked_is_not_silent(self, setup: Setup) -> None:
        """Without a majority nothing is answered, and readers share the one barrier that waits: a node that is elected
        then would hand over at once (simulator seed 642)."""
        client = setup.greeted()
        setup.server.deliver(ready(status=replace(STATUS, role=Role.FOLLOWER)))
        setup.say(client, local.BARRIER, 1)
        setup.now_s += 10 * CLIENT_SILENCE_S
        setup.server.deliver(ready())
        setup.now_s += CLIENT_SILENCE_S - 0.01
        setup.server.deliver(ready())
        assert setup.node.asked == [("barrier", 1)]
        setup.now_s += 0.01
        setup.server.deliver(ready())
        assert setup.node.asked == [("barrier", 1), ("transfer", None)]

    def test_a_follower_has_nothing_to_hand_over(self, setup: Setup) -> None:
        setup.greeted()
        setup.now_s += 10 * CLIENT_SILENCE_S
        setup.server.deliver(ready(status=replace(STATUS, role=Role.FOLLOWER)))
        assert setup.node.asked == []


class TestTheEnd:
    def test_the_client_going_away_ends_the_server(self, setup: Setup) -> None:
        sock = setup.greeted()
        assert setup.server.finished is None
        sock.close()
        setup.turn()
        assert "the node process has gone" in str(setup.server.finished)
        setup.server.deliver(ready(results=[Result(7, 5, (b"A",))]))

    def test_nobody_coming_ends_it_too(self, setup: Setup) -> None:
        setup.now_s = setup.server.next_turn_s() - 0.001
        setup.server.turn()
        assert setup.server.finished is None
        setup.now_s = setup.server.next_turn_s()
        setup.server.turn()
        assert f"{CLIENT_WAIT_S:g} s" in str(setup.server.finished)

    def test_a_client_that_came_may_be_silent_for_ever(self, setup: Setup) -> None:
        setup.connect()
        assert setup.server.next_turn_s() == float("inf")
        setup.now_s += 10 * CLIENT_WAIT_S
        setup.server.turn()
        assert setup.server.finished is None

    def test_a_second_client_is_refused_and_the_first_does_not_notice(
        self, setup: Setup, caplog: pytest.LogCaptureFixture
    ) -> None:
        first = setup.greeted()
        second = setup.connect()
        assert second.recv(1) == b""
        assert "second client" in caplog.text
        setup.server.deliver(ready(results=[Result(7, 5, (b"A",))]))
        assert setup.hear(first) == [local.REPLY, 5, [b"A"]]

    @pytest.mark.parametrize(
        "message",
        [
            (local.HELLO, local.VERSION),
            ("unknown",),
            (local.PROPOSE, 5, 3),
            (local.PROPOSE, 5, 3, "commands"),
            (local.PROPOSE, 5, 3, ["text"]),
            (local.BARRIER, None),
            (),
            (5,),
        ],
    )
    def test_what_is_no_request_ends_it(self, setup: Setup, message: tuple[Any, ...]) -> None:
        sock = setup.greeted()
        setup.say(sock, *message)
        assert setup.server.finished is not None
        assert setup.node.asked == []

    @pytest.mark.parametrize("message", [(local.HELLO, local.VERSION + 1), (local.BARRIER, 1)])
    def test_a_bad_greeting_ends_it(self, setup: Setup, message: tuple[Any, ...]) -> None:
        setup.say(setup.connect(), *message)
        assert setup.server.finished is not None

    def test_a_client_that_does_not_read_ends_it(self, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftlog.server.OUTGOING_BYTES_MAX", 1_000_000)
        setup.greeted()
        for seq in range(100):
            setup.server.deliver(ready(results=[Result(7, seq, (bytes(100_000),))]))
        assert "wait to be sent" in str(setup.server.finished)


def test_a_socket_file_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / local.SOCKET_NAME
    path.write_text("left behind")
    setup = Setup(path)
    setup.greeted()
    setup.close()


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Setup(tmp_path / "missing" / local.SOCKET_NAME)


def test_nothing_is_told_before_the_greeting(setup: Setup) -> None:
    sock = setup.connect()
    setup.server.deliver(ready(results=[Result(7, 5, (b"A",))], status_changed=True))
    assert setup.is_silent(sock)
