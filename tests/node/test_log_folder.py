"""The logs of ended attempts on a node's disk: found by run and attempt, removed by age, run, or for want of room."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.kept_log import DamagedLog, KeptLog
from node.log_folder import BLOCK_BYTES, FOLDER_SHIFT, FOLDERS_PRUNED_MAX, SHRUNK_TO, LogFolder

RUN_ID = f"{1_796_004_000_000:012x}-01JDAAAAAAAAAAAAAAAAAAAAAA"
SPAN_MS = 1 << FOLDER_SHIFT
ONE = KeptLog(head=b"one")


def run_id(due_ms: int) -> str:
    return f"{due_ms:012x}-j"


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    return LogFolder(tmp_path / "logs", bytes_max=10**9)


def test_what_was_kept_is_read_back_an_attempt_at_a_time(folder: LogFolder) -> None:
    three = KeptLog(head=b"three", tail=b"\xff", cut_bytes=9)
    folder.keep(RUN_ID, 1, ONE)
    folder.keep(RUN_ID, 3, three)
    assert [folder.read(RUN_ID, attempt) for attempt in (1, 2, 3)] == [ONE, None, three]


def test_a_damaged_file_is_no_log(folder: LogFolder, tmp_path: Path) -> None:
    folder.keep(RUN_ID, 1, ONE)
    (path,) = (path for path in (tmp_path / "logs").rglob("*.gz"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedLog):
        folder.read(RUN_ID, 1)


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "0" * 12 + "-a/b", "0" * 12 + "-a.b", "", "0" * 12 + "-a\n"])
def test_no_id_leads_out_of_the_folder(folder: LogFolder, run_id: str) -> None:
    for use in (folder.live_files, folder.read, folder.remove):
        with pytest.raises(AssertionError):
            use(run_id, 1)
    with pytest.raises(AssertionError):
        folder.keep(run_id, 1, ONE)


def test_folders_of_runs_due_long_ago_go_as_a_whole_a_few_at_a_time(folder: LogFolder, tmp_path: Path) -> None:
    assert folder.prune(10**13) == 0
    for number in range(FOLDERS_PRUNED_MAX + 3):
        folder.keep(run_id(number * SPAN_MS), 1, ONE)
    kept = tmp_path / "logs" / "not-a-folder-of-ours"
    kept.mkdir()
    assert folder.prune((FOLDERS_PRUNED_MAX + 1) * SPAN_MS + 5) == FOLDERS_PRUNED_MAX
    assert folder.prune((FOLDERS_PRUNED_MAX + 1) * SPAN_MS + 5) == 1
    assert len(list((tmp_path / "logs").iterdir())) == 2 + 1
    assert kept.is_dir()
    assert folder.disk_bytes == 2 * BLOCK_BYTES


def test_no_half_written_file_is_ever_found_nor_left(
    folder: LogFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.keep(RUN_ID, 1, ONE)

    def torn(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:5])
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_bytes", torn)
    with pytest.raises(OSError, match="full"):
        folder.keep(RUN_ID, 2, ONE)
    assert [path.name for path in (tmp_path / "logs").rglob("*") if path.is_file()] == [f"{RUN_ID}.1.log.gz"]
    assert folder.read(RUN_ID, 2) is None


def test_the_logs_of_a_run_are_removed_with_it(folder: LogFolder) -> None:
    folder.keep(RUN_ID, 1, ONE)
    folder.keep(RUN_ID, 3, ONE)
    folder.keep(RUN_ID[:-1] + "B", 1, ONE)
    folder.remove(RUN_ID, 3)
    assert [folder.read(RUN_ID, attempt) for attempt in (1, 2, 3)] == [None] * 3
    assert folder.disk_bytes == BLOCK_BYTES


def test_beyond_the_limit_the_logs_of_the_runs_due_first_go(tmp_path: Path) -> None:
    """Whole folders where that is not too much, else as many files as it takes."""
    limit = 100
    folder = LogFolder(tmp_path / "logs", bytes_max=limit * BLOCK_BYTES)
    for number in range(10):
        folder.keep(run_id(number), 1, ONE)
    for number in range(limit - 10):
        folder.keep(run_id(SPAN_MS + number), 1, ONE)
    assert not folder.is_too_large and folder.shrink() == 0
    again = LogFolder(tmp_path / "logs", bytes_max=limit * BLOCK_BYTES)
    again.measure()
    for number in range(7):
        again.keep(run_id(2 * SPAN_MS + number), 1, ONE)
    assert again.is_too_large
    assert again.shrink() == 12 * BLOCK_BYTES
    assert not again.is_too_large and again.disk_bytes == round(limit * SHRUNK_TO) * BLOCK_BYTES
    assert [again.read(run_id(due_ms), 1) for due_ms in (0, 9, SPAN_MS, SPAN_MS + 1, SPAN_MS + 2)] == [None] * 4 + [ONE]
