"""When a change of a job is effective: once nobody holds a claim of the job that an earlier definition made and that
has not started (a pause, an update, a delete: I8)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from node.clock import Clock
from node.reads import Reads
from statemachine.limits import INT_MAX
from statemachine.records import Run, RunState

EFFECTIVE_TIMEOUT_S = 12.0
"""How long a change waits for those that hold the job's claims: a session that does not answer is over by then."""
EFFECTIVE_POLL_S = 0.02
EFFECTIVE_POLL_GROWTH = 1.5
EFFECTIVE_POLL_MAX_S = 0.25
"""It looks again after so long, and after longer each time: many changes under load must not add to it."""
SLICE_MAX = 2_000
"""Claims of the cluster that are looked at between two turns of the loop."""
EVERY_VERSION = INT_MAX

Held = Mapping[str, int]
"""Run ids of claims, and the token of each."""


class Effect:
    """Looks at the state until a change is effective."""

    def __init__(self, *, reads: Reads, clock: Clock) -> None:
        self._reads = reads
        self._clock = clock

    async def wait(self, job_id: str, before_version: int) -> bool:
        """Until no claim of a version before this one waits for its start; False: some still does after a while.

        Runs of earlier versions are handed out no more, so what is claimed now is all that there is to wait for. A
        `claimed` run may have started a moment ago; it ends, or says so within a second."""
        deadline_s = self._clock.monotonic() + EFFECTIVE_TIMEOUT_S
        pause_s = EFFECTIVE_POLL_S
        index = await self._reads.stand_at()
        held = await self._held(job_id, before_version, index)
        while held := self._still_held(held, index):
            if self._clock.monotonic() > deadline_s:
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * EFFECTIVE_POLL_GROWTH, EFFECTIVE_POLL_MAX_S)
        return True

    async def _held(self, job_id: str, before_version: int, index: int) -> Held:
        held: dict[str, int] = {}
        with self._reads.open_at(index) as (snapshot, _):
            for number, run_id in enumerate(snapshot.claims_of_job(job_id), start=1):
                run = None if run_id is None else snapshot.run(run_id)
                if run is not None and _is_unstarted(run) and run.job_version < before_version:
                    held[run.run_id] = run.token
                if number % SLICE_MAX == 0:
                    await asyncio.sleep(0)
        return held

    def _still_held(self, held: Held, index: int) -> Held:
        """A run that was given back and made anew has another token by the time it is claimed again."""
        with self._reads.open_at(index) as (snapshot, _):
            now = [snapshot.run(run_id) for run_id in held]
        return {run.run_id: run.token for run in now if run and _is_unstarted(run) and run.token == held[run.run_id]}


def _is_unstarted(run: Run) -> bool:
    """An attempt after the first is not what a change takes back: it goes on under the version that made it."""
    return run.state is RunState.CLAIMED and not run.attempts
