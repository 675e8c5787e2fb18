"""Real log processes on loopback, and what tests do to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import ledger

from bench.ports import PortBlock
from raftlog.child import start_log_process
from raftlog.client import LogClient
from raftlog.config import RaftConfig
from raftlog.errors import LogError
from raftlog.interface import Role

WAIT_S = 30.0
ASK_EVERY_S = 1.0


class LogCluster:
    """`size` nodes n1, n2, … each with its data directory under `root`; `clients` are those that run. `raft` are
    settings of the log that differ from the usual."""

    def __init__(self, root: Path, size: int, *, raft: Mapping[str, int] | None = None) -> None:
        self.root = root
        self.raft = raft
        self._ports = PortBlock(size)
        self.peers = {f"n{number}": f"127.0.0.1:{port}" for number, port in enumerate(self._ports.ports, 1)}
        self.clients: dict[str, LogClient] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def data_dir(self, node: str) -> Path:
        return self.root / node

    async def start(self, *nodes: str) -> None:
        started = await asyncio.gather(*(self._started(node) for node in nodes or self.peers))
        self.clients.update(zip(nodes or self.peers, started, strict=True))
        for node in nodes or self.peers:
            self._asking[node] = asyncio.create_task(ask_on(self.clients[node]))

    async def _started(self, node: str) -> LogClient:
        argv = ledger.argv(self.data_dir(node), node, self.peers, raft=self.raft)
        return await start_log_process(argv, self.data_dir(node), RaftConfig())

    async def kill(self, node: str) -> None:
        """SIGKILL, and wait until it is gone."""
        client = self.clients.pop(node)
        self._asking.pop(node).cancel()
        self.signal_to(client, signal.SIGKILL)
        await client.closed
        await client.close()

    def stop(self, node: str) -> None:
        self.signal_to(self.clients[node], signal.SIGSTOP)

    def go_on(self, node: str) -> None:
        self.signal_to(self.clients[node], signal.SIGCONT)

    @staticmethod
    def signal_to(client: LogClient, number: int) -> None:
        assert client.process_id is not None
        os.kill(client.process_id, number)

    async def close(self) -> None:
        for asking in self._asking.values():
            asking.cancel()
        for client in self.clients.values():
            with contextlib.suppress(ProcessLookupError):
                self.signal_to(client, signal.SIGCONT)
        await asyncio.gather(*(client.close() for client in self.clients.values()))
        self.clients.clear()
        self._ports.release()

    async def leader(self, *, among: Iterable[str] | None = None) -> str:
        """Wait until a node leads and hears a majority."""

        def leading() -> str | None:
            for node in among or self.clients:
                status = self.clients[node].status
                if status.role is Role.LEADER and status.quorum:
                    return node
            return None

        await self.until(lambda: leading() is not None)
        leader = leading()
        assert leader is not None
        return leader

    async def until(self, condition: Callable[[], bool], *, timeout_s: float = WAIT_S) -> None:
        """Wait for what the status of some node will show: looked at whenever one is told."""
        told = asyncio.Event()
        for client in self.clients.values():
            client.on_status(lambda status: told.set())
        async with asyncio.timeout(timeout_s):
            while not condition():
                told.clear()
                await told.wait()

    async def equal_standing(self) -> None:
        """Wait until all running nodes stand at the same index; they must have the same digest there."""
        await asyncio.gather(*(client.read_barrier(timeout_s=WAIT_S) for client in self.clients.values()))
        ledgers = [ledger.Ledger(self.data_dir(node)) for node in self.clients]
        try:
            async with asyncio.timeout(WAIT_S):
                while len({opened.standing()[0] for opened in ledgers}) > 1:
                    await asyncio.gather(*(client.read_barrier(timeout_s=WAIT_S) for client in self.clients.values()))
            assert len({opened.standing() for opened in ledgers}) == 1
        finally:
            for opened in ledgers:
                opened.close()

    def ledger_of(self, node: str) -> dict[bytes, int]:
        opened = ledger.Ledger(self.data_dir(node))
        try:
            return opened.commands()
        finally:
            opened.close()


async def ask_on(client: LogClient) -> None:
    """Ask for something each second until the client is closed, as a node process does: a leader whose own is silent
    for three seconds hands over."""
    while not client.closed.done():
        with contextlib.suppress(LogError, TimeoutError):
            await client.read_barrier()
        await asyncio.wait([client.closed], timeout=ASK_EVERY_S)


_reserved: list[PortBlock] = []


def free_port() -> int:
    """One that stays ours until this process ends."""
    _reserved.append(PortBlock(1))
    return _reserved[-1].ports[0]
