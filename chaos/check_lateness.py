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
