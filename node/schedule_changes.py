"""What the coming clock changes do to a schedule: the part of a preview that nobody works out in their head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from node.schedule_search import CronTicks, minute_from
from node.schedule_ticks import UnionTicks
from node.zones import FIRST_S, LAST_S, Segment

CHANGES_MAX = 64
GapEffect = Literal["once after", "left out", "nothing is caught up"]
FoldEffect = Literal["the first time only", "both times", "the last time only"]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  wall clocks have no zone


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockChange:
    """A change of the zone's offset that removes or repeats wall minutes at which the schedule ticks."""

    kind: Literal["gap", "fold"]
    at_ms: int
    """The first instant after the change."""
    wall_before: str
    """What the clock would have shown at that instant, and what it shows: 2026-03-29T02:00, 2026-03-29T03:00.

    The next whole minute, where a change leaves seconds over (Monrovia, 1972): that is when schedules tick."""
    wall_after: str
    first_minute: str
    """The first matching wall minute that is removed or repeated."""
    minutes: int
    """How many matching wall minutes that are."""
    ticks: GapEffect | FoldEffect

    @property
    def words(self) -> str:
        """The change and its effect as one sentence."""
        day, before = self.wall_before.split("T")
        after = self.wall_after.removeprefix(f"{day}T").replace("T", " ")
        what = self.first_minute[-5:] + (f" and {self.minutes - 1} more" if self.minutes > 1 else "")
        if self.kind == "fold":
            return f"{day}: clocks go back from {before} to {after}; comes twice: {what}; runs {self.ticks}"
        effect = f"runs {self.ticks}, at {after[-5:]}" if self.ticks == "once after" else self.ticks
        return f"{day}: clocks go from {before} to {after}; does not come: {what}; {effect}"


def clock_changes(ticks: UnionTicks, from_ms: int, until_ms: int) -> list[ClockChange]:
    """The changes in from_ms < t <= until_ms that touch the schedule, in order; at most CHANGES_MAX."""
    found: list[ClockChange] = []
    for segment in _changes(ticks, from_ms // 1000, until_ms // 1000):
        for cron in ticks.crons:
            change = _effect(cron, segment)
            if change is not None and change not in found[-len(ticks.crons) :]:
                found.append(change)
        if len(found) >= CHANGES_MAX:
            break
    return found[:CHANGES_MAX]


def _changes(ticks: UnionTicks, from_s: int, until_s: int) -> Iterator[Segment]:
    at_s = ticks.zone.segment_at(max(from_s, FIRST_S)).end_s
    while at_s <= min(until_s, LAST_S):
        segment = ticks.zone.segment_at(at_s)
        yield segment
        at_s = segment.end_s


def _effect(cron: CronTicks, segment: Segment) -> ClockChange | None:
    before_s, after_s = segment.start_s + segment.before_s, segment.start_s + segment.offset_s
    low, high = sorted((minute_from(before_s), minute_from(after_s)))
    touched = cron.pattern.matches(low, high, high - low)
    if not touched:
        return None
    is_gap = after_s > before_s
    return ClockChange(
        kind="gap" if is_gap else "fold",
        at_ms=segment.start_s * 1000,
        wall_before=_wall(minute_from(before_s)),
        wall_after=_wall(minute_from(after_s)),
        first_minute=_wall(touched[0]),
        minutes=len(touched),
        ticks=_gap_ticks(cron) if is_gap else _fold_ticks(cron),
    )


def _gap_ticks(cron: CronTicks) -> GapEffect:
    if cron.pattern.wildcard:
        return "nothing is caught up"
    return "once after" if cron.catches_gaps else "left out"


def _fold_ticks(cron: CronTicks) -> FoldEffect:
    if cron.fold == "both":
        return "both times"
    return "the last time only" if cron.fold == "last" else "the first time only"


def _wall(minute: int) -> str:
    return (_EPOCH + timedelta(minutes=minute)).isoformat(timespec="minutes")
