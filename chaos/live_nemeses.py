"""The faults of a live run: each is injected when it is entered, and healed when it is left, however that happens."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from chaos.history import Fault
from chaos.live_faults import ALONE, Planned
from chaos.live_network import Cut, both_ways, ring_cuts
from chaos.live_node import LiveNode

if TYPE_CHECKING:
    from chaos.live_cluster import LiveCluster

AT_ONCE_MAX = 2
"""Faults that last at the same time."""
READY_S = 30.0
"""From a start until a node is ready, when nothing else is wrong."""
REJOIN_S = 60.0
EXCUSED_S = 5.0
"""So long after a fault of this kind a node may end by itself, because of it."""


class Nemeses:
    """Carries a schedule out. Each fault's further draws come from the seed and its number."""

    def __init__(self, cluster: LiveCluster, schedule: Iterable[Planned], seed: int) -> None:
        self.injected: list[Fault] = []
        self._cluster = cluster
        self._schedule = list(schedule)
        self._seed = seed
        self._lasting: set[asyncio.Task[None]] = set()

    async def run(self, until_s: float) -> None:
        """Until the time of the experiment is `until_s`; whatever lasts then is healed."""
        begin_s = self._cluster.now()
        try:
            async with asyncio.timeout(until_s - begin_s):
                for planned in self._schedule:
                    await asyncio.sleep(begin_s + planned.at_s - self._cluster.now())
                    await self._begin(planned)
                await asyncio.sleep(until_s)
        except TimeoutError:
            pass
        finally:
            await self._heal()

    async def _begin(self, planned: Planned) -> None:
        room = 0 if planned.kind in ALONE else AT_ONCE_MAX - 1
        while len(self._lasting) > room:
            await asyncio.wait(self._lasting, return_when=asyncio.FIRST_COMPLETED)
        if planned.kind in ALONE:
            await self._carry_out(planned)
            return
        task = asyncio.create_task(self._carry_out(planned))
        self._lasting.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._lasting.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._cluster.failed(task.exception())

    async def _heal(self) -> None:
        for task in tuple(self._lasting):
            task.cancel()
        await asyncio.gather(*self._lasting, return_exceptions=True)

    async def _carry_out(self, planned: Planned) -> None:
        dice = random.Random(f"{self._seed} {planned.number}")
        from_s = self._cluster.now()
        told: list[str] = []
        try:
            async with NEMESES[planned.kind](self._cluster, planned, dice) as what:
                told.append(what)
                self._cluster.say(f"{from_s:7.1f} s  {planned.kind} {what}")
                await asyncio.sleep(planned.lasts_s)
        finally:
            what = told[0] if told else "cut short by the end"
            node = what.split()[0]
            self.injected.append(
                Fault(
                    at_s=from_s,
                    what=f"{planned.kind} {what}",
                    node=node if node in self._cluster.nodes else None,
                    until_s=self._cluster.now(),
                )
            )


