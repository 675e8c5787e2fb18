"""Damaged disks (N9, N11): a store that cannot be used is refused in one line that names the file and the remedy."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import ledger
import lmdb
import pytest
from log_cluster import free_port
from small_disk import SmallDisk

from raftlog import disk as disk_module
from raftlog.child import start_log_process
from raftlog.config import MIB, RaftConfig
from raftlog.disk import AHEAD_BYTES, LmdbDisk
from raftlog.errors import LogDamaged, LogError, LogRefused
from raftlog.storage_faults import storage_fault

PAGE_BYTES = 4096
NOBODY = 65534


async def start(data_dir: Path) -> None:
    """Start a node there, have it write, and end it."""
    argv = ledger.argv(data_dir, "n1", {"n1": f"127.0.0.1:{free_port()}"})
    client = await start_log_process(argv, data_dir, RaftConfig())
    try:
        for number in range(20):
            await client.propose(b"%d" % number + bytes(10_000))
    finally:
        await client.close()


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """The data file of a node that has run."""
    await start(tmp_path)
    return tmp_path / "db" / "data.mdb"


def empty(data: Path) -> None:
    os.truncate(data, 0)


def cut_to_its_head(data: Path) -> None:
    os.truncate(data, 2 * PAGE_BYTES)


def cut_by_a_page(data: Path) -> None:
    environment = lmdb.open(str(data.parent), readonly=True, max_dbs=64)
    last = environment.info()["last_pgno"]
    environment.close()
    os.truncate(data, last * PAGE_BYTES)


def overwrite_its_head(data: Path) -> None:
    with data.open("r+b") as file:
        file.write(random.Random(1).randbytes(2 * PAGE_BYTES))


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (empty, "data.mdb is empty"),
        (cut_to_its_head, "it was cut, or copied by half"),
        (cut_by_a_page, "it was cut, or copied by half"),
        (overwrite_its_head, "MDB_INVALID"),
    ],
)
async def test_a_damaged_file_is_refused_in_one_line(
    data: Path, damage: Callable[[Path], None], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    damage(data)
    for _ in range(2):
        with pytest.raises(LogRefused) as refusal:
            await start(data.parent.parent)
        line = str(refusal.value)
        assert why in line
        assert str(data.parent) in line
        assert "under a new node id, without --bootstrap" in line
        assert "\n" not in line
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_flipped_pages_never_show_a_traceback_nor_hang(
    data: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """LMDB has no checksums: what it trips over ends in a refusal, or in a process that ends by itself and is told of.
    Which pages are in use is chance, so the node may also have met none of the damage."""
    capfd.readouterr()
    dice = random.Random(seed)
    with data.open("r+b") as file:
        for page in range(2, 40):
            file.seek(page * PAGE_BYTES + dice.randrange(0, 32))
            file.write(dice.randbytes(8))
    async with asyncio.timeout(30):
        try:
            await start(data.parent.parent)
        except LogError as error:
            assert any(part in str(error) for part in ("damaged", "log process is gone", "ended before it was ready"))
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.cluster
async def test_a_lock_file_that_is_missing_is_made_anew(data: Path) -> None:
    data.with_name("lock.mdb").unlink()
    await start(data.parent.parent)
    assert data.with_name("lock.mdb").exists()


@pytest.mark.cluster
async def test_a_read_only_file_system_is_refused(tmp_path: Path, small: SmallDisk) -> None:
    await start(small.place)
    small.read_only()
    with pytest.raises(LogRefused, match=r"[Rr]ead-only file system"):
        await start(small.place)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "mounted", 64 * MIB)
    yield disk
    disk.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a while")
@pytest.mark.parametrize("which", ["db", "db/data.mdb", "db/lock.mdb"])
def test_files_of_another_user_are_refused_and_named(tmp_path: Path, which: str) -> None:
    LmdbDisk(tmp_path / "db", map_bytes=MIB).close()
    for path in (tmp_path, tmp_path / "db", *(tmp_path / "db").iterdir()):
        os.chown(path, NOBODY, NOBODY)
    foreign = tmp_path / which
    os.chown(foreign, 0, 0)
    foreign.chmod(0o600 if foreign.is_file() else 0o755)
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(above.stat().st_mode | 0o111)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(LogRefused) as refusal:
            LmdbDisk(tmp_path / "db", map_bytes=MIB)
    finally:
        os.seteuid(0)
    assert f"{foreign} (of user 0) cannot be read and written by user {NOBODY}" in str(refusal.value)


class TestTheLengthOfTheFile:
    def written(self, path: Path) -> tuple[int, int]:
        """(length, what the index needs) after commits that take pages and free them again in the same breath."""
        disk = LmdbDisk(path, map_bytes=256 * MIB, synchronous=False)
        database = disk.database("x")
        for number in range(3000):  # such as a log that is trimmed, and a tick that cuts off what it appended
            disk.transaction.put(b"%06d" % number, bytes(1000), db=database)
            disk.transaction.delete(b"%06d" % (number - 200), db=database)
            if number % 10 == 0:
                disk.commit()
        for number in range(3000, 4000):
            disk.transaction.put(b"%06d" % number, bytes(3000), db=database)
        for number in range(3000, 4000):
            disk.transaction.delete(b"%06d" % number, db=database)
        disk.commit()
        needed = (disk.environment.info()["last_pgno"] + 1) * PAGE_BYTES
        disk.close()
        return (path / "data.mdb").stat().st_size, needed

    def test_it_is_never_less_than_what_the_index_says(self, tmp_path: Path) -> None:
        length, needed = self.written(tmp_path)
        assert length >= needed
        LmdbDisk(tmp_path, map_bytes=256 * MIB).close()

    def test_without_care_lmdb_leaves_it_shorter(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """So an honest file would be taken for one that was cut."""
        monkeypatch.setattr(disk_module.LmdbDisk, "_keep_ahead", lambda self, last_page: None)
        length, needed = self.written(tmp_path)
        assert length < needed
        with pytest.raises(LogRefused, match="cut"):
            LmdbDisk(tmp_path, map_bytes=256 * MIB)

    def test_the_rest_takes_no_room(self, tmp_path: Path) -> None:
        length, _ = self.written(tmp_path)
        assert (tmp_path / "data.mdb").stat().st_blocks * 512 < length - AHEAD_BYTES


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "is full"),
        (OSError(errno.EIO, "Input/output error"), "does not work"),
        (OSError(errno.EROFS, "Read-only file system"), "is read-only"),
        (lmdb.MapFullError("x"), "size of its map"),
        (lmdb.CorruptedError("x"), "is damaged"),
        (lmdb.PageNotFoundError("x"), "is damaged"),
        (lmdb.BadTxnError("x"), "is damaged"),
        (LogDamaged("entry 7"), "is damaged (entry 7)"),
    ],
)
def test_each_fault_of_the_disk_has_its_line(tmp_path: Path, error: Exception, said: str) -> None:
    line = storage_fault(error, tmp_path)
    assert line is not None
    assert said in line
    assert str(tmp_path) in line


def test_a_directory_that_has_gone_is_said(tmp_path: Path) -> None:
    error = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert "has gone" in (storage_fault(error, tmp_path / "gone") or "")
    assert storage_fault(error, tmp_path) is None


@pytest.mark.parametrize("error", [ValueError("x"), OSError("x"), ConnectionResetError(errno.ECONNRESET, "x")])
def test_what_is_not_the_disks_is_left_alone(tmp_path: Path, error: Exception) -> None:
    assert storage_fault(error, tmp_path) is None
