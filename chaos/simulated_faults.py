"""What goes wrong in a simulated run, and when: each fault is a method. Its parameters are drawn from the seed and its
number, so that a run without some of them (`Plan.only`) has the others as they were."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from chaos import simulated_machine_faults as machine
from chaos import simulated_network_faults as network
from chaos.history import Fault
from chaos.simulated_log import BEFORE_APPEND, EDGES, MOMENTS, Doom
from chaos.simulated_network import SILENCE_S, WORLD, Link

if TYPE_CHECKING:
    from chaos.simulated_cluster import SimulatedCluster
    from chaos.simulated_node import SimulatedNode

PAUSES_S = (0.2, 1.0, 3.0, 5.0, 7.0, 12.0)
"""Around the heartbeat, the election, the suspicion, the fence, the kill and the TTL of a session."""
LAST_S = 16.0
"""How long after the last fault the healing may begin."""
AT_ONCE = 0.25
NEAR_S = 3.0
JUMPS_S = tuple(sign * by_s for sign in (1, -1) for by_s in (0.2, 1.0, 3.0, 10.0, 60.0, 3600.0, 365 * 24 * 3600.0))
"""From less than is corrected, past what is still heard, to a year."""
DRIFTS_FOR_S = 8
CHAIN_LOOK_S = 0.01
CHAIN_LOOKS_MAX = 70
CUTS_S = (0.1, 1.0, 3.0, 8.0, 15.0)


class Faults:
    """`start` injects `plan.steps` of them, one after another, and then calls `done`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.dice = self._dice_of("none yet")
        """Of the fault that is being injected: nothing else may draw from them, nor they be drawn from later."""
        self._far_off: SimulatedNode | None = None
        """Whose wall clock may be far from right."""
        self.injected: list[Fault] = []

    def _dice_of(self, what: object) -> random.Random:
        return random.Random(f"fault {self.cluster.seed} {what}")

    def start(self, done: Callable[[], None]) -> None:
        plan = self.cluster.plan
        at_s = 0.0
        for number in range(1, plan.steps + 1):
            dice = self._dice_of(number)
            at_s += dice.expovariate(1 / plan.fault_every_s)
            if plan.only is None or number in plan.only:
                self.cluster.loop.call_later(at_s, self._inject, number, dice, context=WORLD)
        # Not at once: the last faults must come to their end, or to what they lead to.
        rest_s = self._dice_of("the last").uniform(2.0, LAST_S)
        self.cluster.loop.call_later(at_s + rest_s, done, context=WORLD)

    def _inject(self, number: int, dice: random.Random) -> None:
        self.dice = dice
        kind = dice.choice(self.cluster.plan.faults)
        what = KINDS[kind](self)
        self.injected.append(_fault_of(self.cluster.loop.time(), f"{kind} {what}".strip(), self.cluster.members))
        self.cluster.note("fault", number, kind, what)

    def later(self, delay_s: float, act: Callable[..., None], *args: Any) -> None:
        """A part of a fault that comes later, unless all is healed by then."""

        def maybe() -> None:
            if not self.cluster.healing:
                act(*args)

        self.cluster.loop.call_later(delay_s, maybe, context=WORLD)

    # --- whom --------------------------------------------------------------------------------------------------------

    def any_node(self) -> SimulatedNode:
        """The leader as often as the others together. Draws the same whoever leads."""
        a_leader, which, name = self.dice.random() < 0.5, self.dice.random(), self.dice.choice(self.cluster.members)
        leaders = [node for node in self.cluster.nodes.values() if node.leads]
        if leaders and a_leader:
            return leaders[int(which * len(leaders))]
        return self.cluster.nodes[name]

    def links(self, apart: Callable[[str, str], bool]) -> set[Link]:
        members = self.cluster.members
        return {(one, other) for one in members for other in members if one != other and apart(one, other)}

    def doom(self) -> Doom | None:
        """Where somebody is killed; None: at once."""
        at_once, doom = self.dice.random() < AT_ONCE, Doom(self.dice.choice(EDGES), self.dice.choice(MOMENTS))
        return None if at_once else doom

    # --- the faults --------------------------------------------------------------------------------------------------

    def kill(self) -> str:
        node, where = self.any_node(), self.doom()
        node.doom(where)
        return f"{node.name} {where or 'at once'}"

    def kill_all(self) -> str:
        """A power cut."""
        where = self.doom()
        for node in self.cluster.nodes.values():
            node.doom(where)
        return str(where or "at once")

    def kill_chain(self) -> str:
        """One node is cut off; the leader's other followers go down before what they append is on their disks, and then
        the leader, which stays away. What it acknowledged must be on the disks of those that come back."""
        leader = self.any_node()
        others = [name for name in self.cluster.members if name != leader.name]
        bystander = self.dice.choice(others)
        self.cluster.network.cut_links(self.links(lambda one, other: bystander in (one, other)), 1.5)
        moment_s, later_s = self.dice.uniform(0.0, 0.5), self.dice.uniform(0.0, 0.2)
        doomed = [self.cluster.nodes[name] for name in others if name != bystander]
        for node in doomed:
            self.later(moment_s, node.doom, BEFORE_APPEND)
        self.later(moment_s, self._crash_after, leader, doomed, later_s, CHAIN_LOOKS_MAX)
        return leader.name

    def _crash_after(self, leader: SimulatedNode, doomed: Sequence[SimulatedNode], later_s: float, looks: int) -> None:
        """Soon after the first of them is down; in any case after a while."""
        if all(node.life for node in doomed) and looks:
            self.later(CHAIN_LOOK_S, self._crash_after, leader, doomed, later_s, looks - 1)
        else:
            self.later(later_s, leader.crash, "killed in a chain", 5.0)

    def leave(self) -> str:
        node = self.any_node()
        node.leave()
        return node.name

    def pause(self) -> str:
        node, which, seconds = (
            self.any_node(),
            self.dice.choice(["both", "both", "node", "log"]),
            self.dice.choice(PAUSES_S),
        )
        seconds *= self.dice.uniform(0.8, 1.2)
        node.pause(which, seconds)
        if which != "node" and seconds > SILENCE_S:
            self.cluster.loop.call_later(SILENCE_S, self.cluster.network.silent, node.name, context=WORLD)
        return f"{node.name} {which} {seconds:.1f}s"

    def partition(self) -> str:
        side = {name for name in self.cluster.members if self.dice.random() < 0.5}
        seconds = self.dice.choice(CUTS_S)
        self.cluster.network.cut_links(self.links(lambda one, other: (one in side) != (other in side)), seconds)
        return f"{sorted(side)} {seconds}s"

    def isolate(self) -> str:
        node, seconds = self.any_node(), self.dice.choice(CUTS_S)
        self.cluster.network.cut_links(self.links(lambda one, other: node.name in (one, other)), seconds)
        return f"{node.name} {seconds}s"

    def one_way(self) -> str:
        """It is heard and does not hear, or the other way round."""
        node, seconds, deaf = self.any_node(), self.dice.choice(CUTS_S), self.dice.random() < 0.5
        self.cluster.network.cut_links(self.links(lambda one, other: (other if deaf else one) == node.name), seconds)
        return f"{node.name} {'deaf' if deaf else 'dumb'} {seconds}s"

    def reset(self) -> str:
        self.cluster.network.lose_one(self.dice)
        return ""

    def slow_disk(self) -> str:
        node, slow_s, seconds = self.any_node(), self.dice.choice([0.05, 0.3, 2.0, 8.0]), self.dice.choice([1.0, 5.0])
        if node.log is not None:
            node.log.slow_s = slow_s
            self.cluster.loop.call_later(seconds, _quicken, node.log, context=WORLD)
        return f"{node.name} +{slow_s}s for {seconds}s"

    def clock(self) -> str:
        """Its wall clock is set, or drifts away. Of clocks that are far off there is one at a time: a majority of them
        would be right."""
        node, by_s, drifts = self.any_node(), self.dice.choice(JUMPS_S), self.dice.random() < 0.2
        if abs(by_s) > NEAR_S:
            self._far_off = node
            for other in self.cluster.nodes.values():
                other.clock.offset_s = max(min(other.clock.offset_s, NEAR_S), -NEAR_S)
        if drifts:
            for second in range(DRIFTS_FOR_S):
                self.later(float(second), self._drift, node, by_s * (second + 1) / DRIFTS_FOR_S)
        else:
            node.clock.offset_s = by_s
        return f"{node.name} {by_s:+}s{' by and by' if drifts else ''}"

    def _drift(self, node: SimulatedNode, to_s: float) -> None:
        if abs(to_s) <= NEAR_S or self._far_off is node:
            node.clock.offset_s = to_s


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
    "freeze": machine.freeze,
    "strobe": machine.strobe,
    "wipe": machine.wipe,
    "wipe-chain": machine.wipe_chain,
    "damage": machine.damage,
    "disk": machine.disk,
    "slow-targets": machine.slow_targets,
    "target": machine.target,
    "echo": machine.echo,
    "transfer": machine.transfer,
    "rolling": machine.rolling,
    "flap": network.flap,
    "swizzle": network.swizzle,
    "ring": network.ring,
    "bridge": network.bridge,
    "lag": network.lag,
    "narrow": network.narrow,
    "old-socket": network.old_socket,
    "reset-storm": network.reset_storm,
}


_LASTS = re.compile(r"(\d+(?:\.\d+)?)s")


def _fault_of(at_s: float, what: str, members: Sequence[str]) -> Fault:
    """The words of a fault say whom it hits, right after its kind, and how long it lasts, at the end."""
    _, *words = what.split()
    whom = [word for word in words if word in members]
    lasts = _LASTS.fullmatch(words[-1]) if words else None
    return Fault(
        at_s=at_s,
        what=what,
        node=whom[0] if whom and whom == words[:1] else None,
        until_s=None if lasts is None else at_s + float(lasts[1]),
    )
