"""I4, I5, I6: what stands at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import FinalState, History, Operation, Violation
from node.interface import FINAL_STATES, RunState

SETTLED_S = 35.0
"""So long after its release, or after the healing, a run of the workload is final: three attempts of 4 s, two back-offs
of up to 2.2 s, a session's TTL, an election, and room."""
WRITES = ("create", "delete", "run_now")
LAG_MAX = 50
"""Entries that a node may be behind the first at the end: the jobs go on ticking."""


def nothing_broke(history: History) -> Iterator[Violation]:
    """No error that nobody caught, no replicas that part, no two leaders in a term."""
    for what in history.broken:
        yield Violation(promise="broken", what=what)


def nothing_rests(history: History) -> Iterator[Violation]:
    """I4: no run rests in a state that is not final. What is held back by another run of its job rests with that."""
    for state in history.states:
        active = {run.job_id for run in state.runs.values() if run.exclusive and run.state not in FINAL_STATES}
        for run in state.runs.values():
            if run.state in FINAL_STATES or (run.parked and run.job_id in active):
                continue
            since_ms = max(run.release_ms, history.wall_ms(history.healed_s))
            rests_s = (history.wall_ms(history.end_s) - since_ms) / 1000
            if rests_s > SETTLED_S:
                what = f"{state.node}: run {run.run_id} is {run.state.value} {rests_s:.0f} s after it could have ended"
                yield Violation(promise="I4", what=what)


def used_up_before_dead(history: History) -> Iterator[Violation]:
    """I4: a run is dead only when its attempts are used up."""
    for state in history.states:
        for run in state.runs.values():
            is_cut = run.reason == "run_timeout"
            if run.state is RunState.DEAD and len(run.attempts) < run.attempts_max and not is_cut:
                what = (
                    f"{state.node}: run {run.run_id} is dead after {len(run.attempts)} of {run.attempts_max} attempts"
                )
                yield Violation(promise="I4", what=what)


def nothing_acknowledged_lost(history: History) -> Iterator[Violation]:
    """I5: what a client was told stands in every node's state."""
    for state in history.states:
        for operation in history.operations:
            if operation.answer == "ok" and operation.kind in WRITES and not _stands(state, operation):
                what = f"{state.node}: {operation.kind} {operation.subject} was acknowledged and is lost"
                yield Violation(promise="I5", what=what)


def _stands(state: FinalState, operation: Operation) -> bool:
    subject = operation.subject or ""
    if operation.kind == "run_now":
        return subject in state.runs
    if operation.kind == "delete":
        return subject in state.jobs and state.jobs[subject].deleted_ms is not None
    return subject in state.jobs


def replicas_agree(history: History) -> Iterator[Violation]:
    """I6: the same digest at the same index; and nobody has been left behind."""
    digests: defaultdict[int, set[str]] = defaultdict(set)
    for state in history.states:
        digests[state.applied_index].add(state.digest)
    for index, found in sorted(digests.items()):
        if len(found) > 1:
            yield Violation(promise="I6", what=f"{len(found)} different states at index {index}")
    if digests and max(digests) - min(digests) > LAG_MAX:
        yield Violation(promise="I6", what=f"nodes stand at {sorted(digests)}: one was left behind")
