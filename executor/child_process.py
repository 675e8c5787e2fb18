"""One process that this node started: its group, its output, its end, on the event loop and without blocking it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from executor.interface import OutputSink

READ_BYTES = 64 * 1024
"""As much as a pipe holds."""
READ_REST_S = 0.005
"""How long a pipe is left alone after each read: a program that writes without end, or byte by byte, is held to 200
reads and some 13 MB a second, and does not take the node's loop for itself."""
LAST_READS_MAX = 17
"""A pipe holds 1 MiB at most."""


class _NoOutput:
    """Implements executor.interface.OutputSink."""

    def write(self, data: bytes) -> None:
        """Dropped."""


NO_OUTPUT = _NoOutput()
"""Of a process that nobody waits for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessPlan:
    """What is started: its first argument is the path of the program."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Spawned:
    """A process that runs, a handle that tells its end (a pidfd), and the read end of its output."""

    process: subprocess.Popen[bytes]
    handle: int
    output: int


def spawn(plan: ProcessPlan) -> Spawned:
    """Start a process in a session and group of its own, without standard input, its output into one pipe. Blocks for
    the time of an exec (0.2 ms; the interpreter is not copied). Raises OSError or ValueError."""
    with ExitStack() as undo:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        undo.callback(os.close, read_end)
        try:
            os.set_blocking(write_end, True)
            process = _start(plan, write_end)
        finally:
            os.close(write_end)
        undo.callback(_end, process)
        handle = os.pidfd_open(process.pid)
        undo.pop_all()
    return Spawned(process=process, handle=handle, output=read_end)


def _start(plan: ProcessPlan, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        plan.argv,
        env=plan.environment,
        cwd=plan.folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Child:
    """Watches a process that was started: hands its output on, notices its end and ends its group with it."""

    def __init__(
        self, spawned: Spawned, output: OutputSink, on_end: Callable[[Child], object] = lambda _: None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = spawned.process
        self._output_end = spawned.output
        self._output: OutputSink = output
        self._tell_end = on_end
        self._rest: asyncio.TimerHandle | None = None
        self._handle = spawned.handle
        self.ended = asyncio.Event()
        self._loop.add_reader(self._handle, self._on_end)
        self._loop.add_reader(self._output_end, self._on_output)

    @property
    def code(self) -> int:
        """The exit code, or minus the signal that killed it; once it has ended."""
        code = self._process.returncode
        assert code is not None, "asked before the end"
        return code

    async def wait_ended(self, timeout_s: float) -> bool:
        """Whether it has, in that time at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()
        return self.ended.is_set()

    def mute(self) -> None:
        """Drop what it still puts out: nobody waits for it any more."""
        self._output = NO_OUTPUT

    def signal_group(self, number: signal.Signals) -> None:
        """To all of its group. The number of the group cannot be another's: its leader is not waited for before."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _on_end(self) -> None:
        """What it left in its group ends with it; then all that was written is in the pipe."""
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self.signal_group(signal.SIGKILL)
        self._process.wait()
        self._drain()
        self.ended.set()
        self._tell_end(self)

    def _on_output(self) -> None:
        data = os.read(self._output_end, READ_BYTES)
        if not data:
            self._close_output()
            return
        self._output.write(data)
        self._loop.remove_reader(self._output_end)
        self._rest = self._loop.call_later(READ_REST_S, self._read_on)

    def _read_on(self) -> None:
        self._rest = None
        self._loop.add_reader(self._output_end, self._on_output)

    def _drain(self) -> None:
        """What the pipe still holds. A process that left the group may hold its other end: nobody waits for that."""
        if self._output_end < 0:
            return
        self._close_reader()
        with contextlib.suppress(BlockingIOError):
            for _ in range(LAST_READS_MAX):
                self._output.write(os.read(self._output_end, READ_BYTES))
        self._close_output()

    def _close_reader(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._loop.remove_reader(self._output_end)

    def _close_output(self) -> None:
        self._close_reader()
        os.close(self._output_end)
        self._output_end = -1
