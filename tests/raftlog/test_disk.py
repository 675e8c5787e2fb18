from __future__ import annotations

from pathlib import Path

import pytest

from raftlog.disk import LmdbDisk

MAP_BYTES = 16 * 1024 * 1024


def opened(path: Path) -> LmdbDisk:
    return LmdbDisk(path, map_bytes=MAP_BYTES, synchronous=False)


def test_what_is_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    database = disk.database("table")
    disk.transaction.put(b"key", b"value", db=database)
    disk.commit()
    disk.close()
    disk = opened(tmp_path)
    database = disk.database("table")
    assert disk.transaction.get(b"key", db=database) == b"value"
    disk.close()


def test_what_is_aborted_or_open_at_the_end_is_gone(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    database = disk.database("table")
    disk.transaction.put(b"aborted", b"", db=database)
    disk.abort()
    disk.transaction.put(b"open", b"", db=database)
    disk.close()
    disk = opened(tmp_path)
    database = disk.database("table")
    assert disk.transaction.get(b"aborted", db=database) is None
    assert disk.transaction.get(b"open", db=database) is None
    disk.close()


def test_a_reader_sees_commits_only(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    database = disk.database("table")
    disk.transaction.put(b"key", b"value", db=database)
    with disk.environment.begin() as reader:
        assert reader.get(b"key", db=database) is None
    disk.commit()
    with disk.environment.begin() as reader:
        assert reader.get(b"key", db=database) == b"value"
    disk.close()


def test_a_commit_without_writes_writes_nothing(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    database = disk.database("table")
    before = disk.environment.info()["last_txnid"]
    disk.transaction.get(b"key", db=database)
    assert not disk.commit()
    assert not disk.commit()
    disk.transaction.put(b"key", b"value", db=database)
    assert disk.commit()
    before += 1
    assert disk.environment.info()["last_txnid"] == before
    disk.close()


def test_databases_are_not_opened_inside_a_transaction(tmp_path: Path) -> None:
    disk = opened(tmp_path)
    assert disk.transaction
    with pytest.raises(AssertionError, match="between transactions"):
        disk.database("late")
    disk.close()


def test_the_disk_is_synchronous_unless_told_otherwise(tmp_path: Path) -> None:
    disk = LmdbDisk(tmp_path, map_bytes=MAP_BYTES)
    flags = disk.environment.flags()
    assert flags["sync"] is True
    assert flags["metasync"] is True
    assert flags["writemap"] is False
    disk.close()
