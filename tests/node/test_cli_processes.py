"""`horae dev` and `horae demo` as people start them: real processes, real nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HORAE = [sys.executable, "-m", "node.cli"]
READY_S = 30
DRAIN_S = 15

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


class Dev:
    """A running `horae dev`."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [*HORAE, "dev", "--data-dir", str(directory)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[1]

    def horae(self, *arguments: str) -> str:
        """What a command prints once the node is ready for it."""
        environment = os.environ | {"HORAE_URL": self.address}
        while True:
            done = subprocess.run(
                [*HORAE, *arguments], env=environment, capture_output=True, text=True, timeout=READY_S, check=False
            )
            if done.returncode != 3:
                assert done.returncode == 0, done.stderr
                return done.stdout
            assert self.process.poll() is None, "the node ended"

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        with self.process:
            return self.process.wait(DRAIN_S)


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    dev = Dev(tmp_path)
    yield dev
    if dev.process.poll() is None:
        os.killpg(dev.process.pid, signal.SIGKILL)
    with dev.process:  # waits, and closes the pipe
        pass


def test_dev_keeps_its_jobs_over_a_restart(dev: Dev, tmp_path: Path) -> None:
    create = (
        "job",
        "create",
        "--name",
        "hello",
        "--schedule",
        "@daily",
        "--tz",
        "UTC",
        "--noop",
        "--idempotency-key",
        "k",
    )
    created = json.loads(dev.horae(*create))
    run_id = json.loads(dev.horae("job", "run", "hello"))["run_id"]
    assert dev.stop() == 0
    again = Dev(tmp_path)
    try:
        assert json.loads(again.horae(*create)) == created
        assert json.loads(again.horae("run", "list", "hello"))["items"][0]["run_id"] == run_id
        assert json.loads(again.horae("cluster", "status"))["quorum"] is True
    finally:
        assert again.stop() == 0


def test_a_second_dev_on_the_same_data_says_why_it_cannot_start(dev: Dev, tmp_path: Path) -> None:
    dev.horae("cluster", "status")
    second = subprocess.run(
        [*HORAE, "dev", "--data-dir", str(tmp_path)], capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert second.returncode == 1
    assert "Traceback" not in second.stderr
    assert re.search(r" is in use by process \d+$", second.stderr.splitlines()[-1])


def test_the_demo_shows_runs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*HORAE, "demo", "--duration", "6"], env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\d:\d\d:\d\d  hello +succeeded  on n[123], \+\d+ ms", done.stdout)
    assert re.search(r"\d\d:\d\d:\d\d  beat +succeeded", done.stdout)
    assert re.search(r"kill -9 \d+ ", done.stdout)
    pids = [int(pid) for pid in re.findall(r"^n[123]  pid (\d+)  API http://127.0.0.1:\d+$", done.stdout, re.MULTILINE)]
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert list(tmp_path.iterdir()) == []


def test_the_demo_ends_at_ctrl_c(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([*HORAE, "demo"], env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any("waiting for a quorum" in line for line in iter(demo.stdout.readline, ""))
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(10) == 0
    assert "stopping the nodes" in rest
    assert list(tmp_path.iterdir()) == []
