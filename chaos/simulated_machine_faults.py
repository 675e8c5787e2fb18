"""What goes wrong with the machines of a simulated cluster and with what runs on them, beyond kills and pauses. Each
draws all that it needs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chaos.simulated_disk import DAMAGES, TROUBLES
from chaos.simulated_executor import TARGET_EDGES

if TYPE_CHECKING:
    from chaos.simulated_faults import Faults
    from chaos.simulated_node import SimulatedNode

LOOK_AGAIN_S = 0.25
ROLLED_S_MAX = 30.0
"""A rolling restart goes on to the next node after so long, whatever became of the last."""
WALLS_S = (0.2, 1.0, 3.0)
LASTS_S = (1.0, 4.0, 10.0)
SLOWER = 100.0


# --- disks -----------------------------------------------------------------------------------------------------------


def wipe(faults: Faults) -> str:
    """A disk is replaced by an empty one."""
    node = faults.any_node()
    return f"{node.name}{_if_allowed(faults, node.replace_disk)}"


def wipe_chain(faults: Faults) -> str:
    """A minority is cut off while the others go on; then one of the others loses its disk, and the rest of them go down
    for a while. What these acknowledged stands nowhere else: those that are left must not elect a leader without it."""
    leader = faults.any_node()
    others = [name for name in faults.cluster.members if name != leader.name]
    order = faults.dice.sample(others, len(others))
    bystanders, (wiped, *rest) = order[: len(order) // 2], order[len(order) // 2 :]
    moment_s = faults.dice.uniform(0.2, 1.2)
    if not _all_have_all(faults):
        return "not now"
    faults.cluster.nodes[wiped].machine.is_to_be_lost = True
    cut = faults.links(lambda one, other: (one in bystanders) != (other in bystanders))
    faults.cluster.network.cut_links(cut, moment_s + 0.3)
    for name in (leader.name, *rest):
        faults.later(moment_s, faults.cluster.nodes[name].crash, "killed in a chain", 5.0)
    faults.later(moment_s, faults.cluster.nodes[wiped].replace_disk)
    return f"{wiped}, {leader.name} leads"


def damage(faults: Faults) -> str:
    """The store is damaged while the node is away: it must say so and not start. Then its disk is replaced."""
    node, how = faults.any_node(), faults.dice.choice(DAMAGES)
    return f"{node.name} {how}{_if_allowed(faults, lambda: node.damage_disk(how))}"


def disk(faults: Faults) -> str:
    """It refuses to write for a while."""
    node, trouble, seconds = faults.any_node(), faults.dice.choice(TROUBLES), faults.dice.choice(LASTS_S)
    node.machine.trouble = trouble
    faults.later(seconds, _good_again, node)
    return f"{node.name} {trouble} for {seconds}s"


def _good_again(node: SimulatedNode) -> None:
    node.machine.trouble = None


def _if_allowed(faults: Faults, act: Callable[[], None]) -> str:
    """What was acknowledged is on a majority of disks: a second one may be lost only when the first is made good."""
    if _all_have_all(faults):
        act()
        return ""
    return " not now"


def _all_have_all(faults: Faults) -> bool:
    return all(node.has_all for node in faults.cluster.nodes.values())


# --- clocks ----------------------------------------------------------------------------------------------------------


def freeze(faults: Faults) -> str:
    """A wall clock stands still, and then is right again."""
    node, seconds = faults.any_node(), faults.dice.choice(WALLS_S)
    node.clock.frozen_s = faults.cluster.loop.time()
    faults.later(seconds, _thaw, node)
    return f"{node.name} {seconds}s"


def _thaw(node: SimulatedNode) -> None:
    node.clock.frozen_s = None


def strobe(faults: Faults) -> str:
    """A wall clock jumps to and fro."""
    node, by_s, seconds = faults.any_node(), faults.dice.choice(WALLS_S), faults.dice.choice(LASTS_S)
    node.clock.strobe_s = by_s
    faults.later(seconds, _steady, node)
    return f"{node.name} {by_s}s for {seconds}s"


def _steady(node: SimulatedNode) -> None:
    node.clock.strobe_s = 0.0


# --- what it runs ----------------------------------------------------------------------------------------------------


def slow_targets(faults: Faults) -> str:
    """For one node everything that it calls takes a hundred times as long."""
    node, seconds = faults.any_node(), faults.dice.choice(LASTS_S)
    node.targets_slower = SLOWER
    faults.later(seconds, _quick_targets, node)
    return f"{node.name} for {seconds}s"


def _quick_targets(node: SimulatedNode) -> None:
    node.targets_slower = 1.0


def target(faults: Faults) -> str:
    """The next target that it calls kills it: before its effect, after it, or before the report of it."""
    node, edge = faults.any_node(), faults.dice.choice(TARGET_EDGES)
    node.dies_at_target = edge
    return f"{node.name} {edge}"


def echo(faults: Faults) -> str:
    """Reports that were made before are made again, under names of their own: by a worker that had lost its lease, or
    by one that did not hear the answer."""
    node, times = faults.any_node(), faults.dice.randint(1, 20)
    picks = [faults.dice.random() for _ in range(times)]
    reports = faults.cluster.truth.reports
    for pick in picks:
        if reports:
            node.propose_again(reports[int(pick * len(reports))])
    return f"{node.name} {times} times"


# --- the cluster's own moves -----------------------------------------------------------------------------------------


def transfer(faults: Faults) -> str:
    """Whoever leads hands over, again and again."""
    times, every_s = faults.dice.randint(3, 10), faults.dice.choice([0.3, 1.0])
    for number in range(times):
        faults.later(number * every_s, _hand_over, faults)
    return f"{times} times every {every_s}s"


def _hand_over(faults: Faults) -> None:
    for node in faults.cluster.nodes.values():
        if node.leads:
            node.hand_over()


def rolling(faults: Faults) -> str:
    """All nodes leave and come back, one after another."""
    order = faults.dice.sample(faults.cluster.members, len(faults.cluster.members))
    _roll(faults, order)
    return " ".join(order)


def _roll(faults: Faults, order: list[str]) -> None:
    node = faults.cluster.nodes[order[0]]
    node.leave()
    _when_back(faults, order, node.starts, faults.cluster.loop.time() + ROLLED_S_MAX)


def _when_back(faults: Faults, order: list[str], starts: int, until_s: float) -> None:
    node, rest = faults.cluster.nodes[order[0]], order[1:]
    back = node.starts > starts and node.node is not None
    if not rest:
        return
    if back or faults.cluster.loop.time() > until_s:
        _roll(faults, rest)
    else:
        faults.later(LOOK_AGAIN_S, _when_back, faults, order, starts, until_s)
