"""I8: a definition that was replaced, and a pause: once that is effective nothing starts that they forbid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import Effect, History, Operation, Violation
from node.interface import Run, RunKind

CHANGES = ("pause", "resume", "update")


def old_definitions_start_nothing(history: History) -> Iterator[Violation]:
    """I8: once a pause, a resume or an update is acknowledged as effective, no run of an earlier definition makes its
    first attempt."""
    runs = _runs(history)
    for change, effect in _first_attempts_behind(history):
        run = runs.get(effect.run_id)
        if run is not None and change.version is not None and run.job_version < change.version:
            what = (
                f"run {run.run_id} of version {run.job_version} started at {effect.at_s:.3f}; the {change.kind} to "
                f"version {change.version} was effective by {change.ended_s:.3f}"
            )
            yield Violation(promise="I8", what=what)


def paused_starts_nothing(history: History) -> Iterator[Violation]:
    """I8: from a pause that is effective until somebody asks for the next change of the job, no tick of it starts; what
    is asked for by hand does."""
    runs = _runs(history)
    for change, effect in _first_attempts_behind(history):
        run = runs.get(effect.run_id)
        if change.kind != "pause" or run is None or run.kind is not RunKind.SCHEDULED:
            continue
        if effect.at_s < _next_change_s(history, change):
            what = f"run {run.run_id} started at {effect.at_s:.3f}, its job was paused by {change.ended_s:.3f}"
            yield Violation(promise="I8", what=what)


def _first_attempts_behind(history: History) -> Iterator[tuple[Operation, Effect]]:
    """Effective changes, with each first attempt of their job that began after they were acknowledged."""
    effects: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in history.effects:
        if effect.attempt == 1:
            effects[effect.job_id].append(effect)
    for change in history.operations:
        if change.kind in CHANGES and change.answer == "ok" and change.effective and change.subject is not None:
            for effect in effects[change.subject]:
                if effect.at_s > change.ended_s:
                    yield change, effect


def _next_change_s(history: History, change: Operation) -> float:
    """When the next change of the job was asked for, whatever came of it."""
    asked = (one for one in history.operations if one.subject == change.subject and one.kind in CHANGES)
    return min((one.invoked_s for one in asked if one.invoked_s > change.invoked_s), default=float("inf"))


def _runs(history: History) -> dict[str, Run]:
    """As the most advanced replica has them."""
    latest = max(history.states, key=lambda state: state.applied_index, default=None)
    return {} if latest is None else dict(latest.runs)
