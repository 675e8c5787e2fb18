"""One node as a process: how it starts, refuses to start, dies as a whole and comes back."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

WAIT_S = 30.0


@dataclass
class Node:
    """Starts `horae serve` for one data directory, again and again."""

    directory: Path
    http: str
    raft: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *more: str, start_new_session: bool = False) -> subprocess.Popen[str]:
        secret = self.directory / "secret"
        secret.write_text("x" * 32)
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from node.cli import main; main()", "serve"),
                *("--data-dir", str(self.directory / "data"), "--node-id", "n1", "--http", self.http),
                *("--raft", self.raft, "--peers", f"n1={self.raft}", "--cluster-secret-file", str(secret)),
                *("--bootstrap", *more),
            ],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=start_new_session,
        )
        self.started.append(process)
        return process

    def start_up(self) -> subprocess.Popen[str]:
        """A node whose API listens."""
        process = self.start()
        read_until(process, "API on http://")
        return process

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"http://{self.http}{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return json.load(answer)


def read_until(process: subprocess.Popen[str], part: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if part in line:
            return
    raise AssertionError(f"it ended with {process.wait()} and never said {part!r}")


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit code, and what it said on standard error that was not read yet."""
    _, text = process.communicate(timeout=WAIT_S)
    return process.returncode, text.splitlines()


def child_of(process: subprocess.Popen[str]) -> int:
    return children_of(process)[0]


def children_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(text) for text in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def is_log_process(process_id: int) -> bool:
    try:
        return b"node.log_process" in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return False


def imports_already(process_id: int) -> bool:
    """Whether Python is past the point where a signal just ends it, and is loading our modules."""
    return "/lmdb/" in Path(f"/proc/{process_id}/maps").read_text()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, free_address(), free_address())
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_S)


def free_address() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize("which", ["http", "raft"])
def test_a_port_in_use_is_one_clear_line(node: Node, which: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        setattr(node, which, address)
        code, lines = ended(node.start("--log-level", "error"))
    assert code == 1
    assert address in lines[-1] and "cannot listen" in lines[-1] and "in use" in lines[-1]
    assert "Traceback" not in "\n".join(lines)


def test_a_missing_secret_is_wrong_usage(node: Node) -> None:
    code, lines = ended(node.start("--cluster-secret-file", "/nowhere/secret"))
    assert code == 2
    assert "cluster secret file /nowhere/secret: No such file" in lines[-1]


def test_a_store_of_another_cluster_is_refused(node: Node) -> None:
    process = node.start_up()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    other = node.directory / "other"
    other.write_text("y" * 32)
    code, lines = ended(node.start("--cluster-secret-file", str(other)))
    assert code == 1
    assert "cluster" in lines[-1]
    assert not any("killed" in line for line in lines), "a log process that refuses ends by itself"


def test_told_to_stop_together_while_starting(node: Node) -> None:
    """Ctrl-C and a supervisor reach both processes at once, the child while it still imports."""
    process = node.start()
    while not (log_processes := [child for child in children_of(process) if is_log_process(child)]):
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    os.kill(log_processes[0], signal.SIGTERM)
    assert ended(process) == (0, [])


def test_ctrl_c_while_the_log_process_starts_ends_both_without_a_word(node: Node) -> None:
    """A terminal's Ctrl-C reaches every process of its group, the child in its first moment too."""
    process = node.start("--log-level", "warning", start_new_session=True)
    while not any(is_log_process(child) and imports_already(child) for child in children_of(process)):
        os.sched_yield()
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process) == (0, [])


CTRL_C_AT_AN_IMPORT = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from node.cli import main
main(["dev"])
"""


@pytest.mark.parametrize("imported", ["click", "node.cli_dev", "node.cli_serve", "node.serve", "aiohttp"])
def test_ctrl_c_while_a_command_is_imported_shows_no_traceback(imported: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C_AT_AN_IMPORT, imported],
        env=os.environ | {"HORAE_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode in (1, -signal.SIGINT)
    assert done.stderr.strip() in ("", "Aborted!")


def test_what_was_acknowledged_outlives_both_ways_to_end(node: Node) -> None:
    process = node.start_up()
    body = {"name": "a", "schedule": "0 2 * * *", "tz": "UTC", "target": {"type": "noop"}}
    job_id = node.call("POST", "/v1/jobs", body)["job_id"]
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    process = node.start_up()
    assert node.call("GET", f"/v1/jobs/{job_id}")["name"] == "a"
    second = node.call("POST", "/v1/jobs", body | {"name": "b"})["job_id"]
    process.kill()
    ended(process)
    node.start_up()
    assert node.call("GET", f"/v1/jobs/{second}")["name"] == "b"


def test_the_end_of_the_log_process_is_the_end_of_the_node(node: Node) -> None:
    process = node.start_up()
    os.kill(child_of(process), signal.SIGKILL)
    code, lines = ended(process)
    assert code == 1
    assert any("the log process ended" in line for line in lines)


def test_a_killed_node_leaves_no_log_process_behind(node: Node) -> None:
    process = node.start_up()
    handle = os.pidfd_open(child_of(process))
    try:
        process.kill()
        assert select.select([handle], [], [], WAIT_S)[0], "the log process is still there"
    finally:
        os.close(handle)


def test_what_is_no_http_and_what_is_are_told_in_the_log_as_asked(node: Node) -> None:
    process = node.start("--access-log", "--allow-link-local")
    read_until(process, "API on http://")
    host, port = node.http.split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        assert b"Content-Type: application/problem+json" in b"".join(iter(lambda: raw.recv(4096), b""))
    read_until(process, "it is not HTTP")
    body = {
        "name": "a",
        "schedule": "0 2 * * *",
        "tz": "UTC",
        "target": {"type": "http", "url": "http://169.254.169.254/"},
    }
    node.call("POST", "/v1/jobs", body)
    read_until(process, "method=POST path=/v1/jobs status=201")
    process.send_signal(signal.SIGTERM)
    code, lines = ended(process)
    assert code == 0
    assert "Traceback" not in "\n".join(lines)
