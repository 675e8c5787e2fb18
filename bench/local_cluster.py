"""Real nodes on this machine: each `horae serve` in a process group of its own, on loopback, with a directory of its
own.

For the bench and for tests/cluster: nodes can be stopped, killed, paused and started again; none outlives `close()`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import aiohttp

from bench.ports import PortBlock
from node.clock import Clock, SystemClock

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
"""Longer than a node's own limit for draining (10 s), shorter than anybody's patience."""
POLL_EVERY_S = 0.05
PR_SET_PDEATHSIG = 1
ENTRY = "from node.cli import main; main()"


class NodeDied(Exception):
    """A node ended although nobody stopped it; the message has the end of its log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePlace:
    """Where a node listens and keeps its data."""

    name: str
    http: str
    raft: str
    data_dir: Path
    log: Path

    @property
    def url(self) -> str:
        return f"http://{self.http}"


class LocalCluster:
    """A cluster of `size` nodes below `root`, and `workers` w1, w2, … beside its members. `flags` go to every `horae
    serve`. Use as an async context manager: it enters with all nodes ready."""

    def __init__(
        self,
        root: Path,
        *,
        size: int = 3,
        workers: int = 0,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._ports = PortBlock(2 * (size + workers))
        self._members = [f"n{number}" for number in range(1, size + 1)]
        names = [*self._members, *(f"w{number}" for number in range(1, workers + 1))]
        self.places = _places(root, names, self._ports.ports)
        self._secret = root / "secret"
        self._flags = tuple(flags)
        self._environment = dict(environment or {})
        self._clock = clock or SystemClock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started: set[str] = set()

    async def __aenter__(self) -> LocalCluster:
        try:
            self.start(*self.places)
            await self.wait_ready(*self.places)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def urls(self) -> dict[str, str]:
        return {name: place.url for name, place in self.places.items()}

    @property
    def running(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is None]

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def start(self, *names: str) -> None:
        """Start nodes; does not wait until they are ready. Only a node's first start has --bootstrap."""
        self._write_secret()
        for name in names:
            place = self.places[name]
            place.data_dir.mkdir(parents=True, exist_ok=True)
            with place.log.open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-c", ENTRY, *self._arguments(place)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # a group of its own: what is sent to a node reaches its log process too
                    env=_environment(self._environment),
                    preexec_fn=death_signal(),
                )
            self._started.add(name)

    async def wait_ready(self, *names: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until /readyz of each answers 200. Raises TimeoutError, or NodeDied if one ended meanwhile."""
        async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as session:
            await asyncio.gather(*(self._wait_ready(session, name) for name in names))

    async def _wait_ready(self, session: aiohttp.ClientSession, name: str) -> None:
        while not await _answers(session, f"{self.places[name].url}/readyz"):
            self.check_alive(name)
            await asyncio.sleep(POLL_EVERY_S)

    def check_alive(self, *names: str) -> None:
        """Raises NodeDied if one of the nodes (all that were started, if none is named) has ended by itself."""
        for name in names or tuple(self._processes):
            code = self._processes[name].poll()
            if code is not None:
                raise NodeDied(f"{name} ended with {code}:\n{self.log_tail(name)}")

    def log_tail(self, name: str, lines: int = 30) -> str:
        text = self.places[name].log.read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    async def stop(self, name: str, *, timeout_s: float = STOP_TIMEOUT_S) -> float:
        """SIGTERM: the node drains. Returns the seconds that it took. Raises TimeoutError if it has not ended by
        then."""
        begun = self._clock.monotonic()
        self._processes[name].terminate()
        await self._wait_gone(name, timeout_s)
        return self._clock.monotonic() - begun

    async def kill(self, *names: str, parent_only: bool = False) -> None:
        """SIGKILL to both processes of each node at once, or to the node process alone; waits until all of it is
        gone."""
        for name in names:
            if parent_only:
                self._processes[name].kill()
            else:
                self._signal(name, signal.SIGKILL)
        await asyncio.gather(*(self._wait_gone(name, STOP_TIMEOUT_S) for name in names))

    def pause(self, name: str) -> None:
        """SIGSTOP to both processes of the node."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    async def close(self) -> None:
        """Kill whatever still runs, the groups of ended nodes too (a log process that was left behind)."""
        await self.kill(*self._processes)
        self._processes.clear()
        self._ports.release()

    def _arguments(self, place: NodePlace) -> Iterable[str]:
        peers = ",".join(f"{name}={self.places[name].raft}" for name in self._members)
        yield from ("serve", "--data-dir", str(place.data_dir), "--node-id", place.name)
        yield from ("--http", place.http, "--raft", place.raft, "--peers", peers)
        yield from ("--cluster-secret-file", str(self._secret))
        if place.name not in self._members:
            yield "--worker"
        elif place.name not in self._started:
            yield "--bootstrap"
        yield from self._flags

    def _write_secret(self) -> None:
        if not self._secret.exists():
            self._secret.parent.mkdir(parents=True, exist_ok=True)
            self._secret.touch(mode=0o600)
            self._secret.write_text(secrets.token_hex(32))

    def _signal(self, name: str, number: signal.Signals) -> None:
        try:
            os.killpg(self._processes[name].pid, number)
        except ProcessLookupError:
            return

    async def _wait_gone(self, name: str, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while not self._is_gone(name):  # noqa: ASYNC110  (no event tells it)
                await asyncio.sleep(POLL_EVERY_S)

    def _is_gone(self, name: str) -> bool:
        process = self._processes[name]
        return process.poll() is not None and not _group_lives(process.pid)


def death_signal() -> Callable[[], None] | None:
    """For a child's preexec_fn: on Linux, the kernel kills it when this process dies without cleaning up (kill -9)."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return lambda: library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings that are meant for another node of this machine."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}
    return {**inherited, **more}


def _group_lives(group: int) -> bool:
    """Whether a process of the group still runs. A zombie that init has not reaped yet holds nothing any more."""
    return any(_group_and_state(entry) == (group, True) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _group_and_state(entry: Path) -> tuple[int, bool] | None:
    try:
        after_name = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(after_name[2]), after_name[0] not in "ZX"


def _places(root: Path, names: Sequence[str], free: Iterable[int]) -> dict[str, NodePlace]:
    ports = iter(free)
    return {
        name: NodePlace(
            name=name,
            http=f"127.0.0.1:{next(ports)}",
            raft=f"127.0.0.1:{next(ports)}",
            data_dir=root / name,
            log=root / f"{name}.log",
        )
        for name in names
    }


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=2.0)) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False
