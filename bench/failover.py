"""B6: the leader is killed in the middle of a steady load; what matters is how long nothing starts, and that no tick
is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from bench.api import Api, Json
from bench.figures import Round, unix_s
from bench.local_cluster import LocalCluster
from bench.sustained import Sustained, Window, run_window
from node.clock import Clock

DOWN_S = 10.0
"""How long the killed node stays away: longer than its session's TTL, so that its claims are really taken over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failover:
    """What B6 does in one round: B3's load, with the leader killed by SIGKILL after a quarter of the window."""

    cluster: LocalCluster
    load: Sustained = field(default_factory=lambda: Sustained(seconds=40))
    bars: ClassVar[Mapping[str, float]] = {
        "longest gap without a start (s)": 10.0,
        "start delay max (s)": 12.0,
        "ticks missed": 0.0,
        "ticks doubled": 0.0,
    }

    async def measure(self, api: Api, clock: Clock, label: str) -> Round:
        async def kill_leader(window: Window) -> None:
            quarter_ms = (window.to_ms - window.from_ms) // 4
            await asyncio.sleep((window.from_ms + quarter_ms - clock.wall_ms()) / 1000)
            leader = (await api.call("GET", "/v1/cluster"))["leader"]
            await self.cluster.kill(leader)
            await asyncio.sleep(DOWN_S)
            self.cluster.start(leader)
            await self.cluster.wait_ready(leader)

        runs, figures = await run_window(self.load, api, clock, label, disturb=kill_leader)
        return {"longest gap without a start (s)": longest_gap_s(runs), **figures}


def longest_gap_s(runs: Sequence[Json]) -> float:
    """The longest time between two starts next to each other, counting every attempt whose start is known."""
    attempts = (attempt for run in runs for attempt in (*run["attempts"], run))
    starts = sorted({unix_s(attempt["started_at"]) for attempt in attempts if attempt.get("started_at")})
    return max((later - earlier for earlier, later in pairwise(starts)), default=float("nan"))
