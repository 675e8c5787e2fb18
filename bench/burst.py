"""B1: N runs (of noop targets) due in the same second, their jobs created before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from bench.api import Api, Json
from bench.errors import BenchFailed
from bench.figures import Round, delay_figures, start_delay_s, unix_s
from bench.jobs import api_time, create_jobs, create_noop_jobs, final_runs
from node.clock import Clock

PROBE_PART, PROBE_JOBS_MIN, PROBE_JOBS_MAX = 20, 50, 1_000
"""A twentieth of the jobs is created first, within these bounds, to learn how long creating the others will take on
this machine: too few, and all that is learnt is how long connecting takes."""
MARGIN_S = 8.0
"""Between the last create and the due second: more than the look-ahead, so that creating is over when work begins."""
FINISH_TIMEOUT_S = 120.0
SAMPLE = 20
"""Runs that are looked at while waiting: to ask for all of them would be a load of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Burst:
    """What B1 does in one round."""

    jobs: int = 10_000
    target: Json = field(default_factory=lambda: {"type": "noop"})
    bars: ClassVar[Mapping[str, float]] = {"start delay p99 (s)": 2.0, "start delay max (s)": 2.0}

    async def measure(self, api: Api, clock: Clock, label: str) -> Round:
        _, figures = await self.burst(api, clock, label)
        return figures

    async def burst(self, api: Api, clock: Clock, label: str) -> tuple[float, Round]:
        """The due second (unix), and what came of it."""
        lead_s = await self._lead_s(api, clock, label)
        begun = clock.monotonic()
        due_ms = (clock.wall_ms() + round(lead_s * 1000)) // 1000 * 1000
        job_ids = await create_jobs(
            api, [f"{label}-{i}" for i in range(self.jobs)], run_at=api_time(due_ms), target=self.target
        )
        creating_s = clock.monotonic() - begun
        spare_s = due_ms / 1000 - clock.wall_ms() / 1000
        if spare_s < 1.0:
            raise BenchFailed(f"creating {self.jobs} jobs took {creating_s:.0f} s, {lead_s:.0f} s were expected")
        await asyncio.sleep(spare_s + 1.0)
        await final_runs(api, job_ids[:: max(self.jobs // SAMPLE, 1)], "", timeout_s=FINISH_TIMEOUT_S)
        runs = await final_runs(api, job_ids, "", timeout_s=FINISH_TIMEOUT_S)
        all_runs = [run for of_job in runs for run in of_job]
        return due_ms / 1000, burst_figures(all_runs, due_ms / 1000, self.jobs / creating_s)

    async def _lead_s(self, api: Api, clock: Clock, label: str) -> float:
        begun = clock.monotonic()
        soon = api_time(clock.wall_ms() + 1000)
        count = min(max(self.jobs // PROBE_PART, PROBE_JOBS_MIN), PROBE_JOBS_MAX)
        await create_noop_jobs(api, [f"{label}-probe-{i}" for i in range(count)], run_at=soon)
        return (clock.monotonic() - begun) / count * self.jobs * 1.5 + MARGIN_S


def burst_figures(runs: list[Json], due_s: float, creates_per_s: float) -> Round:
    """The figures of one burst from its runs' records."""
    succeeded = [run for run in runs if run["state"] == "succeeded"]
    return {
        **delay_figures([start_delay_s(run) for run in succeeded]),
        "all finished after (s)": max((unix_s(run["finished_at"]) - due_s for run in succeeded), default=float("nan")),
        "not succeeded": len(runs) - len(succeeded),
        "more than one attempt": sum(run["attempt"] > 1 for run in runs),
        "jobs created per s": creates_per_s,
    }
