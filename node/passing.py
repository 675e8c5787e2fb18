"""Where a job that was changed or paused goes on, and which of its ticks that passes over. Pure.

A tick whose release is still to come may be made anew by whoever comes to it; one whose release is past is fired late
or recorded as skipped, in one range, never dropped (I2).
"""

from __future__ import annotations

from dataclasses import dataclass

from node.misfire import Ticks, skip_range
from statemachine.commands import FireSkip
from statemachine.records import SkipReason


@dataclass(frozen=True, kw_only=True, slots=True)
class GoesOn:
    """The tick that a job stands at next (None: none is to come), and what it passed over."""

    first_due_ms: int | None
    skip: FireSkip | None


def goes_on_now(ticks: Ticks, unrecorded_ms: int | None, *, now_ms: int, jitter_ms: int) -> GoesOn:
    """A paused job that goes on from now: what was due in the meantime is one skip."""
    released_ms = now_ms - jitter_ms
    skip = passed_over(ticks, unrecorded_ms, released_ms, SkipReason.PAUSED)
    return GoesOn(first_due_ms=ticks.next(released_ms), skip=skip)


def goes_on_where_paused(ticks: Ticks, unrecorded_ms: int | None, *, paused_ms: int, jitter_ms: int) -> GoesOn:
    """A paused job that goes on where it was paused: its misfire policy judges what was due in the meantime."""
    first_ms = ticks.next(paused_ms - jitter_ms)
    known = [at_ms for at_ms in (first_ms, unrecorded_ms) if at_ms is not None]
    return GoesOn(first_due_ms=min(known, default=None), skip=None)


def passed_over(ticks: Ticks, first_ms: int | None, until_ms: int, reason: SkipReason) -> FireSkip | None:
    """The ticks from `first_ms` (which is one) to `until_ms` as one range; None if there is none."""
    if first_ms is None or first_ms > until_ms:
        return None
    return skip_range(ticks, first_ms, until_ms, reason)
