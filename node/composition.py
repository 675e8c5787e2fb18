"""Puts the parts of one node together: the runtime that works, and the scheduler that its API talks to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from executor.interface import Executor
from node.admission import make_plan
from node.clock import Clock
from node.config import NodeConfig
from node.delivery import Sender
from node.figures import figures_of
from node.identifiers import UlidSource
from node.metrics import Metrics
from node.runlogs import RunLogs
from node.runtime import Runtime
from node.service import Identity, Service
from node.skew import ClockSkews, SteadyClock
from node.state_view import ReaderSource
from node.writes import Sources, Writes
from raftlog.interface import Log
from statemachine.reader import StateReader


class Random(Protocol):
    """Where randomness comes from: random.Random and random.SystemRandom are such."""

    def random(self) -> float: ...

    def randbytes(self, n: int, /) -> bytes: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a node is put into: everything that a test replaces."""

    log: Log
    reader: StateReader
    executors: Mapping[str, Executor]
    sender: Sender
    """Of notifications."""
    logs: RunLogs
    clock: Clock
    random: Random


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    runtime: Runtime
    service: Service


def compose(
    config: NodeConfig,
    around: Surroundings,
    identity: Identity,
    *,
    version: str,
    allow_link_local: bool = False,
) -> Node:
    """A node that does nothing yet: run its runtime."""
    skews = ClockSkews(around.clock, config.node)
    clock = SteadyClock(around.clock, skews)
    metrics = Metrics(
        figures=lambda: figures_of(around.reader, clock.wall_ms),
        log_status=lambda: around.log.status,
        running=lambda: runtime.worker.attempts.running_by_kind(),
        executors_up=lambda: runtime.reaper.up_by_kind(),
        skew_s=lambda live: skews.skews_s(live).get(config.node),
        loop_lag_s=lambda: runtime.loop_lag.worst_s,
        log_figures=lambda: around.logs.figures,
    )
    runtime = Runtime(
        config=config,
        log=around.log,
        source=ReaderSource(around.reader),
        executors=around.executors,
        sender=around.sender,
        logs=around.logs,
        clock=clock,
        machine_clock=around.clock,
        skews=skews,
        random=around.random.random,
        metrics=metrics,
        make_plan=make_plan,
        version=version,
        tzdata=identity.tzdata,
    )
    return Node(runtime=runtime, service=_service(around, clock, identity, runtime, metrics, allow_link_local))


def _service(
    around: Surroundings, clock: Clock, identity: Identity, runtime: Runtime, metrics: Metrics, allow_link_local: bool
) -> Service:
    sources = Sources(
        clock=clock,
        make_id=UlidSource(wall_ms=clock.wall_ms, random_bytes=around.random.randbytes),
        random=around.random.random,
        allow_link_local=allow_link_local,
    )
    return Service(
        identity=identity,
        reader=around.reader,
        probe=runtime.probe,
        make_writes=lambda reads: Writes(log=around.log, reads=reads, sources=sources),
        log=around.log,
        logs=around.logs,
        clock=clock,
        metrics=metrics,
        not_ready=runtime.not_ready,
        skews=runtime.skews,
    )
