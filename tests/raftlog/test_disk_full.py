"""Trap 11 with real log processes on real small file systems: a full disk costs its own node, for as long as it is
full, and nothing that was acknowledged. (Without the watermark: the last class, and test_space.py's trap 11.)"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import ledger
import pytest
from log_cluster import LogCluster, free_port
from small_disk import SmallDisk

from raftlog.child import start_log_process
from raftlog.client import LogClient
from raftlog.config import MIB, RaftConfig
from raftlog.errors import DiskFull, LogError, LogRefused, OutcomeUnknown
from raftlog.interface import Lane

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DISK_BYTES = 64 * MIB
"""The reserve is a tenth of it, the node stands aside below 1.6 MiB."""
LOW_BYTES = 4 * MIB
OUT_BYTES = MIB
"""Below that level, and enough for the commits until the next look at the disk: what takes the last byte at once ends
the process, see TestACommitThatFails."""
SMALL_BYTES = 40 * MIB
AGAIN_AFTER_S = 0.02


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, SmallDisk]]:
    mounted: dict[str, SmallDisk] = {}
    try:
        for number in (1, 2, 3):
            mounted[f"n{number}"] = SmallDisk(tmp_path / f"n{number}", DISK_BYTES)
        yield mounted
    finally:
        for disk in mounted.values():
            disk.close()


@pytest.fixture
async def cluster(tmp_path: Path, disks: dict[str, SmallDisk]) -> AsyncIterator[LogCluster]:
    cluster = LogCluster(tmp_path, 3)
    await cluster.start()
    yield cluster
    await cluster.close()


class Writers:
    """Clients of every node, which write as fast as they are answered and remember what they were told."""

    def __init__(self, cluster: LogCluster) -> None:
        self.acknowledged: list[bytes] = []
        self._answered = asyncio.Event()
        self.refused: dict[str, list[LogError]] = {node: [] for node in cluster.clients}
        self.tasks = [asyncio.create_task(self._write(node, client)) for node, client in cluster.clients.items()]

    async def _write(self, node: str, client: LogClient) -> None:
        number = 0
        while True:
            number += 1
            command = f"{node} {number}".encode().ljust(ledger.NAME_BYTES) + bytes(2000)
            try:
                await client.propose(command, timeout_s=5)
            except LogError as error:
                self.refused[node].append(error)
                await asyncio.wait((client.closed,), timeout=AGAIN_AFTER_S)
            else:
                self.acknowledged.append(command[: ledger.NAME_BYTES])
                self._answered.set()

    async def more(self, count: int) -> None:
        """Until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(30):
            while len(self.acknowledged) < wanted:
                self._answered.clear()
                await self._answered.wait()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def refuses(client: LogClient) -> bool:
    return client.status.refuses_clients


async def test_a_leader_with_little_room_hands_over_and_refuses_its_own_clients_only(
    cluster: LogCluster, disks: dict[str, SmallDisk]
) -> None:
    low = await cluster.leader()
    writers = Writers(cluster)
    await writers.more(100)
    term = cluster.clients[low].status.term
    disks[low].fill(leave_bytes=LOW_BYTES)
    others = [node for node in cluster.clients if node != low]
    new = await cluster.leader(among=others)
    await cluster.until(lambda: refuses(cluster.clients[low]))
    assert cluster.clients[new].status.term == term + 1, "one handover, not election after election"
    await writers.more(100)
    assert not any(refuses(cluster.clients[node]) for node in others)
    with pytest.raises(DiskFull, match=rf"{low} .*nearly full") as refusal:
        await cluster.clients[low].propose(b"a client's")
    assert refusal.value.definite
    await cluster.clients[low].propose(b"a result", lane=Lane.WORK)
    await cluster.clients[low].propose(b"a lease", lane=Lane.URGENT)
    disks[low].free()
    await cluster.until(lambda: not refuses(cluster.clients[low]))
    await cluster.clients[low].propose(b"a client's, again")
    await writers.end()
    assert all(type(error) is DiskFull for error in writers.refused[low])
    await cluster.equal_standing()
    assert cluster.ledger_of(low).keys() >= {*writers.acknowledged, b"a result", b"a client's, again"}


