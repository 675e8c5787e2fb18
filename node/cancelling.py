"""Cancelling a run: the command, and the wait until the attempt under way is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from node.afterwards import seen_afterwards
from node.clock import Clock
from node.interface import REASON_LENGTH_MAX, Conflict, FieldError, Invalid, NotFound, Run, RunCancelled
from node.reads import Reads
from statemachine.commands import AnyReply, CancelRun
from statemachine.records import FINAL_STATES

CANCELLED_WITHIN_S = 3.0
"""How long a cancel waits for its end: a worker kills the attempt within two seconds."""
CANCELLED_POLL_S = 0.02
CANCELLED_POLL_GROWTH = 1.5


class Cancelling:
    """`propose` sends a command through the log and answers its reply; it raises HoraeErrors."""

    def __init__(self, *, propose: Callable[[CancelRun], Awaitable[AnyReply]], reads: Reads, clock: Clock) -> None:
        self._propose = propose
        self._reads = reads
        self._clock = clock

    async def cancel(self, run_id: str, reason: str | None) -> RunCancelled:
        """Raises NotFound, Conflict (it has ended otherwise) or Invalid."""
        _check_reason(reason)
        reply = await self._propose(CancelRun(now_ms=self._clock.wall_ms(), run_id=run_id, reason=reason))
        if reply.code in ("unknown_run", "malformed"):
            raise NotFound(f"There is no run {run_id}.")
        if reply.code == "illegal_state":
            raise Conflict(f"Run {run_id} has ended already: it is {reply.detail}.")
        run = await seen_afterwards("The run is being cancelled", self._wait_ended(run_id))
        return RunCancelled(run=run, effective=run.state in FINAL_STATES)

    async def _wait_ended(self, run_id: str) -> Run:
        """The run as it is in the end, or when the time is up."""
        deadline_s = self._clock.monotonic() + CANCELLED_WITHIN_S
        pause_s = CANCELLED_POLL_S
        run = (await self._reads.run(run_id))[0]
        while run.state not in FINAL_STATES and self._clock.monotonic() < deadline_s:
            await asyncio.sleep(pause_s)
            pause_s *= CANCELLED_POLL_GROWTH
            run = (await self._reads.run(run_id, consistency="local"))[0]
        return run


def _check_reason(reason: str | None) -> None:
    if reason is not None and len(reason) > REASON_LENGTH_MAX:
        message = f"is longer than {REASON_LENGTH_MAX} characters; say it shorter"
        raise Invalid(errors=[FieldError(path="reason", message=message)])
