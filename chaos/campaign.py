"""Many simulated runs, each judged; a run is its seed, and can be had again from it."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.check_lateness import RECOVERED_S, Lateness, lateness_of
from chaos.history import About, History, Violation
from chaos.simulated_cluster import SimulatedCluster
from chaos.simulated_faults import KINDS
from chaos.simulated_plan import Plan
from chaos.verdict import violations_of

MEMORY_DISK = Path("/dev/shm")
FAULT_KINDS = tuple(KINDS)
NOT_JUDGED = "broken"
"""The promise under which a seed fails whose simulation did not come to an end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    """Some seeds, and what each is run with."""

    first_seed: int
    seeds: int
    nodes: int
    steps: int
    faults: tuple[str, ...] = FAULT_KINDS
    commit: str = ""
    """Of the build that is tried."""
    keep_history: bool = False
    only: tuple[int, ...] | None = None
    """Numbers of the faults that are injected, of 1 to `steps`; None: all."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the faults that are injected."""
        everyone = range(1, self.steps + 1)
        return tuple(everyone) if self.only is None else tuple(number for number in everyone if number in self.only)

    def command(self, seed: int) -> str:
        """What runs one of its seeds again."""
        chosen = "" if self.faults == FAULT_KINDS else f" --faults {','.join(self.faults)}"
        only = "" if self.only is None else f" --only {','.join(map(str, self.numbers)) or 'none'}"
        return f"horae chaos sim --seed {seed} --nodes {self.nodes} --steps {self.steps}{chosen}{only}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeedVerdict:
    """What became of one seed. `virtual_s` of simulated time took `real_s`."""

    seed: int
    trace: str
    violations: Sequence[Violation]
    virtual_s: float
    real_s: float
    operations: int
    effects: int
    entries: int
    healthy_lateness: Lateness
    """Of the runs released after the recovery."""
    faults: Sequence[str]
    """What was injected, with number and time."""
    replay: str
    """The command that runs this seed again."""
    history: History | None = None
    """If the campaign keeps it: it is large."""


def run_seed(seed: int, campaign: Campaign, monotonic: Callable[[], float]) -> SeedVerdict:
    """`monotonic` is seconds of real time, to say how fast it went."""
    began_s = monotonic()
    plan = Plan.draw(
        seed, nodes=campaign.nodes, steps=campaign.steps, faults=campaign.faults, only=frozenset(campaign.numbers)
    )
    root = Path(tempfile.mkdtemp(prefix="horae-", dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None))
    cluster = SimulatedCluster(seed, plan, root)
    try:
        history = cluster.run()
    finally:
        cluster.close()
        shutil.rmtree(root, ignore_errors=True)
        gc.collect()
    real_s = monotonic() - began_s
    about = About(
        harness="simulated",
        seed=seed,
        nodes=campaign.nodes,
        commit=campaign.commit,
        command=campaign.command(seed),
        real_s=real_s,
    )
    return SeedVerdict(
        seed=seed,
        trace=cluster.trace,
        violations=violations_of(history),
        virtual_s=history.end_s,
        real_s=real_s,
        operations=len(history.operations),
        effects=len(history.effects),
        entries=cluster.truth.last_index,
        healthy_lateness=lateness_of(history, history.healed_s + RECOVERED_S),
        faults=_schedule(campaign, history),
        replay=about.command,
        history=replace(history, about=about) if campaign.keep_history else None,
    )


def failed_seed(seed: int, campaign: Campaign, why: str) -> SeedVerdict:
    """The verdict of a seed whose simulation broke down: that is a finding, too."""
    return SeedVerdict(
        seed=seed,
        trace="",
        violations=[Violation(promise=NOT_JUDGED, what=why)],
        virtual_s=0.0,
        real_s=0.0,
        operations=0,
        effects=0,
        entries=0,
        healthy_lateness=Lateness(count=0, p50_s=0.0, p99_s=0.0, max_s=0.0),
        faults=(),
        replay=campaign.command(seed),
    )


def _schedule(campaign: Campaign, history: History) -> list[str]:
    return [
        f"{number} at {fault.at_s:.3f} s: {fault.what}"
        for number, fault in zip(campaign.numbers, history.faults, strict=False)  # a run that broke ended early
    ]
