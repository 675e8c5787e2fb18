"""What goes wrong in a simulated run, and when: each fault is a method, its parameters drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chaos.history import Fault
from chaos.simulated_log import BEFORE_COMMIT, DOOMS
from chaos.simulated_network import SILENCE_S, WORLD, Link

if TYPE_CHECKING:
    from chaos.simulated_cluster import SimulatedCluster
    from chaos.simulated_node import SimulatedNode

PAUSES_S = (0.2, 1.0, 3.0, 5.0, 7.0, 12.0)
"""Around the heartbeat, the election, the suspicion, the fence, the kill and the TTL of a session."""
LAST_S = 16.0
"""How long after the last fault the healing may begin."""
CUTS_S = (0.1, 1.0, 3.0, 8.0, 15.0)


class Faults:
    """`start` injects `plan.steps` of them, one after another, and then calls `done`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._dice = cluster.fault_dice
        self._left = cluster.plan.steps
        self.injected: list[Fault] = []
        self._done: Callable[[], None] = lambda: None

    def start(self, done: Callable[[], None]) -> None:
        self._done = done
        self._next()

    def _next(self) -> None:
        wait_s = self._dice.expovariate(1 / self._cluster.plan.fault_every_s)
        self._cluster.loop.call_later(wait_s, self._inject, context=WORLD)

    def _inject(self) -> None:
        if self._left == 0:
            # Not at once: the last faults must come to their end, or to what they lead to.
            self._cluster.loop.call_later(self._dice.uniform(2.0, LAST_S), self._done, context=WORLD)
            return
        self._left -= 1
        kind = self._dice.choice(self._cluster.plan.faults)
        what = KINDS[kind](self)
        self.injected.append(Fault(at_s=self._cluster.loop.time(), what=f"{kind} {what}".strip()))
        self._cluster.note("fault", kind, what)
        self._next()

    def _later(self, delay_s: float, act: Callable[..., None], *args: Any) -> None:
        """A part of a fault that comes later, unless all is healed by then."""

        def maybe() -> None:
            if not self._cluster.healing:
                act(*args)

        self._cluster.loop.call_later(delay_s, maybe, context=WORLD)

    # --- whom --------------------------------------------------------------------------------------------------------

    def _any(self) -> SimulatedNode:
        """The leader as often as the others together."""
        leaders = [node for node in self._cluster.nodes.values() if node.leads]
        if leaders and self._dice.random() < 0.5:
            return self._dice.choice(leaders)
        return self._cluster.nodes[self._dice.choice(self._cluster.members)]

    def _links(self, apart: Callable[[str, str], bool]) -> set[Link]:
        members = self._cluster.members
        return {(one, other) for one in members for other in members if one != other and apart(one, other)}

    # --- the faults --------------------------------------------------------------------------------------------------

    def kill(self) -> str:
        node, where = self._any(), self._dice.choice(DOOMS)
        node.doom(where)
        return f"{node.name} {where}"

    def kill_all(self) -> str:
        """A power cut."""
        where = self._dice.choice(DOOMS)
        for node in self._cluster.nodes.values():
            node.doom(where)
        return where

    def kill_chain(self) -> str:
        """One node is cut off while the leader and its other followers go down in the middle of a step; the leader
        stays away. What it acknowledged must be on the disks of those that come back."""
        leader = self._any()
        others = [name for name in self._cluster.members if name != leader.name]
        bystander = self._dice.choice(others)
        self._cluster.network.cut_links(self._links(lambda one, other: bystander in (one, other)), 1.5)
        moment_s = self._dice.uniform(0.0, 0.5)
        for name in others:
            if name != bystander:
                doom = self._cluster.nodes[name].doom
                self._later(moment_s, doom, BEFORE_COMMIT)
        gone_s = moment_s + self._dice.uniform(0.0, 0.2)
        self._later(gone_s, leader.crash, "killed in a chain", 5.0)
        return leader.name

    def leave(self) -> str:
        node = self._any()
        node.leave()
        return node.name

    def pause(self) -> str:
        node, which, seconds = (
            self._any(),
            self._dice.choice(["both", "both", "node", "log"]),
            self._dice.choice(PAUSES_S),
        )
        seconds *= self._dice.uniform(0.8, 1.2)
        node.pause(which, seconds)
        if which != "node" and seconds > SILENCE_S:
            self._cluster.loop.call_later(SILENCE_S, self._cluster.network.silent, node.name, context=WORLD)
        return f"{node.name} {which} {seconds:.1f}s"

    def partition(self) -> str:
        side = {name for name in self._cluster.members if self._dice.random() < 0.5}
        seconds = self._dice.choice(CUTS_S)
        self._cluster.network.cut_links(self._links(lambda one, other: (one in side) != (other in side)), seconds)
        return f"{sorted(side)} {seconds}s"

    def isolate(self) -> str:
        node, seconds = self._any(), self._dice.choice(CUTS_S)
        self._cluster.network.cut_links(self._links(lambda one, other: node.name in (one, other)), seconds)
        return f"{node.name} {seconds}s"

    def one_way(self) -> str:
        """It is heard and does not hear, or the other way round."""
        node, seconds, deaf = self._any(), self._dice.choice(CUTS_S), self._dice.random() < 0.5
        self._cluster.network.cut_links(self._links(lambda one, other: (other if deaf else one) == node.name), seconds)
        return f"{node.name} {'deaf' if deaf else 'dumb'} {seconds}s"

    def reset(self) -> str:
        self._cluster.network.lose_one()
        return ""

    def slow_disk(self) -> str:
        node, slow_s, seconds = self._any(), self._dice.choice([0.05, 0.3, 2.0]), self._dice.choice([1.0, 5.0])
        if node.log is not None:
            node.log.slow_s = slow_s
            self._cluster.loop.call_later(seconds, _quicken, node.log, context=WORLD)
        return f"{node.name} +{slow_s}s for {seconds}s"

    def clock(self) -> str:
        """Its wall clock is set."""
        node, by_s = self._any(), self._dice.choice([-3.0, -1.0, -0.2, 0.2, 1.0, 3.0])
        node.clock.offset_s = by_s
        return f"{node.name} {by_s:+}s"


def _quicken(log: object) -> None:
    log.slow_s = 0.0  # type: ignore[attr-defined]


KINDS: dict[str, Callable[[Faults], str]] = {
    "kill": Faults.kill,
    "kill-all": Faults.kill_all,
    "kill-chain": Faults.kill_chain,
    "leave": Faults.leave,
    "pause": Faults.pause,
    "partition": Faults.partition,
    "isolate": Faults.isolate,
    "one-way": Faults.one_way,
    "reset": Faults.reset,
    "slow-disk": Faults.slow_disk,
    "clock": Faults.clock,
}
