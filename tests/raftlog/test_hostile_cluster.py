"""N22 against running log processes: they keep working, say a line, and never a traceback or a secret."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import ledger
import pytest
from log_cluster import LogCluster

from raftlog.auth import NONCE_BYTES, Credentials, DialerHandshake, Session, cluster_id_of
from raftlog.wire import FRAME_BYTES_MAX, FrameParser, frame, pack, unpack

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


class Attacker:
    """Connects to a node's raft port as n1 and says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.parser = FrameParser(FRAME_BYTES_MAX)
        self.said: list[bytes] = []

    @classmethod
    async def connect(cls, address: str) -> Attacker:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def say(self, data: bytes) -> None:
        self.said.append(data)
        self.writer.write(data)

    async def hear(self) -> Any:
        async with asyncio.timeout(10):
            while (content := self.parser.next_frame()) is None:
                data = await self.reader.read(65536)
                if not data:
                    raise ConnectionResetError("closed")
                self.parser.feed(data)
        return unpack(content)

    async def shake_hands(self, target: str, *, secret: bytes = ledger.SECRET, node: str = "n1") -> Session:
        credentials = Credentials(node=node, cluster_id=cluster_id_of(ledger.SECRET), secret=secret)
        handshake = DialerHandshake(credentials, target, random.randbytes(NONCE_BYTES))
        self.say(frame(handshake.start(), 4096))
        self.say(frame(handshake.receive(await self.hear()) or b"", 4096))
        handshake.receive(await self.hear())
        assert handshake.session is not None
        return handshake.session

    async def is_closed(self) -> bool:
        """The node closes the connection; whatever it has to say before that does not matter."""
        try:
            async with asyncio.timeout(10):
                while await self.reader.read(65536):
                    continue
        except (ConnectionResetError, BrokenPipeError):
            pass
        self.writer.close()
        return True


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    """n2 and n3 run; n1 is a member that does not, so that the attacker can play it."""
    cluster = LogCluster(tmp_path, 3)
    await cluster.start("n2", "n3")
    yield cluster
    await cluster.close()


async def still_works(cluster: LogCluster, since: dict[str, int]) -> None:
    for node, client in cluster.clients.items():
        assert not client.closed.done()
        await client.propose(b"still works %d" % random.getrandbits(64))
        assert client.status.term == since[node], "an attack made an election"


async def standing(cluster: LogCluster) -> dict[str, int]:
    await cluster.leader()
    await asyncio.gather(*(client.read_barrier() for client in cluster.clients.values()))
    return {node: client.status.term for node, client in cluster.clients.items()}


async def test_garbage_oversized_frames_and_wrong_secrets(cluster: LogCluster) -> None:
    since = await standing(cluster)
    attacks = [
        b"GET / HTTP/1.1\r\n\r\n",
        (2**32 - 1).to_bytes(4, "big") + bytes(1000),
        frame(b"\x80\x04\x95", 100),
        frame(pack({"type": "append_entries", "term": 10**9}), 100),
        *(random.randbytes(random.randrange(1, 3000)) for _ in range(50)),
    ]
    for attack in attacks:
        attacker = await Attacker.connect(cluster.peers["n2"])
        attacker.say(attack)
        attacker.writer.write_eof()
        assert await attacker.is_closed()
    attacker = await Attacker.connect(cluster.peers["n2"])
    with pytest.raises((ConnectionResetError, TimeoutError)):
        await attacker.shake_hands("n2", secret=b"not the secret of the cluster")
    attacker.writer.close()
    await still_works(cluster, since)


async def test_replayed_frames_and_conversations(cluster: LogCluster) -> None:
    attacker = await Attacker.connect(cluster.peers["n2"])
    session = await attacker.shake_hands("n2")
    since = await standing(cluster)
    vote = {"type": "response_vote", "term": 0}
    attacker.say(frame(session.sealer.seal(pack(vote)), FRAME_BYTES_MAX))
    attacker.say(attacker.said[-1])
    assert await attacker.is_closed()

    thief = await Attacker.connect(cluster.peers["n2"])
    for said in attacker.said:
        thief.say(said)
    assert await thief.is_closed()
    await still_works(cluster, since)


MESSAGES: list[Any] = [
    [],
    None,
    {},
    {"type": None},
    {"type": "request_vote"},
    {"type": "request_vote", "term": "high", "last_log_index": 1, "last_log_term": 1},
    {"type": "append_entries", "term": 1, "entries": b"x"},
    {"type": "append_entries", "term": 2**70 % 2**64, "commit_index": -1},
    {"type": "propose", "envelope": b"\x80\x05\x95garbage"},
    {"type": "propose", "envelope": bytes(300_000)},
    {"type": "apply_command", "command": b"\0" + b"cposix\nsystem\n"},
    {"type": "result", "incarnation": 1, "seq": 1, "replies": "x"},
    {"type": "timeout_now", "term": -1},
    {"type": "pre_vote_answer", "term": 10**6, "round": 1, "granted": "yes"},
    {"type": "barrier", "id": None},
    ["add", "n4", "127.0.0.1:1"],
]


async def test_a_member_that_sends_what_is_no_message(cluster: LogCluster) -> None:
    """The worst case: the attacker has the secret (or is a newer version); still only its connection is closed."""
    since = await standing(cluster)
    for message in MESSAGES:
        attacker = await Attacker.connect(cluster.peers["n2"])
        session = await attacker.shake_hands("n2")
        attacker.say(frame(session.sealer.seal(pack(message)), FRAME_BYTES_MAX))
        assert await attacker.is_closed(), message
    await still_works(cluster, since)


async def test_the_log_of_an_attack_has_few_lines_no_traceback_and_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = LogCluster(tmp_path, 1)
    await cluster.start()
    for _ in range(200):
        attacker = await Attacker.connect(cluster.peers["n1"])
        attacker.say(frame(b"\xc1", 100))
        assert await attacker.is_closed()
    await cluster.clients["n1"].propose(b"still works")
    await cluster.close()
    err = capfd.readouterr().err
    assert 1 <= err.count("refused") <= 20
    assert "Traceback" not in err
    assert ledger.SECRET.decode() not in err
