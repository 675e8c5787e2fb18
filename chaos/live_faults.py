"""Which faults a live run has, when, and how long: drawn from its seed before it begins, and from nothing else.

Whom a fault hits is drawn too, as a role ("leader", "any"): who leads then is only known at that time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Who = Literal["leader", "any", "minority", "all"]
Part = Literal["both", "node", "log"]

WITHOUT_NAMESPACES = ("kill", "pause")
KINDS = (
    "kill",
    "pause",
    "partition",
    "one-way",
    "isolate-leader",
    "majority-ring",
    "flap",
    "reset",
    "disk-full",
    "clock",
    "restart",
    "rolling",
    "transfer",
    "wipe",
)
ALONE = ("wipe", "rolling")
"""Nothing else goes wrong meanwhile: a wiped disk is only survived while a majority has its own, and what a rolling
restart must not do (take the majority away) could not be seen beside another fault."""

PAUSES_S = (0.2, 1.0, 3.0, 5.0, 7.0, 12.0)
"""Around the heartbeat, the election, the suspicion, the fence, the kill and the TTL of a session."""
AWAY_S = (0.0, 0.0, 2.0, 8.0)
CUTS_S = (0.5, 2.0, 5.0, 8.0, 15.0)
"""Around a heartbeat, an election, a connection's silence, and a session's end."""
OFFSETS_S = (1.0, 3.0, 30.0, 300.0, 3600.0)
PERIODS_S = (0.2, 0.7, 2.0)
GAPS_S = (0.3, 1.0, 3.0)
FIRST_S = 3.0
"""After the beginning: there must be something to lose."""
SHORT_RUN_S = 120.0
LASTS_IN_SHORT_RUN_S = 8.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A fault to be injected at `at_s` (or as soon as what it must not meet is over) and healed `lasts_s` later."""

    number: int
    at_s: float
    kind: str
    lasts_s: float
    who: Who
    part: Part
    amount: float
    """clock: seconds off; flap, transfer: its period."""
    coin: bool
    """partition: halves; one-way: it is heard but hears nothing; restart: a kill follows the signal; transfer: to a
    node that is named, which may be down or behind, or lead already."""


def draw_schedule(seed: int, *, duration_s: float, kinds: Sequence[str]) -> list[Planned]:
    """Faults one after another, some while others last. Every kind comes as often as every other, as far as there is
    time; how dense they are is drawn too, since runs that are all alike find the same."""
    dice = random.Random(f"live {seed}")
    gap_s = dice.choice(GAPS_S)
    at_s, planned, deck = FIRST_S, list[Planned](), list[str]()
    while at_s < duration_s - 1.0:
        if not deck:
            deck = dice.sample(list(kinds), len(kinds))
        fault = _drawn(dice, len(planned), at_s, deck.pop())
        if duration_s < SHORT_RUN_S and fault.lasts_s > LASTS_IN_SHORT_RUN_S:
            continue
        planned.append(fault)
        together = dice.random() < 0.4
        at_s += dice.expovariate(1 / gap_s) + (0.3 if together else fault.lasts_s)
    return planned


def _drawn(dice: random.Random, number: int, at_s: float, kind: str) -> Planned:
    who: Who = dice.choice(("leader", "any", "any", "minority", "all"))
    part: Part = dice.choice(("both", "both", "node", "log"))
    lasts_s = dice.choice(_lengths(kind)) * dice.uniform(0.8, 1.2)
    amount = dice.choice(OFFSETS_S) * dice.choice((-1, 1)) if kind == "clock" else dice.choice(PERIODS_S)
    return Planned(
        number=number,
        at_s=at_s,
        kind=kind,
        lasts_s=lasts_s,
        who=who,
        part=part,
        amount=amount,
        coin=dice.random() < 0.5,
    )


def _lengths(kind: str) -> Sequence[float]:
    if kind == "kill":
        return AWAY_S
    if kind == "pause":
        return PAUSES_S
    if kind in ("restart", "rolling", "wipe"):
        return (0.0,)
    return CUTS_S
