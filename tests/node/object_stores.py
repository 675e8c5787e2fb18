"""A LogStore in memory, and a real S3 server for the one that speaks to such: versitygw, from the Go module proxy."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from node.log_store import StoreError

BUCKET = "horae-logs"
ACCESS_KEY, SECRET_KEY = "horae-tests", "a-secret-that-no-message-repeats"
STARTED_S = 20.0


@dataclass
class MemoryStore:
    """Implements LogStore. `failures` counts down: so many calls fail."""

    objects: dict[str, bytes] = field(default_factory=dict)
    failures: int = 0
    puts: list[str] = field(default_factory=list)

    async def put(self, key: str, data: bytes) -> None:
        self.puts.append(key)
        self._maybe_fail()
        self.objects[key] = data

    async def get(self, key: str) -> bytes | None:
        self._maybe_fail()
        return self.objects.get(key)

    async def delete(self, keys: Sequence[str]) -> None:
        self._maybe_fail()
        for key in keys:
            self.objects.pop(key, None)

    def _maybe_fail(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise StoreError("the store is away")


@contextlib.contextmanager
def s3_server(directory: Path) -> Iterator[str]:
    """The URL of an S3 server with an empty BUCKET. Skips the test where the server is not installed; not in CI."""
    program = shutil.which("versitygw", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None and "CI" in os.environ:
        pytest.fail("versitygw is missing: `make s3-tools` installs it")
    if program is None:
        pytest.skip("versitygw is not installed: `make s3-tools`")
    (directory / BUCKET).mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(directory)],
        env={"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_listening(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_listening(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(round(STARTED_S / 0.05)):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            pytest.fail("versitygw ended at its start")
    pytest.fail("versitygw does not listen")
