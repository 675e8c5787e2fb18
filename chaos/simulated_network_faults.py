"""What goes wrong with the links of a simulated cluster, beyond a plain cut. Each draws all that it needs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.simulated_network import Link

if TYPE_CHECKING:
    from chaos.simulated_faults import Faults

LAGS_S = (0.1, 0.4, 1.0)
"""There and back: above the heartbeat; about as long as an election waits; above what check-quorum allows."""
WEATHER_S = (1.0, 4.0, 10.0)
BYTES_PER_S = (2_000.0, 20_000.0, 200_000.0)


def flap(faults: Faults) -> str:
    """A node's links come and go."""
    node, times = faults.any_node(), faults.dice.randint(3, 12)
    one_way = faults.dice.random() < 0.3
    links = faults.links(lambda one, other: node.name == one or (node.name == other and not one_way))
    at_s = 0.0
    for _ in range(times):
        down_s = faults.dice.uniform(0.05, 1.5)
        faults.later(at_s, faults.cluster.network.cut_links, links, down_s)
        at_s += down_s + faults.dice.uniform(0.05, 1.0)
    return f"{node.name} {times} times"


def swizzle(faults: Faults) -> str:
    """One node after another is clogged, and they are freed again in another order."""
    count = faults.dice.randint(2, len(faults.cluster.members))
    names = faults.dice.sample(faults.cluster.members, count)
    frees_s = [2.0 + faults.dice.uniform(0.0, 4.0) for _ in names]
    for step, (name, free_s) in enumerate(zip(names, frees_s, strict=True)):
        clogged_s = step * 0.5
        links = faults.links(lambda one, other, name=name: name in (one, other))  # type: ignore[misc]
        faults.later(clogged_s, faults.cluster.network.cut_links, links, free_s - clogged_s)
    return " ".join(names)


def ring(faults: Faults) -> str:
    """Everyone sees a majority, and no two the same one: with five, a node and its two neighbours on a circle."""
    members = faults.dice.sample(faults.cluster.members, len(faults.cluster.members))
    reach = (len(members) // 2) // 2 or 1
    place = {name: number for number, name in enumerate(members)}

    def apart(one: str, other: str) -> bool:
        steps = abs(place[one] - place[other])
        return min(steps, len(members) - steps) > reach

    seconds = faults.dice.choice(WEATHER_S)
    faults.cluster.network.cut_links(faults.links(apart), seconds)
    return f"{' '.join(members)} {seconds}s"


def bridge(faults: Faults) -> str:
    """Two halves that see each other only through one node."""
    members = faults.dice.sample(faults.cluster.members, len(faults.cluster.members))
    middle = len(members) // 2
    left, right = set(members[:middle]), set(members[middle + 1 :])

    def apart(one: str, other: str) -> bool:
        return (one in left and other in right) or (one in right and other in left)

    seconds = faults.dice.choice(WEATHER_S)
    faults.cluster.network.cut_links(faults.links(apart), seconds)
    return f"{' '.join(members)} {seconds}s"


def lag(faults: Faults) -> str:
    """A round trip takes longer than a heartbeat, or than an election."""
    links, where = _some_links(faults)
    by_s, seconds = faults.dice.choice(LAGS_S), faults.dice.choice(WEATHER_S)
    faults.cluster.network.delay_links(links, by_s, seconds)
    return f"{where} +{by_s}s for {seconds}s"


def narrow(faults: Faults) -> str:
    links, where = _some_links(faults)
    rate, seconds = faults.dice.choice(BYTES_PER_S), faults.dice.choice(WEATHER_S)
    faults.cluster.network.narrow_links(links, rate, seconds)
    return f"{where} {rate:.0f} B/s for {seconds}s"


def old_socket(faults: Faults) -> str:
    """A connection is replaced, and the old one still delivers."""
    faults.cluster.network.haunt_one(faults.dice)
    return ""


def reset_storm(faults: Faults) -> str:
    times = faults.dice.randint(3, 15)
    for pick in [faults.dice.random() for _ in range(times)]:
        faults.later(pick * 3.0, faults.cluster.network.lose, pick)
    return f"{times} times"


def _some_links(faults: Faults) -> tuple[set[Link], str]:
    node, everywhere = faults.any_node(), faults.dice.random() < 0.4
    if everywhere:
        return faults.links(lambda one, other: True), "everywhere"
    return faults.links(lambda one, other: node.name in (one, other)), node.name
