"""I2, I11: what a wrong clock must not do: give a tick up that was not overdue, or start a run before its time. Both
are judged on the right clock, which the history has and no node does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import Claimed, Defined, Fired, History, SessionOpened, SessionOver, Violation
from node.interface import SkipReason

BOUND_MS = 6_000
"""Clocks that count as right are up to 3 s off, and a node follows its own up to 2 s from theirs; and room."""
AGREEING = 3
"""So many sessions outvote the one clock that is far off."""
LEFT_ALONE_S = 25.0
"""So long, at least, a node that others have left must have been alone before its clock is believed."""
AGREED_S = 3.0
"""Two renewals: then everybody has heard it."""


def nothing_given_up_early(history: History) -> Iterator[Violation]:
    """I2: no tick is skipped as a misfire before it is overdue by its job's grace on a right clock, but for 6 s. What
    happens while wrong clocks may be the majority is excused (`outvoted`)."""
    excused = outvoted(history)
    graces_ms = _Graces(history)
    for entry in history.truth:
        grace_ms = graces_ms.of(entry) if isinstance(entry, Fired) else None
        if not isinstance(entry, Fired) or entry.at_s is None or grace_ms is None:
            continue
        if _within(entry.at_s, excused):
            continue
        now_ms = history.wall_ms(entry.at_s)
        for _, until_ms, _, reason in entry.skips:
            early_ms = until_ms + grace_ms - now_ms
            if reason.startswith(SkipReason.MISFIRE) and early_ms > BOUND_MS:
                what = f"job {entry.job_id}: {until_ms} was given up {early_ms / 1000:.1f} s before it was overdue"
                yield Violation(promise="I2", what=what)


class _Graces:
    """What each definition of each job allows ticks to be late; a pause leaves that as it was. Of a job whose
    definitions nobody saw it is what it has in the end."""

    def __init__(self, history: History) -> None:
        self._graces_s: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for state in history.states:
            for job_id, job in state.jobs.items():
                self._graces_s[job_id][0] = job.misfire_grace_s
        for entry in history.truth:
            if isinstance(entry, Defined):
                self._graces_s[entry.job_id][entry.version] = entry.misfire_grace_s

    def of(self, fired: Fired) -> int | None:
        """Milliseconds, by the definition that it was fired by."""
        graces_s = self._graces_s.get(fired.job_id)
        if graces_s is None:
            return None
        return round(1000 * graces_s[max(version for version in graces_s if version <= fired.version)])


def nothing_starts_early(history: History) -> Iterator[Violation]:
    """I11: no target is called more than 6 s before its run's release, on a right clock; excused as above."""
    excused = outvoted(history)
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    for effect in history.effects:
        claim = claims.get((effect.run_id, effect.token))
        early_ms = 0 if claim is None else claim.release_ms - history.wall_ms(effect.at_s)
        if early_ms > BOUND_MS and not _within(effect.at_s, excused):
            yield Violation(promise="I11", what=f"run {effect.run_id} was started {early_ms / 1000:.1f} s early")


def outvoted(history: History) -> list[tuple[float, float]]:
    """When one wrong clock may decide (seconds from, until): one node alone has a session, since it has nobody to
    compare with: at once if nobody had one before, else after `LEFT_ALONE_S`. Until a third is there again, since two
    that differ go by what was agreed before."""
    times: list[tuple[float, float]] = []
    live: dict[str, int] = {}
    since_s: float | None = None
    for entry in history.truth:
        if isinstance(entry, SessionOpened):
            live[entry.node] = entry.incarnation
            if len(live) == 1:
                since_s = entry.at_s
            elif since_s is not None and len(live) >= AGREEING:
                times.append((since_s, entry.at_s + AGREED_S))
                since_s = None
        elif isinstance(entry, SessionOver) and live.get(entry.node) == entry.incarnation:
            del live[entry.node]
            if since_s is None and len(live) == 1:
                since_s = entry.at_s + LEFT_ALONE_S
    return times if since_s is None else [*times, (since_s, history.end_s)]


def _within(at_s: float, times: list[tuple[float, float]]) -> bool:
    return any(from_s <= at_s <= until_s for from_s, until_s in times)
