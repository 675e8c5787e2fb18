"""How far ahead of their time ticks become runs: five seconds usually, longer before a big burst.

Every tick costs the whole cluster an entry of the one log, whoever proposes it. When more ticks fall into one second
than the log takes in the usual look-ahead, work must begin earlier. The index shows what is coming."""

from __future__ import annotations

from typing import Protocol

from node.config import ClusterSettings

PROBE_EVERY_MS = 2_000
PROBE_INSTANTS_MAX = 2_000
"""Different instants that one probe looks at; bursts are many ticks at few instants."""
WINDOW_MS = 1_000
MARGIN = 1.5


class DueCount(Protocol):
    def due_counts(self, from_ms: int, until_ms: int, *, window_ms: int, instants_max: int) -> dict[int, int]:
        """About how many ticks stand in each window of the span (by the window's start). Cheap: an estimate, and of
        the first `instants_max` different instants only."""
        ...


class LookAhead:
    """Remembers the last probe; `reach_ms` probes again when it is time."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._reach_ms = round(settings.look_ahead_s * 1000)
        self._next_probe_ms = 0

    def probe_now(self) -> None:
        """Look again at the next call: the wall clock was set."""
        self._next_probe_ms = 0

    def reach_ms(self, now_ms: int, view: DueCount) -> int:
        """Milliseconds from now up to which ticks are to become runs."""
        if now_ms >= self._next_probe_ms:
            self._next_probe_ms = now_ms + PROBE_EVERY_MS
            until_ms = now_ms + round(self._settings.look_ahead_max_s * 1000)
            counts = view.due_counts(now_ms, until_ms, window_ms=WINDOW_MS, instants_max=PROBE_INSTANTS_MAX)
            self._reach_ms = self._stretched_ms(max(counts.values(), default=0))
        return self._reach_ms

    def _stretched_ms(self, busiest: int) -> int:
        usual_s = self._settings.look_ahead_s
        needed_s = MARGIN * busiest / self._settings.fires_per_s
        return round(min(max(usual_s, usual_s / 2 + needed_s), self._settings.look_ahead_max_s) * 1000)
