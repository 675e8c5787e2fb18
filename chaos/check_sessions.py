"""I8, I9: a lapsed session starts nothing; nor does a job that was deleted."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import Claimed, History, SessionOver, Violation


def lapsed_starts_nothing(history: History) -> Iterator[Violation]:
    """I9: no target is called under a session that has ended: from the moment the first replica applied that."""
    over = {(entry.node, entry.incarnation): entry.at_s for entry in history.truth if isinstance(entry, SessionOver)}
    sessions = {
        (entry.run_id, entry.token): (entry.node, entry.session)
        for entry in history.truth
        if isinstance(entry, Claimed)
    }
    for effect in history.effects:
        session = sessions.get((effect.run_id, effect.token))
        ended_s = None if session is None else over.get(session)
        if ended_s is not None and effect.at_s > ended_s:
            what = f"{effect.node} started run {effect.run_id} at {effect.at_s:.3f}, its session ended at {ended_s:.3f}"
            yield Violation(promise="I9", what=what)


def deleted_starts_nothing(history: History) -> Iterator[Violation]:
    """I8: once a delete is acknowledged, no run of the job makes its first attempt."""
    deleted = {
        operation.subject: operation.ended_s
        for operation in history.operations
        if operation.kind == "delete" and operation.answer == "ok"
    }
    for effect in history.effects:
        deleted_s = deleted.get(effect.job_id)
        if deleted_s is not None and effect.attempt == 1 and effect.at_s > deleted_s:
            what = f"run {effect.run_id} started at {effect.at_s:.3f}, its job was deleted by {deleted_s:.3f}"
            yield Violation(promise="I8", what=what)
