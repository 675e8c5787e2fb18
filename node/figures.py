"""What a scrape of the metrics reads from the state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from node.metrics import StateFigures
from node.waiting_reasons import unplaceable
from statemachine.reader import StateReader
from statemachine.snapshot import Snapshot

DUE_COUNTED_MAX = 10_000
"""Overdue ticks that a scrape counts at most; far beyond what anybody would call normal."""
TEAMS_SHOWN_MAX = 200
"""Teams with settings that the metrics show: each is a label. The API shows all."""
OVERDUE_AFTER_MS = 10_000
"""Later than this, a tick without a run is not explained by a failover."""


def figures_of(reader: StateReader, now_ms: Callable[[], int]) -> StateFigures:
    """Read everything from one snapshot."""
    space = reader.space()
    with reader.snapshot() as snapshot:
        now = now_ms()
        return StateFigures(
            counters=snapshot.counters(),
            queue_depth=dict(enumerate(snapshot.queue_depth())),
            due_not_queued=_due_before(snapshot, now),
            jobs_overdue=_due_before(snapshot, now - OVERDUE_AFTER_MS),
            notifications_pending=snapshot.notifications_pending(),
            lmdb_used_bytes=space.used_bytes,
            lmdb_map_bytes=space.map_bytes,
            unplaceable=unplaceable(snapshot),
            slow_targets=len(snapshot.slow_targets()),
            team_claims=_team_claims(snapshot),
            live_nodes=[session.node for session in snapshot.sessions() if session.live],
        )


def _team_claims(snapshot: Snapshot) -> dict[str, int]:
    with_settings = (name for name in snapshot.team_names() if snapshot.team(name) is not None)
    return {name: snapshot.team_use(name).held for name in islice(with_settings, TEAMS_SHOWN_MAX)}


def _due_before(snapshot: Snapshot, time_ms: int) -> int:
    return sum(1 for _ in islice(snapshot.due_until(time_ms), DUE_COUNTED_MAX))
