"""A real Docker Engine for the tests: started from Debian's docker.io, with one image that is made here."""

from __future__ import annotations

import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.local_cluster import death_signal

IMAGE = "horae-test:1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
_PROGRAMS = ("cat", "dd", "echo", "env", "head", "id", "kill", "ls", "nc", "seq", "sh", "sleep", "true", "yes")


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, method: str, url: str, body: bytes | None = None) -> Any:
    """One call to an engine; its JSON, if that is what it answers."""
    connection = SocketConnection(path)
    try:
        connection.request(method, url, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    assert answer.status < 400, text
    try:
        return json.loads(text)
    except ValueError:
        return None


@contextmanager
def running_engine(folder: Path) -> Iterator[str]:
    """The path of the socket of an engine of its own, which touches neither the machine's networks nor another
    engine."""
    path = folder / "docker.sock"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(_needed("dockerd"), "--iptables=false", "--ip6tables=false", "--ip-forward=false"),
                "--bridge=none",
                *("-H", f"unix://{path}", "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                *("--pidfile", str(folder / "pid")),
            ],
            stdout=log,
            stderr=log,
            preexec_fn=death_signal(),
        )
    try:
        _wait_up(process, str(path), folder / "log")
        ask(str(path), "POST", "/images/create?fromSrc=-&repo=horae-test&tag=1", image_layer())
        _try(str(path))
        yield str(path)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _unmount_below(folder)


def _unmount_below(folder: Path) -> None:
    """An engine leaves its network namespace mounted, and pytest could never remove the folder."""
    for line in Path("/proc/mounts").read_text().splitlines():
        place = line.split()[1]
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "-l", place], check=False)


def _try(path: str) -> None:
    """Whether a container can run at all: an engine may be up on a machine that gives it no right to."""
    body = {"Image": IMAGE, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", "Memory": 64 * 2**20}}
    try:
        ask(path, "POST", "/containers/create?name=trial", json.dumps(body).encode())
        ask(path, "POST", "/containers/trial/start")
        assert ask(path, "POST", "/containers/trial/wait")["StatusCode"] == 0
    except AssertionError as error:
        pytest.skip(f"the engine can run no container here: {error}")
    ask(path, "DELETE", "/containers/trial?force=1")


def image_layer() -> bytes:
    """The files of the image: a static busybox under the names of its programs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(_needed("busybox"), "bin/busybox")
        for name in _PROGRAMS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return packed.getvalue()


def _needed(program: str) -> str:
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None or os.geteuid() != 0:
        pytest.skip(f"needs root and {program}: make container-tools installs docker.io and busybox-static")
    return found


def _wait_up(process: subprocess.Popen[bytes], path: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            ask(path, "GET", "/_ping")
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"dockerd cannot run here: {log.read_text(errors='replace')[-1000:]}")
            time.sleep(0.05)  # there is no signal to wait for in another process
