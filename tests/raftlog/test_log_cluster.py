"""Three real log processes under load, killed and stopped: nothing acknowledged is lost or doubled, all end equal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from log_cluster import LogCluster

from raftlog.errors import LogClosed, LogError, NoQuorum, OutcomeUnknown
from raftlog.interface import EVERY_NODE, Role

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

WORKERS = 16


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    cluster = LogCluster(tmp_path, 3)
    await cluster.start()
    yield cluster
    await cluster.close()


class Load:
    """Writers of unique commands through every node; `acknowledged` and `unknown` are what became of them."""

    def __init__(self, cluster: LogCluster) -> None:
        self.cluster = cluster
        self.acknowledged: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.longest_gap_s = 0.0
        """Between two acknowledgements, whoever got them."""
        self._acknowledged_at_s = time.monotonic()
        self._going = True
        self._count = 0
        self._moved = asyncio.Event()
        self._workers = [asyncio.create_task(self._work(number)) for number in range(WORKERS)]

    async def _work(self, number: int) -> None:
        while self._going:
            nodes = sorted(self.cluster.clients)
            self._count += 1
            await self._write(nodes[number % len(nodes)], b"command %d" % self._count)

    async def _write(self, node: str, command: bytes) -> None:
        try:
            await self.cluster.clients[node].propose(command)
        except OutcomeUnknown:
            self.unknown.add(command)
        except LogError:
            self.refused.add(command)
            await asyncio.sleep(0.01)
        else:
            self.acknowledged.add(command)
            now_s = time.monotonic()
            self.longest_gap_s = max(self.longest_gap_s, now_s - self._acknowledged_at_s)
            self._acknowledged_at_s = now_s
            self._moved.set()

    async def moves_on(self, count: int = 200) -> None:
        """Until so many more commands are acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(30):
            while len(self.acknowledged) < wanted:
                self._moved.clear()
                await self._moved.wait()

    async def end(self) -> None:
        self._going = False
        await asyncio.gather(*self._workers)

    def judge(self, ledger: dict[bytes, int]) -> None:
        assert self.acknowledged - set(ledger) == set(), "acknowledged and lost"
        assert {command for command, times in ledger.items() if times != 1} == set(), "applied more than once"
        assert not self.refused & set(ledger), "refused as never sent, and yet applied"
        assert set(ledger) <= self.acknowledged | self.unknown


async def settled(cluster: LogCluster, load: Load) -> None:
    """End the load, and judge what every node has."""
    await load.end()
    assert len(cluster.clients) == 3
    await cluster.equal_standing()
    for node in cluster.clients:
        load.judge(cluster.ledger_of(node))


async def test_writes_through_every_node_are_applied_once_on_all(cluster: LogCluster) -> None:
    await cluster.leader()
    load = Load(cluster)
    await load.moves_on(1000)
    await settled(cluster, load)
    assert not load.unknown | load.refused


async def test_a_killed_leader_costs_a_moment_and_nothing_else(cluster: LogCluster) -> None:
    load = Load(cluster)
    await load.moves_on()
    for _ in range(2):
        load.longest_gap_s = 0.0
        victim = await cluster.leader()
        await cluster.kill(victim)
        await cluster.leader()
        await load.moves_on()
        print(f"leader {victim} killed: longest gap {load.longest_gap_s:.2f} s")
        assert load.longest_gap_s < 5
        await cluster.start(victim)
        await load.moves_on()
    await settled(cluster, load)


async def test_a_leader_that_hands_over_costs_less_than_an_election(cluster: LogCluster) -> None:
    """Under load, and then its process ends: an election would begin after its shortest timeout of 0.6 s."""
    load = Load(cluster)
    await load.moves_on()
    gaps_s = []
    for _ in range(3):
        load.longest_gap_s = 0.0
        leader = await cluster.leader()
        assert await cluster.clients[leader].transfer_leadership()
        assert cluster.clients[leader].status.leader in set(cluster.clients) - {leader}
        leaving = cluster.clients.pop(leader)
        await leaving.close()
        await load.moves_on()
        gaps_s.append(round(load.longest_gap_s, 3))
        await cluster.start(leader)
    print(f"leadership handed over: longest gaps {gaps_s} s")
    assert min(gaps_s) < 0.3
    await settled(cluster, load)


