"""One `horae serve` under a supervisor, as systemd would have it: started again when it ends, and each end noted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.local_cluster import NodePlace, death_signal
from chaos.history import Absence, Sample
from chaos.live_disk import FILLER

RESTART_S = 0.3
"""From the end of a process until it is started again."""
STOP_S = 15.0
"""A node leaves within ten seconds; after these it is killed, and that is a finding."""
Part = Literal["both", "node", "log"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A node process ended; `code` as Python has it: negative for a signal."""

    at_s: float
    node: str
    code: int


class LiveNode:
    """`argv(first)` is its command line; `first` is True for the very first start. `enter` moves the child into its
    surroundings before it begins."""

    def __init__(
        self,
        place: NodePlace,
        argv: Callable[[bool], Sequence[str]],
        *,
        environment: Mapping[str, str],
        enter: Callable[[], None] | None,
        now: Callable[[], float],
    ) -> None:
        self.place = place
        self.ends: list[Ended] = []
        self.absences: list[Absence] = []
        self.wanted = asyncio.Event()
        """Whether the supervisor keeps it up."""
        self._argv = argv
        self._environment = environment
        self._enter = enter
        self._now = now
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._first = True
        self._paused: dict[Part, float] = {}

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def pid(self) -> int | None:
        """Of the node process, while it runs."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def log_pid(self) -> int | None:
        pid = self.pid
        return None if pid is None else next(iter(_children(pid)), None)

    def up(self) -> None:
        self.wanted.set()
        if self._supervisor is None:
            self._supervisor = asyncio.create_task(self._supervise())

    def kill(self, part: Part = "both") -> None:
        """SIGKILL."""
        self._signal(part, signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM, to the node process: it drains and leaves."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGTERM)

    def pause(self, part: Part = "both") -> None:
        if self.pid is not None:
            self._signal(part, signal.SIGSTOP)
            self._paused.setdefault(part, self._now())

    def resume(self) -> None:
        self._signal("both", signal.SIGCONT)
        self._resumed()

    async def wait_down(self, timeout_s: float = STOP_S) -> bool:
        """Whether the process ended in time."""
        process = self._process
        if process is None:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> bool:
        """SIGTERM, and no more starts. Whether it left in time; else it is killed."""
        self.wanted.clear()
        self.resume()
        self.terminate()
        left = await self.wait_down()
        await self.close()
        return left

    async def close(self) -> None:
        """Kill whatever runs, and wait until it is gone."""
        self.wanted.clear()
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
            self._supervisor = None
        self._signal("both", signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    def samples(self) -> list[Sample]:
        """What its processes hold now."""
        disk = sum(_size(path) for path in self.place.data_dir.rglob("*") if path.name != FILLER)
        found: tuple[tuple[int | None, Literal["node", "log"]], ...] = ((self.pid, "node"), (self.log_pid(), "log"))
        return [
            Sample(at_s=self._now(), node=self.name, process=what, disk_bytes=disk, **held)
            for pid, what in found
            if pid is not None and (held := _held(pid)) is not None
        ]

    async def _supervise(self) -> None:
        down_s: float | None = None
        while True:
            await self.wanted.wait()
            self._process = await self._start()
            if down_s is not None:
                self.absences.append(Absence(node=self.name, from_s=down_s, until_s=self._now(), how="down"))
            code = await self._process.wait()
            down_s = self._now()
            self._resumed()
            self.ends.append(Ended(at_s=down_s, node=self.name, code=code))
            self._signal("both", signal.SIGKILL)  # a log process that was stopped may have been left behind
            await asyncio.sleep(RESTART_S)

    async def _start(self) -> asyncio.subprocess.Process:
        argv, self._first = self._argv(self._first), False
        with self.place.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
                | dict(self._environment),
                start_new_session=True,
                preexec_fn=before_exec(self._enter),
            )

    def _resumed(self) -> None:
        for part, from_s in self._paused.items():
            until_s = self._now()
            self.absences.append(Absence(node=self.name, from_s=from_s, until_s=until_s, how="paused", process=part))
        self._paused.clear()

    def _signal(self, part: Part, number: signal.Signals) -> None:
        """To the process, or to the group, which has the same number."""
        process = self._process
        if process is None:
            return
        try:
            if part == "both":
                os.killpg(process.pid, number)
            elif part == "node" and process.returncode is None:
                os.kill(process.pid, number)
            elif part == "log" and (log := self.log_pid()) is not None:
                os.kill(log, number)
        except ProcessLookupError:
            return


def before_exec(enter: Callable[[], None] | None) -> Callable[[], None]:
    """For a child's preexec_fn: it enters its surroundings, and dies with this process."""
    die_with_us = death_signal()

    def prepare() -> None:
        if enter is not None:
            enter()
        if die_with_us is not None:
            die_with_us()

    return prepare


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def _held(pid: int) -> dict[str, int] | None:
    """Descriptors, threads and memory of a process; None if it has just gone."""
    root = Path("/proc") / str(pid)
    try:
        status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines() if ":" in line)
        return {
            "descriptors": sum(1 for _ in (root / "fd").iterdir()),
            "threads": int(status["Threads"]),
            "rss_bytes": int(status["VmRSS"].split()[0]) * 1024,
        }
    except (OSError, KeyError):
        return None


def _size(path: Path) -> int:
    """Bytes on the disk: the database is sparse."""
    try:
        return path.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0
