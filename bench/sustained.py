"""B3: a steady load of recurring jobs, and B6: the same load while the leader is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from bench.api import Api, Json
from bench.figures import Round, delay_figures, start_delay_s, unix_s
from bench.jobs import api_time, create_noop_jobs, delete_jobs, final_runs
from node.clock import Clock

WARM_UP_S = 7.0
"""From the last create to the window: longer than the look-ahead, so that the load is steady in it."""
FINISH_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The seconds that are judged: every tick in [from_ms, to_ms) of every job must have exactly one run."""

    from_ms: int
    to_ms: int
    every_ms: int

    @property
    def ticks_ms(self) -> range:
        return range(self.from_ms, self.to_ms, self.every_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sustained:
    """What B3 does in one round: `rate` runs a second by `rate * every_s` jobs, spread over the period by their
    jitter."""

    rate: int = 1_000
    seconds: int = 60
    every_s: int = 1
    bars: ClassVar[Mapping[str, float]] = {"start delay p99 (s)": 0.25, "ticks missed": 0.0, "ticks doubled": 0.0}

    async def measure(self, api: Api, clock: Clock, label: str) -> Round:
        _, figures = await run_window(self, api, clock, label, disturb=_nothing)
        return figures


async def _nothing(window: Window) -> None:
    """An undisturbed window."""


async def run_window(
    load: Sustained, api: Api, clock: Clock, label: str, *, disturb: Callable[[Window], Awaitable[None]]
) -> tuple[list[Json], Round]:
    """Put the load on, let `disturb` act within the window, and read back what became of every tick of it."""
    job_ids = await create_noop_jobs(
        api,
        [f"{label}-{i}" for i in range(load.rate * load.every_s)],
        schedule=f"@every {load.every_s}s",
        jitter_s=load.every_s,
    )
    window = next_window(load, clock.wall_ms() + round(WARM_UP_S * 1000))
    await disturb(window)
    await asyncio.sleep(window.to_ms / 1000 + load.every_s + 1.0 - clock.wall_ms() / 1000)
    query = f"&from={api_time(window.from_ms)}&to={api_time(window.to_ms)}"
    runs = await final_runs(api, job_ids, query, timeout_s=FINISH_TIMEOUT_S)
    await delete_jobs(api, job_ids)
    return [run for of_job in runs for run in of_job], window_figures(runs, window)


def next_window(load: Sustained, earliest_ms: int) -> Window:
    every_ms = load.every_s * 1000
    from_ms = -(-earliest_ms // every_ms) * every_ms
    return Window(from_ms=from_ms, to_ms=from_ms + load.seconds * 1000, every_ms=every_ms)


def window_figures(runs_of_jobs: Sequence[Sequence[Json]], window: Window) -> Round:
    """The figures of a window from the records of all runs due in it, job by job."""
    expected = {tick_ms / 1000 for tick_ms in window.ticks_ms}
    missed = doubled = 0
    succeeded: list[Json] = []
    for runs in runs_of_jobs:
        made = Counter(unix_s(run["due_at"]) for run in runs if run["state"] != "skipped")
        missed += len(expected - made.keys())
        doubled += sum(count - 1 for count in made.values())
        succeeded += [run for run in runs if run["state"] == "succeeded"]
    seconds = (window.to_ms - window.from_ms) / 1000
    return {
        "runs per s": len(succeeded) / seconds,
        **delay_figures([start_delay_s(run) for run in succeeded]),
        "ticks missed": missed,
        "ticks doubled": doubled,
        "more than one attempt": sum(run["attempt"] > 1 for run in succeeded),
    }
