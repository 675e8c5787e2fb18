"""A bit that flips on the disk, inside of what LMDB stores, reaches nobody (N11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ledger
import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_cluster import free_port
from raftlog_bench import MAP_BYTES, Bench, must_raise

from raftlog import stored_entries
from raftlog.child import start_log_process
from raftlog.config import RaftConfig
from raftlog.errors import LogDamaged, LogRefused
from raftlog.stored_entries import read, stored

numbers = st.integers(0, 2**63 - 1)


@given(st.binary(max_size=200), numbers, numbers)
def test_what_was_stored_is_read(command: bytes, index: int, term: int) -> None:
    assert read(index, stored((command, index, term))) == (command, index, term)


@given(st.binary(max_size=200), numbers, numbers, st.data())
def test_every_flipped_bit_is_seen(command: bytes, index: int, term: int, data: st.DataObject) -> None:
    value = bytearray(stored((command, index, term)))
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    value[bit // 8] ^= 1 << bit % 8
    with pytest.raises(LogDamaged):
        read(index, bytes(value))


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_value_that_was_cut_or_lies_at_another_index_is_seen(command: bytes, data: st.DataObject) -> None:
    value = stored((command, 5, 1))
    with pytest.raises(LogDamaged):
        read(5, value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(LogDamaged):
        read(6, value)


def flip(directory: Path, index: int) -> None:
    """One bit in the middle of a stored entry."""
    environment = lmdb.open(str(directory), map_size=MAP_BYTES, max_dbs=64)
    database = environment.open_db(b"raft/log", create=False)
    with environment.begin(write=True) as transaction:
        key = index.to_bytes(8, "big")
        value = bytearray(transaction.get(key, db=database))
        value[-2] ^= 0x10
        transaction.put(key, bytes(value), db=database)
    environment.close()


def test_a_damaged_entry_is_neither_applied_nor_sent(bench: Bench, guard: Any) -> None:
    """n1 leads again with a flipped bit in an entry that n3 lacks. Without the check n3 applies what nobody proposed,
    and the replicas differ for ever."""
    guard.remove(stored_entries, "is_whole", lambda check, expected: True)
    bench.elect("n1")
    bench.disconnect("n1", "n3")
    bench.disconnect("n2", "n3")
    for seq in (1, 2, 3):
        bench.propose("n1", seq)
    bench.settle()
    bench.crash("n1")
    flip(bench.root / "n1", 4)
    with guard.verdict():
        with must_raise(LogDamaged):
            bench.start("n1")
            bench.connect_all()
            bench.stand("n1")
            bench.settle()
        bench.crash("n1")
        bench.connect("n2", "n3")
        bench.elect("n2")
        assert len(set(bench.digests().values())) == 1


@pytest.mark.cluster
async def test_a_node_whose_last_entry_is_damaged_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    argv = ledger.argv(tmp_path, "n1", {"n1": f"127.0.0.1:{free_port()}"})
    client = await start_log_process(argv, tmp_path, RaftConfig())
    await client.propose(b"a command")
    await client.close()
    environment = lmdb.open(str(tmp_path / "db"), readonly=True, max_dbs=64)
    with environment.begin(db=environment.open_db(b"raft/log", create=False)) as transaction:
        last = transaction.stat()["entries"]
    environment.close()
    flip(tmp_path / "db", last)
    with pytest.raises(LogRefused, match=rf"damaged \(entry {last} of the log is not what was written\)"):
        await start_log_process(argv, tmp_path, RaftConfig())
    assert "Traceback" not in capfd.readouterr().err
