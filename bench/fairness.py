"""B8: a team has thousands of runs queued, another one a run every second; how long does that one wait?

All of them are callbacks that take a slot: those of the crowd hold it for a while, so that the queue lasts. First the
single team is measured alone, then beside the crowd, on the same nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bench.api import Api, Json, spread
from bench.errors import BenchFailed
from bench.figures import Round, percentile, start_delay_s, unix_s
from bench.jobs import api_time, delete_jobs, final_runs
from bench.slow_sink import slow_sink
from node.clock import Clock

CREATES_PER_S = 300
"""How many jobs a second a slow machine creates: the crowd is due when all of it is there."""
GOLDEN = 0.618034
"""Its multiples, modulo 1, are spread evenly."""
FINISH_TIMEOUT_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fairness:
    """What B8 does in one round: a crowd of `jobs` runs due at once, each holding a slot for `hold_s` on average."""

    jobs: int = 10_000
    hold_s: float = 2.0
    alone_s: float = 20.0
    """How long the single team is measured without company."""
    lead_s: float = 8.0
    """Between a create and what is measured: longer than the look-ahead."""
    bars: ClassVar[Mapping[str, float]] = {"start delay p99 beside the crowd (s)": 2.0}

    async def measure(self, api: Api, clock: Clock, label: str) -> Round:
        async with slow_sink() as url:
            single = await self._create(api, f"{label}-single", "single", url=f"{url}/0", schedule="@every 1s")
            alone_ms = clock.wall_ms() + round(self.lead_s * 1000)
            await asyncio.sleep(self.lead_s + self.alone_s)
            due_ms = (clock.wall_ms() + round((self.lead_s + self.jobs / CREATES_PER_S) * 1000)) // 1000 * 1000
            crowd = await spread(
                range(self.jobs),
                lambda number: self._create(
                    api, f"{label}-{number}", "crowd", url=f"{url}/{self.hold_of(number):.3f}", run_at=api_time(due_ms)
                ),
            )
            if clock.wall_ms() >= due_ms:
                raise BenchFailed(f"creating {self.jobs} jobs took longer than was expected")
            runs = await final_runs(api, crowd, "", timeout_s=due_ms / 1000 - clock.wall_ms() / 1000 + FINISH_TIMEOUT_S)
            ended_ms = round(max(unix_s(run["finished_at"]) for of_job in runs for run in of_job) * 1000)
            begun_ms = round(min(unix_s(run["started_at"]) for of_job in runs for run in of_job) * 1000)
            query = f"&from={api_time(alone_ms)}&to={api_time(ended_ms)}"
            [lone] = await final_runs(api, [single], query, timeout_s=FINISH_TIMEOUT_S)
            await delete_jobs(api, [single, *crowd])
        spans = Spans(alone_ms / 1000, alone_ms / 1000 + self.alone_s, begun_ms / 1000, ended_ms / 1000)
        return fairness_figures(lone, spans, self.jobs)

    def hold_of(self, number: int) -> float:
        """From a tenth of `hold_s` to nearly twice as much: if all held their slots equally long, all slots would be
        freed together, and nobody's turn could come in between."""
        return self.hold_s * (0.1 + 1.8 * (number * GOLDEN % 1))

    async def _create(self, api: Api, name: str, team: str, *, url: str, **fields: str) -> str:
        target = {"type": "http", "url": url}
        body = {"name": name, "team": team, "target": target, "idempotency_key": name, **fields}
        return str((await api.call("POST", "/v1/jobs", json=body))["job_id"])


class Spans(NamedTuple):
    """When the single team was alone, and when the crowd ran beside it (unix seconds)."""

    alone_from_s: float
    alone_until_s: float
    crowd_from_s: float
    crowd_until_s: float


def fairness_figures(runs: list[Json], spans: Spans, crowd: int) -> Round:
    """From the runs of the single team: those of before the crowd, and those that were released beside it."""
    alone = [run for run in runs if spans.alone_from_s <= unix_s(run["release_at"]) < spans.alone_until_s]
    beside = [run for run in runs if spans.crowd_from_s <= unix_s(run["release_at"]) < spans.crowd_until_s]
    delays = {"alone": alone, "beside the crowd": beside}
    figures = {
        f"start delay p99 {where} (s)": percentile([start_delay_s(run) for run in found], 0.99)
        for where, found in delays.items()
    }
    return {
        **figures,
        "beside to alone": figures["start delay p99 beside the crowd (s)"] / figures["start delay p99 alone (s)"],
        "runs beside the crowd": len(beside),
        "the crowd's runs per s": crowd / (spans.crowd_until_s - spans.crowd_from_s),
    }
