"""I11: how late the runs were, and that they were not when nothing was wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.history import Claimed, History, Violation

RECOVERED_S = 10.0
"""So long after the healing, what faults had held up has been worked off."""
LATE_P99_S = 2.0


def rarely_late(history: History) -> Iterator[Violation]:
    """I11: of the runs released after the recovery, 99 in 100 start within two seconds."""
    late = lateness_of(history, history.healed_s + RECOVERED_S)
    if late.p99_s > LATE_P99_S:
        yield Violation(
            promise="I11", what=f"p99 of {late.count} starts is {late.p99_s:.3f} s, the last {late.max_s:.3f}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Lateness:
    """Seconds from the release to the call of the target, first attempts only; of nothing: zeros."""

    count: int
    p50_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LatenessParts:
    """By when the runs were released."""

    overall: Lateness
    in_faults: Lateness
    """From the first fault until the healing."""
    recovered: Lateness
    """From the recovery on."""


def lateness_parts(history: History) -> LatenessParts:
    first_fault_s = min((fault.at_s for fault in history.faults), default=history.healed_s)
    return LatenessParts(
        overall=lateness_of(history),
        in_faults=lateness_of(history, first_fault_s, history.healed_s),
        recovered=lateness_of(history, history.healed_s + RECOVERED_S),
    )


def lateness_of(history: History, from_s: float = 0.0, until_s: float = float("inf")) -> Lateness:
    """Of what was released from `from_s` on and before `until_s`, on a right clock."""
    delays = sorted(late_s for release_s, late_s in delays_of(history) if from_s <= release_s < until_s)
    return Lateness(count=len(delays), p50_s=_at(delays, 0.5), p99_s=_at(delays, 0.99), max_s=_at(delays, 1.0))


def delays_of(history: History) -> Iterator[tuple[float, float]]:
    """Of each first attempt: when it was released, and how much later its target was called. In seconds."""
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    for effect in history.effects:
        claim = claims.get((effect.run_id, effect.token))
        if claim is not None and effect.attempt == 1:
            release_s = (claim.release_ms - history.epoch_ms) / 1000
            yield release_s, (history.wall_ms(effect.at_s) - claim.release_ms) / 1000


def _at(delays: Sequence[float], part: float) -> float:
    return delays[min(int(len(delays) * part), len(delays) - 1)] if delays else 0.0
