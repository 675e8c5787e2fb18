"""The truth inside of a live run: logs read beside their writers, compared, and replayed through the state machine."""

from __future__ import annotations

from pathlib import Path

from chaos.history import SessionOpened
from chaos.replica_log import Replica, SharedLog
from chaos.replica_replay import replay
from raftlog.disk import LmdbDisk
from raftlog.envelope import encode
from raftlog.interface import Proposal
from raftlog.journal import LmdbJournal
from raftlog.log_reader import LoggedEntry
from raftlog.meta import MetaStore
from raftlog.process import database_path
from raftlog.pysyncobj_bindings import NO_OP, REGULAR
from statemachine.codec import encode_command
from statemachine.commands import OpenSession
from statemachine.machine import Machine
from statemachine.reader import StateReader


def opening(index: int, node: str) -> LoggedEntry:
    command = OpenSession(
        now_ms=1_000_000 + index,
        node=node,
        incarnation=1,
        http="h:1",
        raft="r:1",
        slots=8,
        ahead=8,
        version="1",
        tzdata="1",
    )
    proposal = Proposal(node=node, incarnation=1, seq=1, acknowledged=0, commands=[encode_command(command)])
    return LoggedEntry(index, 1, REGULAR + encode(proposal))


ENTRIES = [LoggedEntry(1, 0, NO_OP), opening(2, "n1"), opening(3, "n2"), LoggedEntry(4, 2, NO_OP)]


class Writer:
    """A data directory with a log and the state that it comes to, as a log process leaves it."""

    def __init__(self, data_dir: Path) -> None:
        self._disk = LmdbDisk(database_path(data_dir), synchronous=False)
        self._machine = Machine(self._disk.environment)
        self._journal = LmdbJournal(self._disk, MetaStore(self._disk), cache_bytes=1024)
        self._disk.commit()

    def write(self, entries: list[LoggedEntry], *, committed: int) -> None:
        for entry in entries:
            self._journal.add(entry.payload, entry.index, entry.term)
        self._journal.setRaftCommitIndex(committed)
        for entry in entries:
            if entry.index <= committed:
                self._machine.apply(self._disk.transaction, index=entry.index, proposal=entry.proposal)
        self._disk.commit()

    def close(self) -> str:
        with StateReader(self._disk.environment).snapshot() as snapshot:
            digest = snapshot.digest()
        self._disk.close()
        return digest


def test_what_nodes_have_committed_is_read_from_their_disks_and_comes_to_their_state(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "n1")
    writer.write(ENTRIES, committed=3)
    digest = writer.close()
    shared, replica = SharedLog(), Replica("n1", tmp_path / "n1")
    replica.look(shared, 1.5)
    replica.close()
    assert list(shared.entries.values()) == ENTRIES[:3]
    replayed = replay(shared, tmp_path / "replay", {3})
    assert replayed.digests == {3: digest}
    assert [entry.node for entry in replayed.truth if isinstance(entry, SessionOpened)] == ["n1", "n2"]
    assert {entry.at_s for entry in replayed.truth if isinstance(entry, SessionOpened)} == {1.5}
    assert shared.parted == []
    assert shared.holes() == []


def test_a_directory_that_is_not_there_or_was_wiped_is_read_when_it_is(tmp_path: Path) -> None:
    shared, replica = SharedLog(), Replica("n1", tmp_path / "n1")
    replica.look(shared, 1.0)
    assert shared.entries == {}
    for committed in (2, 3):
        writer = Writer(tmp_path / "n1")
        writer.write(ENTRIES, committed=committed)
        writer.close()
        replica.look(shared, 2.0)
        assert max(shared.entries) == committed
        for path in database_path(tmp_path / "n1").iterdir():
            path.unlink()
    replica.look(shared, 3.0)
    assert replica.next_index == 1
    replica.close()


def test_another_entry_at_an_index_is_seen() -> None:
    shared = SharedLog()
    shared.heard("n1", ENTRIES[1])
    shared.heard("n2", ENTRIES[1])
    assert shared.parted == []
    shared.heard("n3", opening(2, "n3"))
    assert shared.parted == ["n3 has committed another entry at 2 than the first node"]


def test_an_entry_was_applied_when_the_first_node_was_seen_to_have_it() -> None:
    shared = SharedLog()
    for applied, at_s in ((3, 1.0), (2, 2.0), (5, 3.0), (5, 4.0)):
        shared.applied(applied, at_s)
    assert [shared.applied_s(index) for index in (1, 3, 4, 5)] == [1.0, 1.0, 3.0, 3.0]


def test_what_nobody_showed_is_a_hole(tmp_path: Path) -> None:
    shared = SharedLog()
    for entry in (ENTRIES[0], ENTRIES[1], ENTRIES[3]):
        shared.heard("n1", entry)
    assert shared.holes() == [3]
    assert replay(shared, tmp_path, {4}).last_index == 2
