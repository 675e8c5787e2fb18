"""Runs the works that were asked for, each with three nodes of its own, and reports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from bench.api import Api
from bench.burst import Burst
from bench.callbacks import Callbacks
from bench.failover import Failover
from bench.fairness import Fairness
from bench.figures import Figure, Round, collect_figures
from bench.latency import Latency
from bench.local_cluster import LocalCluster
from bench.machine import describe_machine
from bench.report import Report
from bench.sustained import Sustained
from node.clock import Clock, SystemClock

NODES = 3


class Work(Protocol):
    """One of the works of the bench: what a round does, and what its figures must not exceed."""

    bars: ClassVar[Mapping[str, float]]

    async def measure(self, api: Api, clock: Clock, label: str) -> Round: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchSettings:
    """What is asked for. `directory`: where the nodes keep their data; absent, a temporary one."""

    works: Sequence[str] = ("B1", "B2", "B3", "B6", "B7", "B8")
    rounds: int = 3
    burst: Burst = field(default_factory=Burst)
    callbacks: Callbacks = field(default_factory=Callbacks)
    sustained: Sustained = field(default_factory=Sustained)
    failover_seconds: int = 40
    writes: int = 200
    fairness: Fairness = field(default_factory=Fairness)
    directory: Path | None = None


async def run_bench(settings: BenchSettings, progress: Callable[[str], None], clock: Clock | None = None) -> Report:
    """Measure. `progress` is told what is going on. Raises BenchFailed, NodeDied or TimeoutError when it cannot."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="horae-bench-", dir=settings.directory) as root:
        for name in settings.works:
            figures += await _measure(name, settings, Path(root) / name, progress, clock or SystemClock())
        machine = describe_machine(Path(root))
    return Report(machine=machine, settings=_settings_in_words(settings), figures=figures)


async def _measure(
    name: str, settings: BenchSettings, root: Path, progress: Callable[[str], None], clock: Clock
) -> list[Figure]:
    progress(f"{name}: starting {NODES} nodes")
    async with LocalCluster(root, size=NODES) as cluster, Api(cluster.urls) as api:
        work = _work(name, settings, cluster, root)
        rounds: list[Round] = []
        for number in range(1, settings.rounds + 1):
            progress(f"{name}: round {number} of {settings.rounds}")
            rounds.append(await work.measure(api, clock, f"{name.lower()}-{number}"))
    return collect_figures(name, rounds, work.bars)


def _work(name: str, settings: BenchSettings, cluster: LocalCluster, root: Path) -> Work:
    if name == "B1":
        return settings.burst
    if name == "B2":
        return settings.callbacks
    if name == "B3":
        return settings.sustained
    if name == "B8":
        return settings.fairness
    if name == "B7":
        return Latency(directory=root, writes=settings.writes)
    load = Sustained(
        rate=settings.sustained.rate, every_s=settings.sustained.every_s, seconds=settings.failover_seconds
    )
    return Failover(cluster=cluster, load=load)


def _settings_in_words(settings: BenchSettings) -> dict[str, str]:
    said = {"nodes": f"{NODES} on this machine", "rounds": str(settings.rounds)}
    if "B1" in settings.works:
        said["B1"] = f"{settings.burst.jobs:,} noop jobs due in one second"
    if "B2" in settings.works:
        said["B2"] = f"{settings.callbacks.jobs:,} http jobs due in one second, called at a sink on this machine"
    for name, seconds in (("B3", settings.sustained.seconds), ("B6", settings.failover_seconds)):
        if name in settings.works:
            load = asdict(settings.sustained) | {"seconds": seconds}
            said[name] = "{rate:,} runs/s for {seconds} s by noop jobs @every {every_s}s".format(**load)
    if "B7" in settings.works:
        said["B7"] = f"{settings.writes:,} jobs created one by one at the leader, and as many at a follower"
    if "B8" in settings.works:
        crowd = settings.fairness
        said["B8"] = (
            f"{crowd.jobs:,} callbacks of one team due at once, {crowd.hold_s:g} s each; another team's, one a second"
        )
    return said
