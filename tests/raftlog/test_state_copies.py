"""What every Applier does about copies of the state: the state machine of the product, and the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from raftlog_applier import ChainApplier

from raftlog.disk import LmdbDisk
from raftlog.interface import Applier, Proposal
from statemachine.codec import encode_command
from statemachine.commands import PutJob
from statemachine.machine import Machine
from statemachine.reader import StateReader
from statemachine.records import Job, NoopTarget

MAP_BYTES = 64 * 1024 * 1024
SIZES = [1, 100, 1 << 20]


class Side(Protocol):
    """An applier on a disk of its own, and how to write to it and look at it."""

    applier: Applier
    disk: LmdbDisk

    def write(self) -> None:
        """Apply one more entry that changes something."""

    def content(self) -> object:
        """Equal for equal states."""


class ChainSide:
    def __init__(self, path: Path) -> None:
        self.disk = LmdbDisk(path, map_bytes=MAP_BYTES, synchronous=False)
        self.chain = ChainApplier(self.disk)
        self.applier: Applier = self.chain
        self.index = 0

    def command(self, number: int) -> bytes:
        return b"%d" % number

    def write(self) -> None:
        self.index = self.applier.applied_index(self.disk.transaction) + 1
        commands = [self.command(self.index)]
        proposal = Proposal(node=f"n{self.index}", incarnation=1, seq=self.index, acknowledged=0, commands=commands)
        self.applier.apply(self.disk.transaction, index=self.index, proposal=proposal)
        self.disk.commit()

    def content(self) -> object:
        with self.disk.environment.begin() as transaction:
            return self.chain.applied_index(transaction), self.chain.digest(transaction)


class MachineSide(ChainSide):
    def __init__(self, path: Path) -> None:
        self.disk = LmdbDisk(path, map_bytes=MAP_BYTES, synchronous=False)
        self.applier = cast(Applier, Machine(self.disk.environment))
        self.reader = StateReader(self.disk.environment)

    def command(self, number: int) -> bytes:
        job = Job(job_id=f"J{number}", name=f"job {number}", team="t", target=NoopTarget(), created_ms=1, updated_ms=1)
        return encode_command(PutJob(now_ms=number, job=job, expected_version=0))

    def content(self) -> object:
        with self.reader.snapshot() as snapshot:
            return snapshot.applied_index(), snapshot.digest(), [job.name for job in snapshot.jobs()]


@pytest.fixture(params=[ChainSide, MachineSide])
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """The one that is copied, with ten entries applied, and the one that gets the copy, with two others."""
    source, target = request.param(tmp_path / "source"), request.param(tmp_path / "target")
    for side, entries in ((source, 10), (target, 2)):
        for _ in range(entries):
            side.write()
    yield source, target
    source.disk.close()
    target.disk.close()


def chunks_of(side: Side, bytes_max: int) -> list[bytes]:
    copy = side.applier.copy_state()
    chunks = []
    position: bytes | None = b""
    while position is not None:
        chunk, position = copy.read(position, bytes_max)
        chunks.append(chunk)
    copy.close()
    return chunks


def empty_room(side: Side) -> int:
    steps = 1
    while not side.applier.discard(side.disk.transaction):
        side.disk.commit()
        steps += 1
    side.disk.commit()
    return steps


def received(side: Side, chunks: list[bytes]) -> None:
    empty_room(side)
    for chunk in chunks:
        assert side.applier.receive(side.disk.transaction, chunk)
        side.disk.commit()


@pytest.mark.parametrize("bytes_max", SIZES)
def test_a_copy_becomes_the_same_state(sides: tuple[Side, Side], bytes_max: int) -> None:
    source, target = sides
    chunks = chunks_of(source, bytes_max)
    assert len(chunks) > 10 if bytes_max == 1 else chunks
    received(target, chunks)
    before = target.content()
    assert before != source.content(), "what is received is no part of the state"
    assert target.applier.install(target.disk.transaction, index=10)
    target.disk.commit()
    assert target.content() == source.content()
    source.write()
    target.write()
    assert target.content() == source.content(), "and it goes on from there"


def test_copy_after_copy(sides: tuple[Side, Side]) -> None:
    """The room of each is where the state of the one before the last was."""
    source, target = sides
    for index in range(11, 16):
        source.write()
        received(target, chunks_of(source, 100))
        assert target.applier.install(target.disk.transaction, index=index)
        target.disk.commit()
        assert target.content() == source.content()


def test_a_copy_stands_still(sides: tuple[Side, Side]) -> None:
    source, target = sides
    copy = source.applier.copy_state()
    assert copy.index == 10
    expected = source.content()
    chunk, position = copy.read(b"", 50)
    source.write()
    chunks = [chunk]
    while position is not None:
        chunk, position = copy.read(position, 50)
        source.write()
        chunks.append(chunk)
    copy.close()
    received(target, chunks)
    assert target.applier.install(target.disk.transaction, index=10)
    target.disk.commit()
    assert target.content() == expected


def test_a_chunk_can_be_read_again(sides: tuple[Side, Side]) -> None:
    copy = sides[0].applier.copy_state()
    first, position = copy.read(b"", 100)
    assert position is not None
    second = copy.read(position, 100)
    assert copy.read(b"", 100) == (first, position)
    assert copy.read(position, 100) == second
    copy.close()
    copy.close()


def test_what_stands_elsewhere_is_not_installed(sides: tuple[Side, Side]) -> None:
    source, target = sides
    before = target.content()
    received(target, chunks_of(source, 100)[:-1])
    for index in (9, 11):
        assert not target.applier.install(target.disk.transaction, index=index)
    empty_room(target)
    assert not target.applier.install(target.disk.transaction, index=10)
    target.disk.commit()
    assert target.content() == before


@pytest.mark.parametrize("junk", [b"", b"junk", b"\xc1", b"\x81\x01\x02", b"\x91\x92\xa4none\x90"])
def test_what_is_no_chunk_is_refused(sides: tuple[Side, Side], junk: bytes) -> None:
    _, target = sides
    before = target.content()
    empty_room(target)
    assert not target.applier.receive(target.disk.transaction, junk)
    target.disk.commit()
    assert target.content() == before


def test_chunks_come_in_their_order(sides: tuple[Side, Side]) -> None:
    source, target = sides
    chunks = chunks_of(source, 1)
    received(target, chunks[:4])
    assert not target.applier.receive(target.disk.transaction, chunks[3]), "the same again"


def test_half_a_copy_is_emptied(sides: tuple[Side, Side]) -> None:
    source, target = sides
    received(target, chunks_of(source, 100)[:2])
    empty_room(target)
    received(target, chunks_of(source, 300))
    assert target.applier.install(target.disk.transaction, index=10)
    target.disk.commit()
    assert target.content() == source.content()
