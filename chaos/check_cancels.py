"""I8: a cancel that was acknowledged is never lost, and what was cancelled is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import Effect, History, Operation, Violation
from node.interface import RunState

KILLED_S = 0.1
"""So soon after a run has ended, the target of its attempt has noticed."""
WAKES_S = 1.0
"""And after a node that was stopped meanwhile wakes."""


def cancels_are_kept(history: History) -> Iterator[Violation]:
    """I8: a run whose cancel was acknowledged ends cancelled, on every node, whatever its attempt comes to."""
    for cancel in _acknowledged(history):
        for state in history.states:
            run = state.runs.get(cancel.subject or "")
            if run is None or run.state is not RunState.CANCELLED:
                found = "unknown" if run is None else run.state.value
                what = f"{state.node}: run {cancel.subject} is {found}, it was cancelled by {cancel.ended_s:.3f}"
                yield Violation(promise="I8", what=what)


def cancelled_is_over(history: History) -> Iterator[Violation]:
    """I8: once a cancel is effective, no attempt of the run begins, and the one that was under way has been killed. A
    node that is stopped kills when it wakes; what a killed node had sent cannot be taken back."""
    effects: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in history.effects:
        effects[effect.run_id].append(effect)
    ends = {(end.run_id, end.token, end.node): end.at_s for end in history.effect_ends}
    for cancel in _acknowledged(history):
        if not cancel.effective:
            continue
        for effect in effects[cancel.subject or ""]:
            ended_s = ends.get((effect.run_id, effect.token, effect.node), history.end_s)
            if effect.at_s > cancel.ended_s:
                what = f"run {effect.run_id} started at {effect.at_s:.3f}, it was cancelled by {cancel.ended_s:.3f}"
                yield Violation(promise="I8", what=what)
            elif ended_s > _must_end_s(history, cancel, effect) and not history.went_down(
                effect.node, effect.at_s, ended_s
            ):
                what = f"{effect.node} ran {effect.run_id} until {ended_s:.3f}, it was over by {cancel.ended_s:.3f}"
                yield Violation(promise="I8", what=what)


def _acknowledged(history: History) -> Iterator[Operation]:
    return (one for one in history.operations if one.kind == "cancel" and one.answer == "ok")


def _must_end_s(history: History, cancel: Operation, effect: Effect) -> float:
    absent_until_s = history.absent_until(effect.node, cancel.ended_s)
    return cancel.ended_s + KILLED_S if absent_until_s is None else absent_until_s + WAKES_S
