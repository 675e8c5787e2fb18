"""Wall clocks that somebody sets, on nodes of a simulated cluster in which nothing else goes wrong: a jump of one of
them makes no run early or late by more than two seconds, and skips nothing, for as long as it is wrong and when it is
set right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chaos import workload_drafts
from chaos.check_clocks import nothing_given_up_early, nothing_starts_early
from chaos.check_state import replicas_agree
from chaos.check_ticks import one_run_a_tick
from chaos.history import Claimed, Fired, History
from chaos.simulated_cluster import SimulatedCluster
from chaos.simulated_faults import Faults
from chaos.simulated_network import WORLD
from chaos.simulated_plan import Plan
from chaos.verdict import violations_of
from node.skew import TRUSTED_MS
from statemachine import clock as state_clock
from statemachine import work

JUMP_AT_S = 12.0
LAST_S = 14.0
"""How long the clock stays wrong: several renewals, and many ticks."""
YEAR_S = 365 * 24 * 3600.0
JUMPS_S = [sign * by_s for by_s in (1.0, 10.0, 60.0, 3600.0, YEAR_S) for sign in (1, -1)]
Who = Callable[[SimulatedCluster], Sequence[str]]


def play(path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float, who: Who) -> History:
    plan = Plan.draw(3, nodes=3, steps=0, faults=("clock",))
    plan = replace(
        plan, clock_offset_s=0.0, drift=0.0, failing=0.0, delay_s=0.002, delay_tail_s=0.0, commit_s=0.004, ahead=20
    )
    cluster = SimulatedCluster(3, plan, path)

    def jump() -> None:
        for name in who(cluster):
            cluster.nodes[name].clock.offset_s = jump_s

    def start(faults: Faults, done: Callable[[], None]) -> None:
        cluster.loop.call_later(JUMP_AT_S, jump, context=WORLD)
        cluster.loop.call_later(JUMP_AT_S + LAST_S, done, context=WORLD)

    monkeypatch.setattr(Faults, "start", start)
    monkeypatch.setattr(workload_drafts, "QUOTAS", (None,))  # nor does any run wait for anything else
    try:
        return cluster.run()
    finally:
        cluster.close()


def leader(cluster: SimulatedCluster) -> list[str]:
    return [name for name, node in cluster.nodes.items() if node.leads]


def follower(cluster: SimulatedCluster) -> list[str]:
    return [name for name, node in cluster.nodes.items() if not node.leads][:1]


def restarted(cluster: SimulatedCluster) -> list[str]:
    """A follower that comes back at once: it is given work before it has heard of any other clock."""
    [name] = follower(cluster)
    cluster.nodes[name].crash("restarted", away_s=0.5)
    return [name]


def majority(cluster: SimulatedCluster) -> list[str]:
    return [*leader(cluster), *follower(cluster)]


def delays_s(history: History) -> Iterator[float]:
    """From the release to the call of the target, on a right clock; first attempts."""
    claims = {(entry.run_id, entry.token): entry for entry in history.truth if isinstance(entry, Claimed)}
    for effect in history.effects:
        if effect.attempt == 1:
            claim = claims[effect.run_id, effect.token]
            yield (history.wall_ms(effect.at_s) - claim.release_ms) / 1000


def skipped(history: History) -> list[tuple[int, int, int, str]]:
    return [ticks for entry in history.truth if isinstance(entry, Fired) for ticks in entry.skips]


@pytest.mark.slow
@pytest.mark.parametrize(("who", "jump_s"), [(leader, YEAR_S), (follower, -3600.0), (restarted, 10.0)])
def test_a_wrong_clock_moves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who, jump_s: float) -> None:
    must_not_matter(tmp_path, monkeypatch, who, jump_s)


@pytest.mark.long
@pytest.mark.parametrize("jump_s", JUMPS_S)
@pytest.mark.parametrize("who", [leader, follower, restarted])
def test_nor_does_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who, jump_s: float) -> None:
    must_not_matter(tmp_path, monkeypatch, who, jump_s)


def must_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who, jump_s: float) -> None:
    history = play(tmp_path, monkeypatch, jump_s, who)
    assert violations_of(history) == []
    assert skipped(history) == []
    delays = list(delays_s(history))
    assert len(delays) > 100
    assert min(delays) >= -TRUSTED_MS / 1000
    assert max(delays) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_majority_that_is_wrong_is_followed_but_makes_and_drops_no_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    history = play(tmp_path, monkeypatch, jump_s, majority)
    assert [*one_run_a_tick(history), *replicas_agree(history)] == []
    assert history.broken == []


@pytest.mark.slow
def test_without_its_guards_a_wrong_clock_skips_ticks_and_starts_runs_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run, with a node that follows its own clock, and a state machine that believes it."""
    monkeypatch.setattr("node.skew.TRUSTED_MS", 10**15)
    for module in (state_clock, work):
        monkeypatch.setattr(module, "is_off", lambda wall_ms, clock_ms: False, raising=False)
    monkeypatch.setattr("node.state_view.SnapshotView.clock_ms", lambda view: None)
    monkeypatch.setattr("statemachine.fire._is_ahead_of", lambda clock_ms, item: False)
    history = play(tmp_path, monkeypatch, 3600.0, leader)
    assert skipped(history) != []
    assert list(nothing_given_up_early(history)) != []
    assert list(nothing_starts_early(history)) != []
