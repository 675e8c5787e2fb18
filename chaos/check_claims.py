"""I1, I3: tokens rise, only the current one's result counts, and a target is called once a claim, by its holder."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import Claimed, Finished, History, Violation


def tokens_rise(history: History) -> Iterator[Violation]:
    """I3: every claim of a run has a higher token than the one before, and a result is accepted only under the
    last, once."""
    last: dict[str, int] = {}
    ended: set[tuple[str, int]] = set()
    for entry in history.truth:
        if isinstance(entry, Claimed):
            if entry.token <= last.get(entry.run_id, 0):
                yield Violation(
                    promise="I3", what=f"run {entry.run_id}: token {entry.token} after {last[entry.run_id]}"
                )
            last[entry.run_id] = entry.token
        elif isinstance(entry, Finished) and entry.code == "ok":
            key = (entry.run_id, entry.token)
            if entry.token != last.get(entry.run_id):
                yield Violation(
                    promise="I3",
                    what=f"run {entry.run_id}: a result of token {entry.token} counted, {last.get(entry.run_id)} holds",
                )
            elif key in ended:
                yield Violation(promise="I3", what=f"run {entry.run_id}: two results under token {entry.token} counted")
            ended.add(key)


def effects_have_claims(history: History) -> Iterator[Violation]:
    """I1: whoever calls a target holds a claim of that run, and calls once a claim; I4: within the attempts allowed."""
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    called: set[tuple[str, int]] = set()
    for effect in history.effects:
        key = (effect.run_id, effect.token)
        claim = claims.get(key)
        if claim is None or (claim.node, claim.attempt) != (effect.node, effect.attempt):
            what = f"run {effect.run_id}: attempt {effect.attempt} on {effect.node} without a claim {effect.token}"
            yield Violation(promise="I1", what=what)
        elif key in called:
            yield Violation(promise="I1", what=f"run {effect.run_id} was started twice under token {effect.token}")
        elif effect.attempt > claim.attempts_max:
            what = f"run {effect.run_id}: attempt {effect.attempt} of {claim.attempts_max}"
            yield Violation(promise="I4", what=what)
        called.add(key)
