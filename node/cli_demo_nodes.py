"""The nodes of `horae demo`: real `horae serve` processes, restarted when somebody kills them, gone at its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.local_cluster import death_signal
from bench.ports import PORT_FIRST, PORT_LAST
from node.cli_dev import ensure_secret

HTTP_PORTS = (8101, 8102, 8103)
RAFT_PORTS = (7101, 7102, 7103)
RESTART_AFTER_S = 10.0
"""How long a killed node stays away: long enough to watch the others take over (about 6 s)."""
PORT_TRIES = 50
"""Places in which free ports are looked for when the preferred ones are taken."""
LOG_TAIL_BYTES = 2_000


@dataclass
class DemoNode:
    """One node: its addresses, its process while it runs, and how the last one ended."""

    node: str
    http: str
    raft: str
    log: Path
    process: asyncio.subprocess.Process | None = None
    ending: str = ""

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def condition(self) -> str:
        return self.ending or "up"


@dataclass
class DemoNodes:
    """Three nodes in `directory`. `on_change` hears a sentence when one ends or comes back."""

    directory: Path
    on_change: Callable[[str], None]
    nodes: list[DemoNode] = field(default_factory=list)
    restart_after_s: float = RESTART_AFTER_S
    _guards: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ports = _free_ports(HTTP_PORTS + RAFT_PORTS)
        for index in range(3):
            name = f"n{index + 1}"
            http, raft = f"127.0.0.1:{ports[index]}", f"127.0.0.1:{ports[index + 3]}"
            self.nodes.append(DemoNode(node=name, http=http, raft=raft, log=self.directory / f"{name}.log"))

    @property
    def addresses(self) -> str:
        return ",".join(f"http://{one.http}" for one in self.nodes)

    async def start(self) -> None:
        ensure_secret(self.directory / "secret")
        for one in self.nodes:
            await self._spawn(one, bootstrap=True)
            self._guards.append(asyncio.create_task(self._keep_alive(one)))

    async def stop(self) -> None:
        """Kill everything at once: the data is thrown away, so nothing needs to be handed over."""
        for guard in self._guards:
            guard.cancel()
        await asyncio.gather(*self._guards, return_exceptions=True)
        for one in self.nodes:
            if one.process is not None:
                _kill_group(one.process.pid)
                await one.process.wait()

    def fallen(self) -> DemoNode | None:
        """A node whose process has ended, if there is one."""
        return next((one for one in self.nodes if one.ending), None)

    async def _spawn(self, one: DemoNode, *, bootstrap: bool) -> None:
        command = self._command(one) + (["--bootstrap"] if bootstrap else [])
        # The descriptor is the child's after the start; a group of its own keeps the terminal's Ctrl-C away from it.
        with one.log.open("ab") as log:
            one.process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=death_signal(),
            )
        one.ending = ""

    def _command(self, one: DemoNode) -> list[str]:
        peers = ",".join(f"{other.node}={other.raft}" for other in self.nodes)
        return [
            *(sys.executable, "-m", "node.cli", "serve", "--data-dir", str(self.directory / one.node)),
            *("--node-id", one.node, "--http", one.http, "--raft", one.raft, "--peers", peers),
            *("--cluster-secret-file", str(self.directory / "secret")),
        ]

    async def _keep_alive(self, one: DemoNode) -> None:
        while one.process is not None:
            process = one.process
            code = await process.wait()
            one.ending = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            self.on_change(f"{one.node} (pid {process.pid}) {one.ending}; it comes back in {self.restart_after_s:g} s")
            _kill_group(process.pid)
            await asyncio.sleep(self.restart_after_s)
            await self._spawn(one, bootstrap=False)
            self.on_change(f"{one.node} is back as pid {one.pid}")


def tail(log: Path) -> str:
    """The end of a node's log, for when it does not come up."""
    text = log.read_bytes()[-LOG_TAIL_BYTES:] if log.exists() else b""
    return text.decode("utf-8", "replace")


def _kill_group(group: int) -> None:
    # A killed node's log process ends by itself, but the demo must leave nothing behind even if it does not.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _free_ports(preferred: Sequence[int]) -> list[int]:
    """The preferred ports when all of them are free, else as many in a row somewhere else."""
    for first in (None, *random.sample(range(PORT_FIRST, PORT_LAST), k=PORT_TRIES)):
        ports = preferred if first is None else range(first, first + len(preferred))
        with contextlib.ExitStack() as held:
            try:
                for port in ports:
                    held.enter_context(_bound(port))
                return list(ports)
            except OSError:
                continue
    raise OSError("there are no free ports on 127.0.0.1")


def _bound(port: int) -> socket.socket:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    return found
