"""Many simulated runs, one after another, each judged; a run is its seed, and can be had again from it."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Iterator
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    first_seed: int
    seeds: int
    nodes: int
    steps: int
    faults: tuple[str, ...] = FAULT_KINDS
    commit: str = ""
    """Of the build that is tried."""
    keep_history: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SeedVerdict:
    """What became of one seed. `virtual_s` of simulated time took `real_s`."""

    seed: int
    trace: str
    violations: list[Violation]
    virtual_s: float
    real_s: float
    operations: int
    effects: int
    entries: int
    healthy_lateness: Lateness
    """Of the runs released after the recovery."""
    replay: str
    """The command that runs this seed again."""
    history: History | None = None
    """If the campaign keeps it: it is large."""


def run_campaign(campaign: Campaign, monotonic: Callable[[], float]) -> Iterator[SeedVerdict]:
    """`monotonic` is seconds of real time, to say how fast it went."""
    for seed in range(campaign.first_seed, campaign.first_seed + campaign.seeds):
        yield run_seed(seed, campaign, monotonic)


def run_seed(seed: int, campaign: Campaign, monotonic: Callable[[], float]) -> SeedVerdict:
    began_s = monotonic()
    plan = Plan.draw(seed, nodes=campaign.nodes, steps=campaign.steps, faults=campaign.faults)
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
        command=_replay(seed, campaign),
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
        replay=about.command,
        history=replace(history, about=about) if campaign.keep_history else None,
    )


def _replay(seed: int, campaign: Campaign) -> str:
    chosen = "" if campaign.faults == FAULT_KINDS else f" --faults {','.join(campaign.faults)}"
    return f"horae chaos sim --seed {seed} --nodes {campaign.nodes} --steps {campaign.steps}{chosen}"
