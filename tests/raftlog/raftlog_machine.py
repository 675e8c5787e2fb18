"""One simulated node: its disk, its clock, its clients, and the circumstances of the run that it is part of."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from raftlog_applier import ChainApplier
from raftlog_judge import Judge

from raftlog.config import Identity, RaftConfig
from raftlog.disk import LmdbDisk
from raftlog.interface import Proposal
from raftlog.node import Message, RaftNode

MAP_BYTES = 256 * 1024 * 1024

NOW = "now"
BEFORE_COMMIT = "before the commit: what was sent at once has left, nothing is on the disk"
AFTER_COMMIT = "after the commit: it is on the disk, nothing that it allows has left"
DOOMS = (NOW, BEFORE_COMMIT, AFTER_COMMIT)
"""Where in its tick a machine crashes."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The circumstances of one run; drawn from the seed so that seeds differ in kind, not only in order."""

    size: int
    duration_s: float
    delay_s: float
    delay_tail_s: float
    commit_s: float
    apply_s: float
    fault_every_s: float
    propose_every_s: float
    barrier_every_s: float
    command_bytes: int
    in_flight_bytes_max: int
    drift: float
    keep_entries: int
    """The log is trimmed beyond so many: a few, and nodes that were away need copies of the state."""
    chunk_bytes: int

    @classmethod
    def draw(cls, seed: int, duration_s: float) -> Plan:
        dice = random.Random(f"plan {seed}")
        return cls(
            size=dice.choice([3, 3, 3, 3, 5, 5, 2, 1]),
            duration_s=duration_s,
            delay_s=dice.choice([0.0002, 0.002, 0.02, 0.06, 0.12]),
            delay_tail_s=dice.choice([0.0, 0.01, 0.3]),
            commit_s=dice.choice([0.0002, 0.002, 0.02]),
            apply_s=dice.choice([0.0, 0.0, 0.001, 0.01]),
            fault_every_s=dice.choice([0.3, 0.8, 2.0]),
            propose_every_s=dice.choice([0.01, 0.05, 0.2]),
            barrier_every_s=dice.choice([0.05, 0.3]),
            command_bytes=dice.choice([10, 300, 20_000]),
            in_flight_bytes_max=dice.choice([4 * 1024 * 1024, 300 * 1024]),
            drift=dice.choice([0.0, 0.01]),
            keep_entries=dice.choice([10, 50, 1_000_000]),
            chunk_bytes=dice.choice([20, 500, 128 * 1024]),
        )


class World(Protocol):
    """What a machine sees of its simulator."""

    seed: int
    now: float
    plan: Plan
    judge: Judge


class Machine:
    """One node with its disk, its clock and its clients."""

    def __init__(self, name: str, world: World, rate: float, offset: float) -> None:
        self.name = name
        self.world = world
        self.rate = rate
        self.offset = offset
        self.charged_s = 0.0
        self.life = 0
        self.node: RaftNode | None = None
        self.disk: LmdbDisk | None = None
        self.inbox: deque[tuple[str, int, Message]] = deque()
        self.busy_until = 0.0
        self.stepping = False
        self.wake_at = float("inf")
        self.next_seq = 1
        self.doom: str | None = None
        """Where in its next tick it crashes, if it does."""
        self.outstanding: dict[int, Proposal] = {}
        self.barrier_floors: dict[int, int] = {}
        self.next_barrier = 1

    def clock(self) -> float:
        return self.offset + (self.world.now + self.charged_s) * self.rate

    def boot(self, root: Path, config: RaftConfig, members: tuple[str, ...]) -> None:
        self.life += 1
        self.charged_s = 0.0
        self.disk = LmdbDisk(root / self.name, map_bytes=MAP_BYTES, synchronous=False)
        self.node = RaftNode(
            identity=Identity(node=self.name, members=members, cluster_id="simulated", bootstrap=True),
            config=config,
            disk=self.disk,
            applier=ChainApplier(self.disk, self.observe),
            clock=self.clock,
            random=random.Random(f"{self.world.seed} {self.name} {self.life}"),
        )

    def observe(self, index: int, proposal: Proposal | None, digest: bytes, repeat: bool) -> None:
        self.charged_s += self.world.plan.apply_s
        self.world.judge.applied(self.name, index, proposal, digest, repeat)

    def kill(self) -> None:
        assert self.node is not None and self.disk is not None
        self.node.close()
        self.disk.close()
        self.node = self.disk = None
        self.inbox.clear()
        self.outstanding.clear()
        self.barrier_floors.clear()
        self.next_seq = 1
        self.stepping = False
        self.doom = None
        self.wake_at = float("inf")

    def committed_index(self) -> int:
        """What a reader with a new transaction sees."""
        assert self.disk is not None
        with self.disk.environment.begin() as transaction:
            return ChainApplier.applied_index(self.applier_view(), transaction)

    def applier_view(self) -> Any:
        assert self.node is not None
        return self.node._applier
