"""The guard of a node's commands: a small process of its own that ends them if the node dies without doing so."""

from __future__ import annotations

import subprocess
import sys
import threading

from executor import process_marks


class Guard:
    """Started with the first command, and again if somebody ended it. It reads from a pipe whose other end is this
    process's alone, so it learns of this process's end however it came."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ensure_running(self) -> None:
        """Blocks for the time of an exec. Raises OSError."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._process = self._start()

    def stop(self) -> None:
        """End it: whoever stops it has ended what it guards."""
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", process_marks.__file__, self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # what is sent to the node's group must not reach it
        )

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None
