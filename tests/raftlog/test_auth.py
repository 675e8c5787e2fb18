"""The handshake proves both sides to each other or refuses; frames count once, in order, in one direction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.auth import (
    MAC_BYTES,
    NONCE_BYTES,
    AcceptorHandshake,
    Credentials,
    DialerHandshake,
    FrameForged,
    HandshakeRefused,
    Session,
    cluster_id_of,
)
from raftlog.wire import HANDSHAKE_FRAME_BYTES_MAX, pack, unpack

SECRET = b"sixteen byte key"


def credentials(node: str, *, cluster_id: str = "c1", secret: bytes = SECRET) -> Credentials:
    return Credentials(node=node, cluster_id=cluster_id, secret=secret)


def dialer(node: str = "n1", peer: str = "n2", nonce: int = 1, **changed: Any) -> DialerHandshake:
    return DialerHandshake(credentials(node, **changed), peer, bytes([nonce]) * NONCE_BYTES)


def acceptor(node: str = "n2", nonce: int = 2, peers: tuple[str, ...] = ("n1",), **changed: Any) -> AcceptorHandshake:
    return AcceptorHandshake(credentials(node, **changed), frozenset(peers).__contains__, bytes([nonce]) * NONCE_BYTES)


def answer(side: DialerHandshake | AcceptorHandshake, packed: bytes | None) -> bytes:
    assert packed is not None
    assert len(packed) <= HANDSHAKE_FRAME_BYTES_MAX
    reply = side.receive(unpack(packed))
    return reply if reply is not None else b""


def shake(one: DialerHandshake, other: AcceptorHandshake) -> tuple[Session, Session]:
    proof = answer(one, answer(other, one.start()))
    assert other.session is None
    answer(one, answer(other, proof))
    assert one.session is not None
    assert other.session is not None
    return one.session, other.session


def test_both_sides_know_whom_they_reached_and_frames_pass_both_ways() -> None:
    ours, theirs = shake(dialer(), acceptor())
    assert (ours.peer, theirs.peer) == ("n2", "n1")
    for body in (b"one", b"", b"three"):
        assert theirs.opener.open(ours.sealer.seal(body)) == body
        assert ours.opener.open(theirs.sealer.seal(body)) == body


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (dialer(secret=b"another secret!!"), acceptor()),
        (dialer(), acceptor(secret=b"another secret!!")),
        (dialer(cluster_id="c2"), acceptor()),
        (dialer(), acceptor(cluster_id="c2")),
        (dialer(peer="n3"), acceptor()),
        (dialer(node="n4"), acceptor()),
        (dialer(node="n2", peer="n2"), acceptor()),
    ],
    ids=["dialer's secret", "acceptor's secret", "dialer's cluster", "acceptor's cluster", "looks for another node",
         "unknown node", "itself"],
)  # fmt: skip
def test_strangers_are_refused(one: DialerHandshake, other: AcceptorHandshake) -> None:
    with pytest.raises(HandshakeRefused):
        shake(one, other)
    assert one.session is None
    assert other.session is None


def test_another_node_at_the_address_is_refused_by_the_dialer() -> None:
    one = dialer(peer="n3")
    liar = AcceptorHandshake(credentials("n3"), frozenset({"n1"}).__contains__, b"x" * NONCE_BYTES)
    challenge = unpack(answer(liar, one.start()))
    challenge[2] = "n2"
    with pytest.raises(HandshakeRefused, match="n2"):
        one.receive(challenge)


def test_a_recorded_handshake_cannot_be_replayed_to_either_side() -> None:
    one, other = dialer(), acceptor()
    hello = one.start()
    challenge = answer(other, hello)
    proof = answer(one, challenge)
    welcome = answer(other, proof)

    fresh_acceptor = acceptor(nonce=9)
    answer(fresh_acceptor, hello)
    with pytest.raises(HandshakeRefused):
        fresh_acceptor.receive(unpack(proof))

    fresh_dialer = dialer(nonce=9)
    answer(fresh_dialer, challenge)
    with pytest.raises(HandshakeRefused):
        fresh_dialer.receive(unpack(welcome))


def test_a_dialers_own_proof_reflected_as_the_acceptors_is_refused() -> None:
    one = dialer()
    challenge = pack(["challenge", "c1", "n2", "n1", b"\5" * NONCE_BYTES])
    (_, proof) = unpack(answer(one, challenge))
    with pytest.raises(HandshakeRefused):
        one.receive(["welcome", proof])


def test_an_acceptor_cannot_be_had_to_prove_itself_to_a_stranger() -> None:
    """The first thing that leaves an acceptor holds nothing computed from the secret."""
    first, second = acceptor(), acceptor(secret=b"another secret!!")
    assert answer(first, dialer().start()) == answer(second, dialer().start())


@pytest.mark.parametrize("change", range(5))
def test_every_part_of_the_transcript_is_bound(change: int) -> None:
    """Relays that rewrite cluster, ids or nonces on the way are found out (here: in the challenge)."""
    one, other = dialer(), acceptor()
    challenge = unpack(answer(other, one.start()))
    value = challenge[change]
    challenge[change] = value[:-1] + ("~" if isinstance(value, str) else b"~")
    with pytest.raises(HandshakeRefused):
        answer(other, one.receive(challenge))


def test_a_relay_cannot_join_a_dialer_to_a_node_that_it_did_not_mean() -> None:
    """n1 dials n3; somebody in between carries it to n2, with the names rewritten for each side."""
    one, other = dialer(peer="n3"), acceptor(node="n2")
    hello = unpack(one.start())
    hello[4] = "n2"
    challenge = unpack(answer(other, pack(hello)))
    challenge[2] = "n3"
    proof = answer(one, pack(challenge))
    with pytest.raises(HandshakeRefused):
        answer(other, proof)


messages = st.lists(st.none() | st.booleans() | st.integers() | st.text() | st.binary(), max_size=7)


@given(messages | st.integers() | st.text() | st.none())
def test_any_message_is_refused_without_another_error(message: Any) -> None:
    for side in (dialer(), acceptor()):
        with pytest.raises(HandshakeRefused):
            side.receive(message)


@given(st.sampled_from(["hello", "challenge", "proof", "welcome"]), messages)
def test_messages_of_a_known_kind_are_refused_or_answered(kind: str, fields: list[Any]) -> None:
    for side in (dialer(), acceptor()):
        try:
            side.receive([kind, *fields])
        except HandshakeRefused:
            continue


@pytest.mark.parametrize("version", [0, 2, True, None])
def test_another_protocol_version_is_refused(version: Any) -> None:
    hello = unpack(dialer().start())
    hello[1] = version
    with pytest.raises(HandshakeRefused):
        acceptor().receive(hello)


class TestFrames:
    def test_a_replayed_frame_is_refused(self) -> None:
        ours, theirs = shake(dialer(), acceptor())
        sealed = ours.sealer.seal(b"vote")
        theirs.opener.open(sealed)
        with pytest.raises(FrameForged):
            theirs.opener.open(sealed)

    def test_a_missing_frame_is_noticed(self) -> None:
        ours, theirs = shake(dialer(), acceptor())
        ours.sealer.seal(b"lost")
        with pytest.raises(FrameForged):
            theirs.opener.open(ours.sealer.seal(b"next"))

    def test_a_frame_sent_back_is_refused(self) -> None:
        ours, _ = shake(dialer(), acceptor())
        with pytest.raises(FrameForged):
            ours.opener.open(ours.sealer.seal(b"vote"))

    def test_a_frame_of_an_earlier_session_is_refused(self) -> None:
        ours, _ = shake(dialer(), acceptor())
        _, later = shake(dialer(nonce=3), acceptor(nonce=4))
        with pytest.raises(FrameForged):
            later.opener.open(ours.sealer.seal(b"vote"))

    @given(st.binary(max_size=100), st.data())
    def test_a_changed_frame_is_refused(self, body: bytes, data: st.DataObject) -> None:
        ours, theirs = shake(dialer(), acceptor())
        sealed = bytearray(ours.sealer.seal(body))
        at = data.draw(st.integers(0, len(sealed) - 1))
        sealed[at] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(FrameForged):
            theirs.opener.open(bytes(sealed))

    @given(st.binary(max_size=2 * MAC_BYTES))
    def test_any_bytes_are_refused(self, content: bytes) -> None:
        _, theirs = shake(dialer(), acceptor())
        with pytest.raises(FrameForged):
            theirs.opener.open(content)


class TestIdentity:
    def test_the_secret_does_not_show(self) -> None:
        assert "sixteen" not in repr(credentials("n1"))

    def test_a_short_secret_is_refused_without_showing_it(self) -> None:
        with pytest.raises(ValueError, match="16 bytes") as caught:
            credentials("n1", secret=b"fifteen letters")
        assert "fifteen" not in str(caught.value)

    @pytest.mark.parametrize("node", ["", "n" * 65])
    def test_a_node_id_has_bounds(self, node: str) -> None:
        with pytest.raises(ValueError, match="node id"):
            credentials(node)


def test_the_cluster_id_is_a_function_of_the_secret_of_any_length() -> None:
    ids = {cluster_id_of(secret) for secret in (SECRET, b"another secret!!", bytes(64), bytes(65), bytes(1000))}
    assert len(ids) == 5
    assert cluster_id_of(SECRET) == cluster_id_of(SECRET)
    assert all(len(cluster_id) == 16 for cluster_id in ids)


def test_a_nonce_of_another_length_is_refused() -> None:
    with pytest.raises(HandshakeRefused):
        DialerHandshake(credentials("n1"), "n2", b"short")
    hello = unpack(dialer().start())
    hello[5] = b"short"
    with pytest.raises(HandshakeRefused):
        acceptor().receive(hello)
