"""What is left of a schedule of faults when everything is left out that it does not take."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterator, Sequence

import pytest
from click.testing import CliRunner

from chaos.campaign import Campaign, SeedVerdict
from chaos.seed_workers import run_campaign
from chaos.shrinking import shrink, shrink_seed
from chaos.simulated_network import WORLD, Network
from node.cli_chaos_sim import sim
from node.clock import SystemClock


@pytest.mark.parametrize("seed", range(50))
def test_whatever_it_takes_is_found_and_nothing_else(seed: int) -> None:
    dice = random.Random(seed)
    numbers = range(1, dice.randrange(2, 30))
    needed = set(dice.sample(numbers, dice.randrange(0, min(4, len(numbers)))))
    found, tries, minimal = shrink(numbers, needed.issubset, tries_max=1000)
    assert (found, minimal) == (sorted(needed), True)
    assert tries < 200


def test_of_several_causes_one_is_enough() -> None:
    found, _, minimal = shrink(range(1, 13), lambda part: {2, 9} <= set(part) or {4, 5} <= set(part))
    assert minimal and found in ([2, 9], [4, 5])


def test_the_tries_are_bounded() -> None:
    tried: list[Sequence[int]] = []

    def fails(part: Sequence[int]) -> bool:
        tried.append(part)
        return {1, 6, 12} <= set(part)

    found, tries, minimal = shrink(range(1, 13), fails, tries_max=7)
    assert len(tried) == tries == 7
    assert not minimal and {1, 6, 12} <= set(found)


def test_nothing_is_tried_twice() -> None:
    tried: list[tuple[int, ...]] = []

    def fails(part: Sequence[int]) -> bool:
        tried.append(tuple(part))
        return {3, 4, 11} <= set(part)

    shrink(range(1, 13), fails, tries_max=1000)
    assert all(one != other for one, other in itertools.combinations(tried, 2))


FAULTS = ("reset", "clock", "leave", "pause")
STEPS = 8


def breaks_later(network: Network, dice: random.Random) -> None:
    """A planted fault of the network: what follows a reset is the end of everything, a second later."""

    def explode() -> None:
        raise RuntimeError("planted")

    network._loop.call_later(1.0, explode, context=WORLD)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[SeedVerdict]:
    """A seed with several resets in its schedule."""
    monkeypatch.setattr(Network, "lose_one", breaks_later)
    for seed in range(20):
        [verdict] = run_campaign(campaign_of(seed), SystemClock().monotonic)
        if any("reset" in fault for fault in verdict.faults[2:]):
            yield verdict
            return
    raise AssertionError("no seed has a reset among its later faults")


def campaign_of(seed: int) -> Campaign:
    return Campaign(first_seed=seed, seeds=1, nodes=3, steps=STEPS, faults=FAULTS)


@pytest.mark.slow
def test_a_failing_seed_shrinks_to_the_fault_that_matters(failing: SeedVerdict) -> None:
    shrunk = shrink_seed(failing, campaign_of(failing.seed), SystemClock().monotonic)
    assert shrunk.minimal and shrunk.faults == 1
    [fault] = shrunk.verdict.faults
    number, *_ = fault.split()
    assert fault.endswith("reset")
    assert shrunk.verdict.replay.endswith(f" --steps {STEPS} --faults {','.join(FAULTS)} --only {number}")
    assert "planted" in shrunk.verdict.violations[0].what
    assert fault in failing.faults, "its number and its time are those that it had"


@pytest.mark.slow
def test_the_command_line_says_what_a_failure_takes(failing: SeedVerdict) -> None:
    told = CliRunner().invoke(sim, failing.replay.split()[3:])
    assert told.exit_code == 1
    assert f"seed {failing.seed}: FAILED" in told.output
    assert f"  again: {failing.replay}\n" in told.output
    assert f"seed {failing.seed}: it takes 1 of {STEPS} faults" in told.output
    assert f"  again: {failing.replay} --only " in told.output
    again = told.output.splitlines()[-2].split()[4:]
    assert CliRunner().invoke(sim, [*again, "--no-shrink"]).exit_code == 1
    assert CliRunner().invoke(sim, [*failing.replay.split()[3:], "--only", "none"]).exit_code == 0


@pytest.mark.slow
def test_whoever_calls_the_command_logs_on_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    assert CliRunner().invoke(sim, ["--steps", "0"]).exit_code == 0
    logging.getLogger("node.somebody").warning("still heard")
    assert [record.getMessage() for record in caplog.records] == ["still heard"]
