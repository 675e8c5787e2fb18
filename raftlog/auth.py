"""Who is at the other end: a challenge-response both ways with the cluster secret, then a MAC on every frame. Sans-IO.

    dialer                                   acceptor
      hello     version, cluster, both ids, nonce  ─▶
      ◀─  challenge  cluster, both ids, nonce
      proof     HMAC(secret, "dialer" + transcript)  ─▶
      ◀─  welcome    HMAC(secret, "acceptor" + transcript)

The dialer proves itself first, so that a stranger who connects learns nothing to try secrets against. Both nonces are
in the transcript (no replay), both ids (no relay to a third node), and the role is in each proof (no reflection). The
keys of the two directions come from the same transcript; a frame's MAC covers its number in its direction, so a frame
that is repeated, dropped, reordered or sent back is refused. Frames are authentic, not secret: encryption is the
business of TLS around them.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from raftlog.wire import WireError, pack

PROTOCOL_VERSION = 1
NONCE_BYTES = 32
MAC_BYTES = 16
SECRET_BYTES_MIN = 16
NODE_ID_LENGTH_MAX = 64

_HELLO: Final = "hello"
_CHALLENGE: Final = "challenge"
_PROOF: Final = "proof"
_WELCOME: Final = "welcome"


class HandshakeRefused(WireError):
    """The peer did not prove that it belongs to this cluster, or is not who was expected."""


class FrameForged(WireError):
    """A frame's MAC does not fit its content, its place in the stream, or the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Who we are to our peers. The secret never shows in a repr, and so in no log."""

    node: str
    cluster_id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) < SECRET_BYTES_MIN:
            raise ValueError(f"the cluster secret must have at least {SECRET_BYTES_MIN} bytes")
        if not 0 < len(self.node) <= NODE_ID_LENGTH_MAX:
            raise ValueError(f"a node id has 1 to {NODE_ID_LENGTH_MAX} characters")


def cluster_id_of(secret: bytes) -> str:
    """All nodes with the same secret agree on it without talking, and it tells nothing about the secret."""
    key = secret if len(secret) <= blake2b.MAX_KEY_SIZE else blake2b(secret).digest()
    return blake2b(b"horae cluster id", digest_size=8, key=key).hexdigest()


class Sealer:
    """Puts the MAC and, by it, the number on frames of one direction."""

    __slots__ = ("_count", "_key")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    def seal(self, body: bytes) -> bytes:
        mac = _frame_mac(self._key, self._count, body)
        self._count += 1
        return mac + body


class Opener:
    """Checks frames of one direction, each exactly once and in order."""

    __slots__ = ("_count", "_key")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    def open(self, content: bytes) -> bytes:
        """The body. Raises FrameForged; the stream is worthless from there on."""
        body = content[MAC_BYTES:]
        if not hmac.compare_digest(content[:MAC_BYTES], _frame_mac(self._key, self._count, body)):
            raise FrameForged(f"frame {self._count} is not authentic")
        self._count += 1
        return body


class Session(NamedTuple):
    """The outcome of a handshake: the proven peer and the two directions."""

    peer: str
    sealer: Sealer
    opener: Opener


class DialerHandshake:
    """The side that connected. `nonce` must be fresh random bytes; `peer` is whom we mean to reach."""

    def __init__(self, credentials: Credentials, peer: str, nonce: bytes) -> None:
        self._credentials = credentials
        self.peer = peer
        self._nonce = _checked_nonce(nonce)
        self._transcript: bytes | None = None
        self.session: Session | None = None

    def start(self) -> bytes:
        """The first message to send."""
        mine = self._credentials
        return pack([_HELLO, PROTOCOL_VERSION, mine.cluster_id, mine.node, self.peer, self._nonce])

    def receive(self, message: Any) -> bytes | None:
        """Take the acceptor's next message; returns what to answer. `session` is set once the peer is proven.
        Raises HandshakeRefused."""
        if self._transcript is None:
            return self._challenged(message)
        (proof,) = _fields(message, _WELCOME, (bytes,))
        _check_proof(self._credentials, b"acceptor", self._transcript, proof)
        self.session = _session(self._credentials, self.peer, self._transcript, dialer=True)
        return None

    def _challenged(self, message: Any) -> bytes:
        cluster, acceptor, dialer, nonce = _fields(message, _CHALLENGE, (str, str, str, bytes))
        _check_cluster(self._credentials, cluster)
        if acceptor != self.peer or dialer != self._credentials.node:
            raise HandshakeRefused(f"node {_shown(acceptor)} answered where {self.peer} was expected")
        self._transcript = _transcript(self._credentials, self._credentials.node, acceptor, self._nonce, nonce)
        return pack([_PROOF, _proof(self._credentials, b"dialer", self._transcript)])


