"""The kept output of attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.interface import NotFound, RunLog
from node.runlogs import FOLDER_SHIFT, FOLDERS_PRUNED_MAX, RunLogs

RUN_ID = f"{1_796_004_000_000:012x}-01JDAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def logs(tmp_path: Path) -> RunLogs:
    return RunLogs(tmp_path / "logs", node="n1")


def test_what_was_written_is_read_back_an_attempt_at_a_time(logs: RunLogs) -> None:
    assert logs.write(RUN_ID, 1, b"one", truncated=False) == 3
    logs.write(RUN_ID, 3, b"three", truncated=True)
    assert logs.read(RUN_ID, 1) == RunLog(attempt=1, output=b"one", truncated=False)
    assert logs.read(RUN_ID, 2) is None
    assert logs.read(RUN_ID, 3) == RunLog(attempt=3, output=b"three", truncated=True)


def test_it_knows_which_logs_are_gone_because_they_are_old(logs: RunLogs) -> None:
    logs.check_kept(RUN_ID)
    logs.prune(1_796_004_000_000 - (1 << FOLDER_SHIFT))
    logs.check_kept(RUN_ID)
    logs.prune(1_796_004_000_000 + (1 << FOLDER_SHIFT))
    with pytest.raises(NotFound, match="so old that node n1"):
        logs.check_kept(RUN_ID)


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "0" * 12 + "-a/b", "0" * 12 + "-a.b", "", "0" * 12 + "-a\n"])
def test_no_id_leads_out_of_the_folder(logs: RunLogs, run_id: str) -> None:
    with pytest.raises(NotFound):
        logs.read(run_id, 1)
    with pytest.raises(AssertionError):
        logs.write(run_id, 1, b"", truncated=False)


def test_folders_of_runs_due_long_ago_go_as_a_whole_a_few_at_a_time(logs: RunLogs, tmp_path: Path) -> None:
    assert logs.prune(10**13) == 0
    span_ms = 1 << FOLDER_SHIFT
    for number in range(FOLDERS_PRUNED_MAX + 3):
        logs.write(f"{number * span_ms:012x}-j", 1, b"x", truncated=False)
    kept = tmp_path / "logs" / "not-a-folder-of-ours"
    kept.mkdir()
    assert logs.prune((FOLDERS_PRUNED_MAX + 1) * span_ms + 5) == FOLDERS_PRUNED_MAX
    assert logs.prune((FOLDERS_PRUNED_MAX + 1) * span_ms + 5) == 1
    assert len(list((tmp_path / "logs").iterdir())) == 2 + 1
    assert kept.is_dir()


def test_no_half_written_file_is_ever_found(logs: RunLogs, tmp_path: Path) -> None:
    logs.write(RUN_ID, 1, b"x", truncated=False)
    names = [path.name for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    assert names == [f"{RUN_ID}.1.log"]
