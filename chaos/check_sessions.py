"""I8, I9: a lapsed session starts nothing and has killed what it ran; nor does a job that was deleted start any run."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import Claimed, History, SessionOver, Violation

KILLED_S = 0.1
"""So soon after a node may be expected to have killed its attempts, their targets have noticed."""
WAKES_S = 1.0
"""So soon after it wakes, a node whose session has lapsed has killed its attempts."""


def lapsed_starts_nothing(history: History) -> Iterator[Violation]:
    """I9: no target is called under a session that has ended: from the moment the first replica applied that."""
    over = _over(history)
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    for effect in history.effects:
        claim = claims.get((effect.run_id, effect.token))
        ended_s = None if claim is None else over.get((claim.node, claim.session))
        if claim is None or ended_s is None or effect.at_s <= ended_s:
            continue
        if not history.is_torn(effect.node, effect.at_s, claim.release_ms):
            what = f"{effect.node} started run {effect.run_id} at {effect.at_s:.3f}, its session ended at {ended_s:.3f}"
            yield Violation(promise="I9", what=what)


def lapsed_has_killed(history: History) -> Iterator[Violation]:
    """I9: by the moment a session has ended, and others may be given its work, its node has killed what it ran. A node
    that is stopped then does so when it wakes; what a killed node had sent cannot be taken back."""
    over, sessions = _over(history), _sessions(history)
    ends = {(end.run_id, end.token, end.node): end.at_s for end in history.effect_ends}
    for effect in history.effects:
        session = sessions.get((effect.run_id, effect.token))
        over_s = None if session is None else over.get(session)
        if over_s is None or effect.at_s > over_s:
            continue
        ended_s = ends.get((effect.run_id, effect.token, effect.node), history.end_s)
        absent_until_s = history.absent_until(effect.node, over_s)
        must_s = over_s + KILLED_S if absent_until_s is None else absent_until_s + WAKES_S
        if ended_s > must_s and not history.went_down(effect.node, effect.at_s, ended_s):
            what = f"{effect.node} ran {effect.run_id} until {ended_s:.3f}, its session ended at {over_s:.3f}"
            yield Violation(promise="I9", what=what)


def _over(history: History) -> dict[tuple[str, int], float]:
    """When each session ended."""
    return {(entry.node, entry.incarnation): entry.at_s for entry in history.truth if isinstance(entry, SessionOver)}


def _sessions(history: History) -> dict[tuple[str, int], tuple[str, int]]:
    """(run, token) -> the session that was given it."""
    return {
        (entry.run_id, entry.token): (entry.node, entry.session)
        for entry in history.truth
        if isinstance(entry, Claimed)
    }


def deleted_starts_nothing(history: History) -> Iterator[Violation]:
    """I8: once a delete is acknowledged, no run of the job makes its first attempt."""
    deleted = {
        operation.subject: operation.ended_s
        for operation in history.operations
        if operation.kind == "delete" and operation.answer == "ok" and operation.effective is not False
    }
    for effect in history.effects:
        deleted_s = deleted.get(effect.job_id)
        if deleted_s is not None and effect.attempt == 1 and effect.at_s > deleted_s:
            what = f"run {effect.run_id} started at {effect.at_s:.3f}, its job was deleted by {deleted_s:.3f}"
            yield Violation(promise="I8", what=what)
