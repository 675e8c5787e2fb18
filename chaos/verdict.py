"""All checkers over one history, and how late the runs were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chaos.check_claims import effects_have_claims, tokens_rise
from chaos.check_sessions import deleted_starts_nothing, lapsed_starts_nothing
from chaos.check_state import (
    leader_soon,
    nothing_acknowledged_lost,
    nothing_broke,
    nothing_rests,
    replicas_agree,
    used_up_before_dead,
)
from chaos.check_ticks import every_tick_accounted, one_run_a_tick
from chaos.history import Claimed, History, Violation

Checker = Callable[[History], Iterator[Violation]]

CHECKERS: tuple[Checker, ...] = (
    nothing_broke,
    one_run_a_tick,
    every_tick_accounted,
    tokens_rise,
    effects_have_claims,
    nothing_rests,
    used_up_before_dead,
    nothing_acknowledged_lost,
    replicas_agree,
    deleted_starts_nothing,
    lapsed_starts_nothing,
    leader_soon,
)


def violations_of(history: History) -> list[Violation]:
    return [violation for checker in CHECKERS for violation in checker(history)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lateness:
    """Seconds from the release to the call of the target, first attempts only; of nothing: zeros."""

    count: int
    p50_s: float
    p99_s: float
    max_s: float


def lateness_of(history: History, from_s: float = 0.0) -> Lateness:
    """Of what was released at `from_s` or later, on a right clock."""
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    delays: list[float] = []
    for effect in history.effects:
        claim = claims.get((effect.run_id, effect.token))
        if claim is not None and effect.attempt == 1 and claim.release_ms >= history.wall_ms(from_s):
            delays.append((history.wall_ms(effect.at_s) - claim.release_ms) / 1000)
    delays.sort()
    return Lateness(count=len(delays), p50_s=_at(delays, 0.5), p99_s=_at(delays, 0.99), max_s=_at(delays, 1.0))


def _at(delays: Sequence[float], part: float) -> float:
    return delays[min(int(len(delays) * part), len(delays) - 1)] if delays else 0.0
