"""Copies of the whole state; that they become the state is shown in tests/raftlog/test_state_copies.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from statemachine import copying
from statemachine.copying import KEY_BYTES_MAX
from statemachine.tables import TABLE_NAMES
from tests.statemachine.driver import Driver

ROOT = Path(__file__).resolve().parents[2]

READ = """
import sys
from statemachine.reader import StateReader
reader = StateReader(sys.argv[1])
while True:
    with reader.snapshot() as snapshot:
        names = [job.name for job in snapshot.jobs()]
        index = snapshot.applied_index()
        again = [job.name for job in snapshot.jobs()]
        print(index, *names, "|", *again, flush=True)
    if not sys.stdin.readline():
        break
reader.close()
"""


def pack(*tables: tuple[str, list[bytes]]) -> bytes:
    return msgspec.msgpack.encode(tables)


def copied(source: Driver, target: Driver, bytes_max: int = 1000) -> None:
    """The state of one becomes that of the other, a transaction a chunk as the log does it."""
    copy = source.machine.copy_state()
    position: bytes | None = b""
    while position is not None:
        chunk, position = copy.read(position, bytes_max)
        with target.environment.begin(write=True) as transaction:
            assert target.machine.receive(transaction, chunk)
    with target.environment.begin(write=True) as transaction:
        assert target.machine.install(transaction, index=copy.index)
    copy.close()


def cleared(driver: Driver) -> int:
    """Empty the room beside the state; returns the steps that it took."""
    for steps in range(1, 1000):
        with driver.environment.begin(write=True) as transaction:
            if driver.machine.discard(transaction):
                return steps
    raise AssertionError("not empty")


@pytest.fixture
def other(tmp_path: Path) -> Driver:
    (tmp_path / "other").mkdir()
    return Driver(tmp_path / "other")


@pytest.mark.parametrize(
    "chunk",
    [
        pack(("jobs", [b"a"])),
        pack(("jobs", [b"", b"v"])),
        pack(("jobs", [b"k" * (KEY_BYTES_MAX + 1), b"v"])),
        pack(("jobs", [b"b", b"v", b"a", b"v"])),
        pack(("jobs", [b"a", b"v", b"a", b"v"])),
        pack(("unknown", [b"a", b"v"])),
        msgspec.msgpack.encode([["jobs", ["text", "text"]]]),
        b"\x00",
        b"",
    ],
)
def test_what_cannot_be_a_chunk_is_refused_and_changes_nothing(driver: Driver, chunk: bytes) -> None:
    driver.put("A")
    before = driver.digest()
    with driver.environment.begin(write=True) as transaction:
        assert not driver.machine.receive(transaction, chunk)
    assert driver.digest() == before


def test_the_largest_key_fits(driver: Driver) -> None:
    with driver.environment.begin(write=True) as transaction:
        assert driver.machine.receive(transaction, pack(("jobs", [b"k" * KEY_BYTES_MAX, b"v"])))


def test_a_copy_holds_every_table(driver: Driver, other: Driver) -> None:
    with driver.environment.begin(write=True) as transaction:
        tables = driver.machine.tables(transaction)
        for number, name in enumerate(TABLE_NAMES):
            transaction.put(b"key %d" % number, bytes(number), db=getattr(tables, name))
    copied(driver, other, bytes_max=3)
    assert other.digest() == driver.digest()


def test_an_empty_state_is_copied_too(driver: Driver, other: Driver) -> None:
    other.put("A")
    copied(driver, other)
    assert other.digest() == driver.digest()


@pytest.mark.parametrize("limit", ["CLEARED_PAGES_MAX", "CLEARED_ENTRIES_MAX"])
def test_the_room_is_emptied_in_steps(driver: Driver, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Large tables lose entries, many small ones go one after another."""
    for number in range(60):
        driver.put(f"J{number}", args=b"x" * 500)
    before = driver.digest()
    with driver.environment.begin(write=True) as transaction:
        assert driver.machine.install(transaction, index=0)
    monkeypatch.setattr(copying, "CLEARED_PAGES_MAX", 3)
    if limit == "CLEARED_ENTRIES_MAX":
        monkeypatch.setattr(copying, limit, 7)
    assert cleared(driver) > (10 if limit == "CLEARED_ENTRIES_MAX" else 2)
    with driver.environment.begin(write=True) as transaction:
        assert driver.machine.install(transaction, index=0), "the room is empty: an empty state"
    assert cleared(driver) == 1
    assert driver.digest() != before


@pytest.mark.slow
def test_a_reader_in_another_process_lives_through_many_copies(driver: Driver, other: Driver, tmp_path: Path) -> None:
    """The node process beside the log process. Between any two of its looks the state is exchanged, also while it
    reads; it sees the one or the other, whole."""
    command = [sys.executable, "-c", READ, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().split() == ["0", "|"]
        for number in range(1, 45):
            other.put(f"J{number}", name=f"n{number}")
            cleared(driver)
            process.stdin.write("\n")
            process.stdin.flush()
            _copy_while_it_reads(other, driver, process.stdout.readline, number)
        process.stdin.close()
        assert process.wait(10) == 0
    assert driver.digest() == other.digest()


def _copy_while_it_reads(source: Driver, target: Driver, seen: Callable[[], str], number: int) -> None:
    copied(source, target, bytes_max=1 << 20)
    index, *words = seen().split()
    names = words[: words.index("|")]
    assert words == [*names, "|", *names]
    assert int(index) in (number - 1, number)
    assert sorted(names) == sorted(f"n{one}" for one in range(1, int(index) + 1))
