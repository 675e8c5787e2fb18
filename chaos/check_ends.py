"""Everything comes to an end: requests, sessions, and calls of targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import History, SessionOpened, SessionOver, Violation
from chaos.workload import AGAIN_S, ANSWER_S, RETRIES_MAX

REQUEST_S_MAX = RETRIES_MAX * (ANSWER_S + AGAIN_S) + 1.0
CALL_S_MAX = 10.0
"""An attempt of the workload has four seconds; its node kills it then."""
GONE_S = 30.0
"""A node that is away for so long has no session any more, whatever the leader went through."""


def every_request_ends(history: History) -> Iterator[Violation]:
    """Each request is answered or given up in time."""
    for operation in history.operations:
        if operation.ended_s - operation.invoked_s > REQUEST_S_MAX:
            what = f"{operation.client}: {operation.kind} of {operation.invoked_s:.3f} ended at {operation.ended_s:.3f}"
            yield Violation(promise="ends", what=what)


def every_session_ends(history: History) -> Iterator[Violation]:
    """A node has one session at a time, and none when it is gone."""
    opened: defaultdict[str, set[int]] = defaultdict(set)
    for entry in history.truth:
        if isinstance(entry, SessionOpened):
            opened[entry.node].add(entry.incarnation)
        elif isinstance(entry, SessionOver):
            opened[entry.node].discard(entry.incarnation)
    for node, sessions in sorted(opened.items()):
        if len(sessions) > 1:
            yield Violation(promise="ends", what=f"{node} has sessions {sorted(sessions)} at the end")
    for absence in history.absences:
        gone_s = min(absence.until_s, history.end_s) - max(absence.from_s, history.healed_s)
        if absence.how == "down" and absence.until_s >= history.end_s and gone_s > GONE_S and opened[absence.node]:
            what = f"{absence.node} has been gone for {gone_s:.0f} s and still has session {max(opened[absence.node])}"
            yield Violation(promise="ends", what=what)


def every_call_ends(history: History) -> Iterator[Violation]:
    """No node that lives leaves the call of a target open."""
    ended = {(end.run_id, end.token, end.node) for end in history.effect_ends}
    for effect in history.effects:
        open_s = history.end_s - effect.at_s
        key = (effect.run_id, effect.token, effect.node)
        if open_s > CALL_S_MAX and key not in ended and not history.went_down(effect.node, effect.at_s, history.end_s):
            what = f"{effect.node}: the call of run {effect.run_id} has been open for {open_s:.0f} s"
            yield Violation(promise="ends", what=what)