async def test_a_killed_follower_costs_nothing(cluster: LogCluster) -> None:
    load = Load(cluster)
    await load.moves_on()
    leader = await cluster.leader()
    victim = min(set(cluster.clients) - {leader})
    await cluster.kill(victim)
    await load.moves_on()
    assert await cluster.leader() == leader
    await cluster.start(victim)
    await load.moves_on()
    await settled(cluster, load)


async def test_all_killed_at_once_under_load_lose_nothing_acknowledged(cluster: LogCluster) -> None:
    load = Load(cluster)
    await load.moves_on(500)
    await asyncio.gather(*(cluster.kill(node) for node in [*cluster.clients]), load.end(), return_exceptions=False)
    await cluster.start()
    await settled(cluster, load)


async def test_a_stopped_leader_is_replaced_and_comes_back_as_a_follower(cluster: LogCluster) -> None:
    load = Load(cluster)
    await load.moves_on()
    stopped = await cluster.leader()
    others = sorted(set(cluster.clients) - {stopped})
    load.longest_gap_s = 0.0
    cluster.stop(stopped)
    await cluster.leader(among=others)
    await load.moves_on()
    print(f"leader {stopped} stopped: longest gap {load.longest_gap_s:.2f} s")
    assert load.longest_gap_s < 5
    await asyncio.sleep(3.0)
    cluster.go_on(stopped)
    await cluster.until(
        lambda: (
            cluster.clients[stopped].status.role is Role.FOLLOWER and cluster.clients[stopped].status.leader in others
        )
    )
    await load.moves_on()
    await settled(cluster, load)


async def test_without_a_majority_nothing_is_acknowledged_and_it_goes_on_when_it_is_back(cluster: LogCluster) -> None:
    leader = await cluster.leader()
    client = cluster.clients[leader]
    for node in sorted(set(cluster.clients) - {leader}):
        await cluster.kill(node)
    with pytest.raises(OutcomeUnknown):
        await client.propose(b"alone", timeout_s=0.5)
    with pytest.raises(NoQuorum):
        await client.read_barrier(timeout_s=0.5)
    await cluster.until(lambda: not client.status.quorum)
    waiting = asyncio.create_task(client.propose(b"patient", timeout_s=30))
    await cluster.start(*sorted(set(cluster.peers) - {leader}))
    await waiting
    await cluster.equal_standing()
    assert cluster.ledger_of(leader)[b"patient"] == 1
    assert cluster.ledger_of(leader).get(b"alone", 1) == 1


async def test_a_barrier_sees_what_was_acknowledged_elsewhere(cluster: LogCluster) -> None:
    await cluster.leader()
    for number in range(50):
        writer, reader = (sorted(cluster.clients)[index % 3] for index in (number, number + 1))
        command = b"write %d" % number
        await cluster.clients[writer].propose(command)
        await cluster.clients[reader].read_barrier()
        assert cluster.ledger_of(reader)[command] == 1


async def test_events_reach_the_nodes_that_subscribed(cluster: LogCluster) -> None:
    await cluster.leader()
    heard: dict[str, list[bytes]] = {node: [] for node in cluster.clients}
    at_last = {node: asyncio.Event() for node in cluster.clients}
    for node, client in cluster.clients.items():
        client.subscribe(node, lambda index, bodies, node=node: heard[node].extend(bodies))  # type: ignore[misc]
        client.subscribe(EVERY_NODE, lambda index, bodies, node=node: at_last[node].set())  # type: ignore[misc]
        await client.read_barrier()  # the subscriptions went the same way before it
    for node in heard:
        await cluster.clients["n1"].propose(b"event:" + node.encode())
    await cluster.clients["n1"].propose(b"event:")
    async with asyncio.timeout(10):
        await asyncio.gather(*(event.wait() for event in at_last.values()))
    assert heard == {node: [b"event:" + node.encode()] for node in heard}


async def test_a_node_that_is_closed_refuses_and_the_others_go_on(cluster: LogCluster) -> None:
    leader = await cluster.leader()
    client = cluster.clients.pop(leader)
    await client.close()
    with pytest.raises(LogClosed):
        await client.propose(b"x")
    await cluster.leader()
    assert await cluster.clients[min(cluster.clients)].propose(b"y") == b"1"
