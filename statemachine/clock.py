"""What time it is for the cluster: the median of the live sessions' wall clocks. One wrong clock cannot move it.

Each session's clock is read from its renewals and from whatever else its node proposes, so the reading is a little old:
it lags behind a right clock by a second or two, by a TTL at worst while nodes die, and by a whole outage until a
majority has proposed something again. What a proposer's clock decides is therefore judged with CLOCK_OFF_MS of room.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from statemachine.limits import ALONE_RENEWALS, CLOCK_OFF_MS, LEFT_ALONE_RENEWALS
from statemachine.records import Session


def cluster_clock_ms(sessions: Collection[Session], last_ms: int | None) -> int | None:
    """The clock by the last session of every node; `last_ms` is what it was before. None: nobody has said a time."""
    live = [session for session in sessions if session.live]
    clock_ms = median_ms([session.wall_ms for session in live], last_ms)
    if len(live) == 1 < len(sessions) and _must_wait(live[0]) and is_off(clock_ms, last_ms):
        # The cluster was down, and this node is the first one back; or the others restart one after another. If it is
        # the one whose clock is wrong, the others must be heard before it skips a tick.
        return last_ms
    return clock_ms


def _must_wait(session: Session) -> bool:
    """Whether the only open session does not speak for the cluster yet."""
    always_was = session.alone == session.renewal
    return session.alone < (ALONE_RENEWALS if always_was else LEFT_ALONE_RENEWALS)


def median_ms(readings_ms: Collection[int], last_ms: int | None, near_ms: int = CLOCK_OFF_MS) -> int | None:
    """The median of the readings that belong to a majority within `near_ms`; of an even number of them, the one of the
    middle two that is nearer to what was agreed before: of two that are ten seconds apart that one is right. Whoever
    stands apart has no say, or a clock that is a year off would make the less wrong one of the others the median. If no
    majority agrees, the reading that is nearest to what was agreed before: so when one clock goes wrong just after
    another came right and was not heard again."""
    if not readings_ms:
        return last_ms
    ordered = sorted(readings_ms)
    agreeing = _agreeing(ordered, near_ms)
    said = agreeing or ordered
    low, high = said[(len(said) - 1) // 2], said[len(said) // 2]
    if last_ms is None:
        return low
    return min((low, high) if agreeing else ordered, key=lambda reading_ms: abs(reading_ms - last_ms))


def _agreeing(ordered_ms: Sequence[int], near_ms: int) -> Sequence[int]:
    """Those that belong to a majority of which no two are further apart than that."""
    others = len(ordered_ms) // 2  # beside any one of them, these make a majority
    firsts = range(len(ordered_ms) - others)
    agree = [first for first in firsts if ordered_ms[first + others] - ordered_ms[first] <= near_ms]
    return ordered_ms[agree[0] : agree[-1] + others + 1] if agree else ()


def is_off(wall_ms: int | None, clock_ms: int | None) -> bool:
    """Whether a wall clock is too far from the cluster's; not if either is unknown."""
    return wall_ms is not None and clock_ms is not None and abs(wall_ms - clock_ms) > CLOCK_OFF_MS
