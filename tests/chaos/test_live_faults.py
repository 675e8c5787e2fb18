"""What a live run will do, before anything is done: its schedule, and the rules of its cuts."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.live_faults import FIRST_S, KINDS, LASTS_IN_SHORT_RUN_S, Planned, draw_schedule
from chaos.live_nemeses import NEMESES
from chaos.live_network import Cut, both_ways, ring_cuts, rules_of

ADDRESSES = {f"n{number}": f"10.0.0.{number}" for number in range(1, 6)}
FIVE = tuple(ADDRESSES)


def test_a_seed_has_one_schedule_and_another_seed_another() -> None:
    schedule = draw_schedule(7, duration_s=600, kinds=KINDS)
    assert schedule == draw_schedule(7, duration_s=600, kinds=KINDS)
    assert schedule != draw_schedule(8, duration_s=600, kinds=KINDS)


def test_every_kind_of_fault_comes_as_often_as_every_other() -> None:
    schedule = draw_schedule(7, duration_s=1800, kinds=KINDS)
    counts = Counter(planned.kind for planned in schedule)
    assert set(counts) == set(KINDS) == set(NEMESES)
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_faults_begin_in_order_and_in_time(seed: int) -> None:
    schedule = draw_schedule(seed, duration_s=40, kinds=("pause", "partition"))
    times = [planned.at_s for planned in schedule]
    assert times == sorted(times)
    assert times[0] >= FIRST_S
    assert times[-1] < 40
    assert all(planned.lasts_s <= LASTS_IN_SHORT_RUN_S for planned in schedule)


def test_in_a_ring_of_five_every_node_sees_another_majority() -> None:
    cut = {(cut.source, cut.target) for cut in ring_cuts(FIVE)}
    seen = {node: frozenset(other for other in FIVE if (node, other) not in cut) for node in FIVE}
    assert all(len(majority) == 3 for majority in seen.values())
    assert len(set(seen.values())) == 5
    assert all((target, source) in cut for source, target in cut)


def test_of_three_only_the_outer_ones_do_not_see_each_other() -> None:
    assert {(cut.source, cut.target) for cut in ring_cuts(("n1", "n2", "n3"))} == {("n1", "n3"), ("n3", "n1")}


def test_a_cut_is_one_rule_a_namespace() -> None:
    rules = dict(rules_of(both_ways(["n1"], ["n2", "n3"]), ADDRESSES))
    assert rules == {
        "n1": ["OUTPUT", "-d", "10.0.0.2,10.0.0.3", "-j", "DROP"],
        "n2": ["OUTPUT", "-d", "10.0.0.1", "-j", "DROP"],
        "n3": ["OUTPUT", "-d", "10.0.0.1", "-j", "DROP"],
    }


def test_a_cut_at_the_receiver_stands_in_its_namespace() -> None:
    assert list(rules_of([Cut(source="n1", target="n2", at="target")], ADDRESSES)) == [
        ("n2", ["INPUT", "-s", "10.0.0.1", "-j", "DROP"])
    ]
    reset = [Cut(source="n1", target="n2", at="target", how="reset")]
    assert list(rules_of(reset, ADDRESSES)) == [
        ("n2", ["INPUT", "-s", "10.0.0.1", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"])
    ]


@pytest.mark.parametrize("named", [False, True])
async def test_leaders_hand_over_again_and_again_until_the_fault_is_over(named: bool) -> None:
    """(N15) With and without a successor that is named; every third request finds nobody to hand over."""
    asked: list[tuple[str, str | None]] = []
    enough = asyncio.Event()

    async def transfer(name: str, to: str | None) -> bool:
        asked.append((name, to))
        if len(asked) == 6:
            enough.set()
        return len(asked) % 3 > 0

    cluster = SimpleNamespace(nodes=dict.fromkeys(FIVE), transfer=transfer, handovers=0)
    planned = Planned(number=1, at_s=0.0, kind="transfer", lasts_s=1.0, who="any", part="both", amount=0.0, coin=named)
    async with NEMESES["transfer"](cast(Any, cluster), planned, random.Random(1)):
        await enough.wait()
    done = len(asked)
    await asyncio.sleep(0)
    assert len(asked) == done
    assert cluster.handovers >= 4
    assert all((to is not None) == named for _, to in asked)
    assert len({name for name, _ in asked}) > 1
