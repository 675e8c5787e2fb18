"""Dead runs tried anew: one, or those of a job or a team, a slice at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from node.afterwards import seen_afterwards
from node.clock import Clock
from node.interface import Conflict, FieldError, Invalid, NotFound, Redriven, Run
from node.reads import Reads
from statemachine.commands import AnyReply, Redrive

REDRIVE_MAX = 1_000
"""Runs that one request looks at; the answer says whether there are more."""
SLICE = 100
"""Redrives proposed at once."""


class Redriving:
    """`propose` sends a command through the log and answers its reply; it raises HoraeErrors."""

    def __init__(self, *, propose: Callable[[Redrive], Awaitable[AnyReply]], reads: Reads, clock: Clock) -> None:
        self._propose = propose
        self._reads = reads
        self._clock = clock

    async def one(self, run_id: str) -> Run:
        """Raises NotFound, or Conflict when the run cannot be redriven."""
        reply = await self._redrive(run_id)
        if reply.code in ("unknown_run", "malformed"):
            raise NotFound(f"There is no run {run_id}.")
        if reply.code == "unknown_job":
            raise Conflict(f"Run {run_id} cannot be redriven: its job is deleted.")
        if reply.code == "backlog":
            raise Conflict(f"Run {run_id} cannot be redriven now: too many runs of its job wait already.")
        if reply.code == "illegal_state":
            raise Conflict(f"Run {run_id} is {reply.detail}; only dead runs are redriven.")
        return (await seen_afterwards("The run is redriven", self._reads.run(run_id)))[0]

    async def many(self, *, team: str | None, job_id: str | None) -> Redriven:
        """The newest dead runs of the job or the team. Those that cannot be redriven are counted and left."""
        if (team is None) == (job_id is None):
            message = "say which dead runs: give either team or job_id"
            raise Invalid(errors=[FieldError(path="team", message=message)])
        run_ids, more = await self._dead(team, job_id)
        redriven = refused = 0
        for start in range(0, len(run_ids), SLICE):
            replies = await asyncio.gather(*map(self._redrive, run_ids[start : start + SLICE]))
            redriven += sum(reply.code == "ok" for reply in replies)
            refused += sum(reply.code != "ok" for reply in replies)
        return Redriven(redriven=redriven, refused=refused, remaining=more)

    async def _dead(self, team: str | None, job_id: str | None) -> tuple[Sequence[str], bool]:
        index = await self._reads.stand_at()
        with self._reads.open_at(index) as (snapshot, _):
            job = None if job_id is None else snapshot.job(job_id)
            if job_id is not None and job is None:
                raise NotFound(f"There is no job {job_id}.")
            page = snapshot.dead_runs(team if job is None else job.team, job_id, limit=REDRIVE_MAX)
        return [run.run_id for run in page.items], page.next_key is not None

    async def _redrive(self, run_id: str) -> AnyReply:
        return await self._propose(Redrive(now_ms=self._clock.wall_ms(), run_id=run_id))
