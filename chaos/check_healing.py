"""What must be well again soon after everything was healed, and stay so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from chaos.history import History, Violation

LEADER_S = 5.0
"""From the healing until all nodes know one leader."""
CAUGHT_UP_S = 30.0
"""From the healing until every node has what any node had."""
DRAINED_S = 30.0
"""From the healing until all runs that were released before it have been started."""
LEADER_CHANGES_MAX = 1
"""Once all nodes know one leader there is no reason for another; one change is forgiven to a slow machine."""


def leader_soon(history: History) -> Iterator[Violation]:
    """After the healing all nodes soon know one leader."""
    again_s = history.leader_again_s
    if again_s is None or again_s - history.healed_s > LEADER_S:
        yield Violation(promise="healing", what=f"healed at {history.healed_s:.3f}, a leader at {again_s}")


def all_caught_up(history: History) -> Iterator[Violation]:
    """After the healing every node soon has all that any node had."""
    caught_up_s = history.caught_up_s
    if caught_up_s is None or caught_up_s - history.healed_s > CAUGHT_UP_S:
        yield Violation(promise="healing", what=f"healed at {history.healed_s:.3f}, caught up at {caught_up_s}")


def backlog_drained(history: History) -> Iterator[Violation]:
    """What was due while everything failed is started soon after the healing."""
    first_s: dict[str, float] = {}
    for effect in history.effects:
        first_s[effect.run_id] = min(effect.at_s, first_s.get(effect.run_id, effect.at_s))
    runs = {run.run_id: run for state in history.states for run in state.runs.values()}
    for run_id, started_s in first_s.items():
        run = runs.get(run_id)
        if run is None or run.release_ms >= history.wall_ms(history.healed_s):
            continue
        if started_s - history.healed_s > DRAINED_S:
            what = f"run {run_id} was released before the healing at {history.healed_s:.3f}, started at {started_s:.3f}"
            yield Violation(promise="healing", what=what)


def leader_stays(history: History) -> Iterator[Violation]:
    """A healthy cluster keeps its leader."""
    changes = leader_changes(history)
    if changes > LEADER_CHANGES_MAX:
        yield Violation(promise="healing", what=f"the leader changed {changes} times after all nodes knew one")


def leader_changes(history: History) -> int:
    """How often another node led after all nodes knew one leader again."""
    since_s = history.end_s if history.leader_again_s is None else history.leader_again_s
    led = [seen for seen in history.leaders if seen.node is not None]
    before = [seen.node for seen in led if seen.at_s <= since_s]
    after = [seen.node for seen in led if seen.at_s > since_s]
    return sum(one != other for one, other in pairwise([*before[-1:], *after]))
