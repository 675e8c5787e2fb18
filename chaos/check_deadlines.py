"""I4: nothing rests past its deadline, and nothing begins after it."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import Claimed, History, Violation
from node.interface import FINAL_STATES

ENFORCED_S = 15.0
"""So long after a deadline, or after the healing, somebody has enforced it: the cluster's clock lags a little, and the
attempt that is under way must be killed."""
CLOCKS_S = 9.0
"""The cluster's clock, by which it is judged, may be behind a right one by so much."""


def deadlines_are_enforced(history: History) -> Iterator[Violation]:
    """I4: no run that has not begun by its deadline, or takes longer than it may, is left as it is."""
    for state in history.states:
        for run in state.runs.values():
            begun = run.end_by_ms is not None or bool(run.attempts) or run.node is not None
            deadline_ms = run.end_by_ms if begun else run.start_by_ms
            if run.state in FINAL_STATES or deadline_ms is None:
                continue
            since_ms = max(deadline_ms, history.wall_ms(history.healed_s))
            rests_s = (history.wall_ms(history.end_s) - since_ms) / 1000
            if rests_s > ENFORCED_S:
                what = f"{state.node}: run {run.run_id} is {run.state.value} {rests_s:.0f} s after its deadline"
                yield Violation(promise="I4", what=what)


def nothing_begins_too_late(history: History) -> Iterator[Violation]:
    """I4: no run is handed out for the first time after its job's `start_deadline_s`, on a right clock."""
    allowed_s = {
        job.job_id: job.start_deadline_s
        for state in history.states
        for job in state.jobs.values()
        if job.start_deadline_s is not None and job.version == 1
    }
    for entry in history.truth:
        if isinstance(entry, Claimed) and entry.token == 1 and entry.job_id in allowed_s:
            late_s = (history.wall_ms(entry.at_s) - entry.release_ms) / 1000 - allowed_s[entry.job_id]
            if late_s > CLOCKS_S:
                what = f"run {entry.run_id} was handed out {late_s:.1f} s after it had to have begun"
                yield Violation(promise="I4", what=what)