def victims_of(cluster: LiveCluster, planned: Planned, dice: random.Random) -> list[LiveNode]:
    """Whom it hits now."""
    nodes = list(cluster.nodes.values())
    if planned.who == "all":
        return nodes
    if planned.who == "minority":
        return dice.sample(nodes, (len(nodes) - 1) // 2)
    leader = cluster.leader
    if planned.who == "leader" and leader is not None:
        return [cluster.nodes[leader]]
    return [dice.choice(nodes)]


def _names(nodes: Iterable[LiveNode]) -> str:
    return "+".join(node.name for node in nodes)


@asynccontextmanager
async def kill(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """SIGKILL; the supervisor starts it again at once, or when the fault is over."""
    victims = victims_of(cluster, planned, dice)
    for node in victims:
        if planned.lasts_s > 0:
            node.wanted.clear()
        cluster.excuse(node.name, EXCUSED_S)
        node.kill(planned.part)
    try:
        yield f"{_names(victims)} {planned.part}"
    finally:
        for node in victims:
            node.up()


@asynccontextmanager
async def pause(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """SIGSTOP."""
    victims = victims_of(cluster, planned, dice)
    for node in victims:
        node.pause(planned.part)
    try:
        yield f"{_names(victims)} {planned.part} {planned.lasts_s:.1f} s"
    finally:
        for node in victims:
            node.resume()


@asynccontextmanager
async def restart(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """SIGTERM; on a coin, SIGKILL while it drains."""
    victims = victims_of(cluster, planned, dice)
    for node in victims:
        node.terminate()
    if planned.coin:
        await asyncio.sleep(dice.uniform(0.05, 2.0))
        for node in victims:
            node.kill()
    yield f"{_names(victims)}{' killed while leaving' if planned.coin else ''}"


@asynccontextmanager
async def rolling(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """Every node in turn, as an upgrade does it: the next one when the last is ready."""
    order = dice.sample(list(cluster.nodes.values()), len(cluster.nodes))
    for node in order:
        await cluster.wait_ready(READY_S)
        node.terminate()
        if not await node.wait_down():
            cluster.broken.append(f"{node.name} did not leave in time during a rolling restart")
            node.kill()
    if not await cluster.wait_ready(READY_S):
        cluster.broken.append(f"not all nodes were ready {READY_S:g} s after a rolling restart")
    yield ">".join(node.name for node in order)


@asynccontextmanager
async def wipe(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """A disk is lost; the node comes back empty under its id. Nothing else begins before it has what the others had
    then: until then it is a vote less, and the copies of what was acknowledged are one fewer."""
    node = dice.choice(list(cluster.nodes.values()))
    if not await cluster.wait_ready(READY_S):
        yield "of nobody: not all were ready"
        return
    target = cluster.applied_max()
    node.wanted.clear()
    node.kill()
    await node.wait_down()
    try:
        cluster.wipe(node.name)
    finally:
        node.up()
    caught_up = await cluster.wait_applied(node.name, target, REJOIN_S) and await cluster.wait_ready(READY_S)
    if not caught_up:
        cluster.broken.append(f"{node.name} was wiped and had not caught up with {target} after {REJOIN_S:g} s")
    yield f"{node.name}"


@asynccontextmanager
async def disk_full(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """Every byte of the disks is taken."""
    victims = victims_of(cluster, planned, dice)
    for node in victims:
        cluster.excuse(node.name, planned.lasts_s + EXCUSED_S)
        cluster.disks[node.name].fill()
    try:
        yield f"{_names(victims)} {planned.lasts_s:.1f} s"
    finally:
        for node in victims:
            cluster.disks[node.name].free()


@asynccontextmanager
async def clock(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """Wall clocks jump, of a minority at most: what most clocks say is right by definition."""
    free = (len(cluster.nodes) - 1) // 2 - len(cluster.clocks_off)
    candidates = [node for node in victims_of(cluster, planned, dice) if node.name not in cluster.clocks_off]
    victims = candidates[: max(free, 0)]
    for node in victims:
        cluster.set_clock(node.name, planned.amount)
    try:
        yield f"{_names(victims) or 'of nobody'} {planned.amount:+g} s"
    finally:
        for node in victims:
            cluster.set_clock(node.name, 0.0)


@asynccontextmanager
async def _cut(cluster: LiveCluster, cuts: list[Cut], what: str) -> AsyncIterator[str]:
    await cluster.cut(cuts)
    try:
        yield what
    finally:
        await cluster.mend(cuts)


def _apart(cluster: LiveCluster, dice: random.Random, alone: str | None = None) -> tuple[list[str], list[str]]:
    """One node and the rest; without a name, two halves."""
    names = list(cluster.nodes)
    if alone is not None:
        return [alone], [name for name in names if name != alone]
    dice.shuffle(names)
    return names[: len(names) // 2], names[len(names) // 2 :]


@asynccontextmanager
async def partition(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    one = None if planned.coin else dice.choice(list(cluster.nodes))
    left, right = _apart(cluster, dice, one)
    what = f"{'+'.join(left)} | {'+'.join(right)} {planned.lasts_s:.1f} s"
    async with _cut(cluster, both_ways(left, right), what) as told:
        yield told


@asynccontextmanager
async def isolate_leader(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    leader = cluster.leader or dice.choice(list(cluster.nodes))
    left, right = _apart(cluster, dice, leader)
    async with _cut(cluster, both_ways(left, right), f"{leader} {planned.lasts_s:.1f} s") as told:
        yield told


@asynccontextmanager
async def one_way(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """A node is deaf, or mute; the rule stands at its end or at the others'."""
    [node] = victims_of(cluster, planned, dice)[:1]
    far = [name for name in cluster.nodes if name != node.name]
    dice.shuffle(far)
    far = far[: dice.choice((1, len(far)))]
    deaf = planned.coin
    at = dice.choice(("source", "target"))
    pairs = [(name, node.name) if deaf else (node.name, name) for name in far]
    cuts = [Cut(source=source, target=target, at="source" if at == "source" else "target") for source, target in pairs]
    way = "<-" if deaf else "->"
    async with _cut(cluster, cuts, f"{node.name} {way} {'+'.join(far)} {planned.lasts_s:.1f} s") as told:
        yield told


@asynccontextmanager
async def majority_ring(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    order = list(cluster.nodes)
    dice.shuffle(order)
    async with _cut(cluster, ring_cuts(order), f"{'-'.join(order)} {planned.lasts_s:.1f} s") as told:
        yield told


@asynccontextmanager
async def flap(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """A node's cable, in and out."""
    [node] = victims_of(cluster, planned, dice)[:1]
    left, right = _apart(cluster, dice, node.name)
    flapping = asyncio.create_task(_flapping(cluster, both_ways(left, right), planned.amount))
    try:
        yield f"{node.name} every {planned.amount:g} s for {planned.lasts_s:.1f} s"
    finally:
        flapping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await flapping


async def _flapping(cluster: LiveCluster, cuts: list[Cut], period_s: float) -> None:
    while True:
        async with _cut(cluster, cuts, ""):
            await asyncio.sleep(period_s)
        await asyncio.sleep(period_s)


@asynccontextmanager
async def reset(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """Connections to a node are answered with resets."""
    [node] = victims_of(cluster, planned, dice)[:1]
    cuts = [Cut(source=name, target=node.name, at="target", how="reset") for name in cluster.nodes if name != node.name]
    async with _cut(cluster, cuts, f"{node.name} {planned.lasts_s:.1f} s") as told:
        yield told


@asynccontextmanager
async def transfer(cluster: LiveCluster, planned: Planned, dice: random.Random) -> AsyncIterator[str]:
    """Whoever leads is asked to hand over, again and again, through any node."""
    handing = asyncio.create_task(_handing_over(cluster, planned, dice))
    try:
        yield f"every {planned.amount:g} s for {planned.lasts_s:.1f} s"
    finally:
        handing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await handing


async def _handing_over(cluster: LiveCluster, planned: Planned, dice: random.Random) -> None:
    names = list(cluster.nodes)
    while True:
        asked, to = dice.choice(names), dice.choice(names) if planned.coin else None
        if await cluster.transfer(asked, to):
            cluster.handovers += 1
        await asyncio.sleep(planned.amount)


NEMESES: dict[str, Callable[[LiveCluster, Planned, random.Random], AbstractAsyncContextManager[str]]] = {
    "kill": kill,
    "pause": pause,
    "partition": partition,
    "one-way": one_way,
    "isolate-leader": isolate_leader,
    "majority-ring": majority_ring,
    "flap": flap,
    "reset": reset,
    "disk-full": disk_full,
    "clock": clock,
    "restart": restart,
    "rolling": rolling,
    "transfer": transfer,
    "wipe": wipe,
}
