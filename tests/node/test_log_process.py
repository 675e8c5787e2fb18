"""What `serve` is told reaches the log process, and nothing secret does on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node import log_process
from node.config import ServeSettings
from raftlog.process import LogSettings


def test_the_settings_of_serve_reach_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[LogSettings] = []

    def run(settings: LogSettings, applier_factory: Any, *, monotonic: Any) -> int:
        told.append(settings)
        return 0

    monkeypatch.setattr(log_process, "run_log_process", run)
    monkeypatch.setattr(log_process, "set_up_logging", lambda **_: None)
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    settings = ServeSettings(
        data_dir=tmp_path,
        node_id="n1",
        http="127.0.0.1:8101",
        raft="127.0.0.1:7101",
        peers={"n1": "127.0.0.1:7101", "n2": "127.0.0.1:7102"},
        cluster_secret_file=secret,
        bootstrap=True,
        raft_log_mib=2,
    )
    command = log_process.command_line(settings)
    assert not any("0123456789abcdef" in word for word in command)
    assert log_process.main(command[-1]) == 0
    (log,) = told
    assert (log.data_dir, log.node, log.listen, log.peers) == (tmp_path, "n1", "127.0.0.1:7101", settings.peers)
    assert (log.secret, log.bootstrap) == (b"0123456789abcdef", True)
    assert log.raft.log_keep_bytes == 2 * 1024 * 1024