class AcceptorHandshake:
    """The side that was connected to. `may_dial` says whether a node may connect."""

    def __init__(self, credentials: Credentials, may_dial: Callable[[str], bool], nonce: bytes) -> None:
        self._credentials = credentials
        self._may_dial = may_dial
        self._nonce = _checked_nonce(nonce)
        self._dialer = ""
        self._transcript: bytes | None = None
        self.session: Session | None = None

    def receive(self, message: Any) -> bytes | None:
        """Take the dialer's next message; returns what to answer. `session` is set once the peer is proven.
        Raises HandshakeRefused."""
        if self._transcript is None:
            return self._greeted(message)
        (proof,) = _fields(message, _PROOF, (bytes,))
        _check_proof(self._credentials, b"dialer", self._transcript, proof)
        self.session = _session(self._credentials, self._dialer, self._transcript, dialer=False)
        return pack([_WELCOME, _proof(self._credentials, b"acceptor", self._transcript)])

    def _greeted(self, message: Any) -> bytes:
        version, cluster, dialer, acceptor, nonce = _fields(message, _HELLO, (int, str, str, str, bytes))
        if version != PROTOCOL_VERSION:
            raise HandshakeRefused(f"protocol version {version}; this node speaks {PROTOCOL_VERSION}")
        _check_cluster(self._credentials, cluster)
        if acceptor != self._credentials.node:
            raise HandshakeRefused(f"the peer looks for node {_shown(acceptor)}; this is {self._credentials.node}")
        if not self._may_dial(dialer):
            raise HandshakeRefused(f"node {_shown(dialer)} is not one that dials this node")
        self._dialer = dialer
        self._transcript = _transcript(self._credentials, dialer, acceptor, nonce, self._nonce)
        return pack([_CHALLENGE, self._credentials.cluster_id, acceptor, dialer, self._nonce])


def _fields(message: Any, kind: str, types: tuple[type, ...]) -> list[Any]:
    """The fields of a handshake message of the expected kind and shape (exact types: True is no version)."""
    if type(message) is not list or len(message) != len(types) + 1 or message[0] != kind:
        raise HandshakeRefused(f"expected a {kind} message")
    fields = message[1:]
    if any(type(value) is not expected for value, expected in zip(fields, types, strict=True)):
        raise HandshakeRefused(f"a {kind} message with wrong fields")
    return fields


def _check_cluster(credentials: Credentials, cluster: str) -> None:
    if cluster != credentials.cluster_id:
        raise HandshakeRefused("another cluster's id (another cluster, or another cluster secret)")


def _check_proof(credentials: Credentials, role: bytes, transcript: bytes, proof: bytes) -> None:
    if not hmac.compare_digest(proof, _proof(credentials, role, transcript)):
        raise HandshakeRefused("the peer does not know the cluster secret")


def _checked_nonce(nonce: bytes) -> bytes:
    if len(nonce) != NONCE_BYTES:
        raise HandshakeRefused(f"a nonce has {NONCE_BYTES} bytes")
    return nonce


def _transcript(
    credentials: Credentials, dialer: str, acceptor: str, dialer_nonce: bytes, acceptor_nonce: bytes
) -> bytes:
    """msgpack is prefix-free, so no two different handshakes give the same bytes."""
    nonces = (_checked_nonce(dialer_nonce), _checked_nonce(acceptor_nonce))
    return pack([PROTOCOL_VERSION, credentials.cluster_id, dialer, acceptor, *nonces])


def _proof(credentials: Credentials, role: bytes, transcript: bytes) -> bytes:
    return hmac.digest(credentials.secret, b"horae raft proof of the " + role + b"\0" + transcript, "sha256")


def _session(credentials: Credentials, peer: str, transcript: bytes, *, dialer: bool) -> Session:
    def key(sender: bytes) -> bytes:
        return hmac.digest(credentials.secret, b"horae raft frames of the " + sender + b"\0" + transcript, "sha256")

    ours, theirs = (b"dialer", b"acceptor") if dialer else (b"acceptor", b"dialer")
    return Session(peer, Sealer(key(ours)), Opener(key(theirs)))


def _frame_mac(key: bytes, count: int, body: bytes) -> bytes:
    mac = blake2b(count.to_bytes(8, "big"), digest_size=MAC_BYTES, key=key)
    mac.update(body)
    return mac.digest()


def _shown(text: str) -> str:
    """A stranger's text, short and printable, for a log line."""
    return repr(text[:NODE_ID_LENGTH_MAX])