@pytest.mark.parametrize("whose", ["a follower's", "the leader's"])
async def test_a_node_whose_disk_is_full_stands_aside_and_comes_back(
    cluster: LogCluster, disks: dict[str, SmallDisk], whose: str
) -> None:
    leader = await cluster.leader()
    full = leader if whose == "the leader's" else next(node for node in cluster.clients if node != leader)
    others = [node for node in cluster.clients if node != full]
    before = [f"before {number}".encode() for number in range(20)]
    await asyncio.gather(*(cluster.clients[full].propose(command) for command in before))
    disks[full].fill(leave_bytes=OUT_BYTES)
    await cluster.until(lambda: not cluster.clients[full].status.quorum)
    await cluster.leader(among=others)
    for number in range(50):
        await cluster.clients[others[number % 2]].propose(b"%d" % number + bytes(20_000))
    for lane in Lane:
        with pytest.raises(DiskFull):
            await cluster.clients[full].propose(b"anything", lane=lane)
    assert not cluster.clients[full].closed.done(), "it does not die of it"
    disks[full].free()
    await cluster.until(lambda: cluster.clients[full].status.quorum and not refuses(cluster.clients[full]))
    await cluster.clients[full].propose(b"after")
    await cluster.equal_standing()
    assert cluster.ledger_of(full).keys() >= {*before, b"after"}


async def test_when_two_of_three_are_short_of_room_no_node_takes_clients(
    cluster: LogCluster, disks: dict[str, SmallDisk]
) -> None:
    await cluster.leader()
    for node in ("n1", "n2"):
        disks[node].fill(leave_bytes=LOW_BYTES)
    await cluster.until(lambda: all(map(refuses, cluster.clients.values())))
    await cluster.until(lambda: all(one.status.low_disks == ("n1", "n2") for one in cluster.clients.values()))
    with pytest.raises(DiskFull, match="n1, n2"):
        await cluster.clients["n3"].propose(b"a client's")
    for node, client in cluster.clients.items():
        await client.propose(f"{node}'s own".encode(), lane=Lane.WORK)
    assert await cluster.leader() == "n3", "who has room leads"
    disks["n2"].free()
    await cluster.until(lambda: not refuses(cluster.clients["n3"]))
    await cluster.clients["n3"].propose(b"a client's")
    await cluster.equal_standing()


class TestACommitThatFails:
    """What the watermark is there to prevent: here it is switched off, and the same load ends the process."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[SmallDisk]:
        disk = SmallDisk(tmp_path / "n1", SMALL_BYTES)
        yield disk
        disk.close()

    async def start(self, disk: SmallDisk, *, watches_disk: bool) -> LogClient:
        peers = {"n1": f"127.0.0.1:{free_port()}"}
        argv = ledger.argv(disk.place, "n1", peers, watches_disk=watches_disk)
        return await start_log_process(argv, disk.place, RaftConfig())

    async def load(self, client: LogClient, size: int = 30_000) -> tuple[list[bytes], LogError]:
        """Write until it is refused, or the end."""
        acknowledged: list[bytes] = []
        while True:
            command = (b"%d" % len(acknowledged)).ljust(ledger.NAME_BYTES)
            try:
                await client.propose(command + os.urandom(size))
            except LogError as error:
                return acknowledged, error
            acknowledged.append(command)

    async def test_watched_it_does_not_come_to_that(self, disk: SmallDisk) -> None:
        """The disk fills slowly enough for a look ten times a second: what fills it at once ends the process, too."""
        client = await self.start(disk, watches_disk=True)
        disk.fill(leave_bytes=SMALL_BYTES // 4)
        acknowledged, error = await self.load(client, 3_000)
        assert type(error) is DiskFull
        assert len(acknowledged) > 10
        await client.propose(b"a lease", lane=Lane.URGENT)
        await client.close()

    async def test_it_ends_the_process_with_a_clear_line_and_loses_nothing(
        self, disk: SmallDisk, capfd: pytest.CaptureFixture[str]
    ) -> None:
        client = await self.start(disk, watches_disk=False)
        acknowledged, error = await self.load(client)
        assert type(error) is OutcomeUnknown
        await client.closed
        await client.close()
        assert client.end == "exit code 74"
        err = capfd.readouterr().err
        assert "the log process of n1 ends: the disk under" in err
        assert "is full" in err
        assert "make room there and start this node again" in err
        assert "Traceback" not in err
        disk.grow(DISK_BYTES)
        client = await self.start(disk, watches_disk=True)
        await client.propose(b"a lease", lane=Lane.URGENT)
        await client.close()
        kept = ledger.Ledger(disk.place)
        assert kept.commands().keys() >= {*acknowledged}
        kept.close()

    async def test_a_start_without_any_room_is_refused_in_one_line(
        self, disk: SmallDisk, capfd: pytest.CaptureFixture[str]
    ) -> None:
        disk.fill()
        with pytest.raises(LogRefused, match=r"is full .*make room there"):
            await self.start(disk, watches_disk=True)
        assert "Traceback" not in capfd.readouterr().err
        disk.free()
        client = await self.start(disk, watches_disk=True)
        await client.propose(b"x")
        await client.close()
