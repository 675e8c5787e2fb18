"""Compares the claims that this node knows of with those in the state: at the start of a session, and now and then.

This is what makes events hints: a claim whose event was lost is found here, one that the state took away is dropped,
one that is to be ended is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from node.clock import Clock
from node.config import NodeConfig
from node.timers import ClaimKey, Reconciled, ReleaseTimers
from node.views import ClaimsView, StateSource
from node.wakeup import Wakeup
from statemachine.commands import RunClaimed
from statemachine.handout import claim_event

SLICE_MAX = 2_000
"""Claims read from the state between two turns of the loop."""
REST = 50
"""A reconciliation that took t seconds is followed by at least so many times t of rest."""


class Reconciliation:
    """`tell` takes what was found; `wake` asks for a comparison at once."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        source: StateSource,
        clock: Clock,
        timers: ReleaseTimers,
        tell: Callable[[Reconciled], None],
    ) -> None:
        self._config = config
        self._source = source
        self._clock = clock
        self._timers = timers
        self._tell = tell
        self._wakeup = Wakeup()

    def wake(self) -> None:
        self._wakeup.wake()

    async def run(self) -> None:
        """Until cancelled."""
        rest_s = 0.0
        while True:
            await self._wakeup.sleep(max(self._config.reconcile_every_s, rest_s))
            began_s = self._clock.monotonic()
            await self._reconcile()
            rest_s = REST * (self._clock.monotonic() - began_s)

    async def _reconcile(self) -> None:
        session = self._timers.session
        if session is None:
            return
        with self._source.view() as view:
            index = view.applied_index
            shown: set[ClaimKey] = set()
            unknown: list[RunClaimed] = []
            for number, (run_id, token) in enumerate(view.claims_of(self._config.node, session), start=1):
                key = ClaimKey(run_id, token)
                shown.add(key)
                if not self._timers.knows(key):
                    unknown.extend(_claims_of_run(view, key))
                if number % SLICE_MAX == 0:
                    await asyncio.sleep(0)
            stopped = [ClaimKey(run_id, token) for run_id, token in view.stops_of(self._config.node, session)]
        if session == self._timers.session:
            self._tell(Reconciled(index=index, shown=shown, unknown=unknown, stopped=stopped))


def _claims_of_run(view: ClaimsView, key: ClaimKey) -> Iterable[RunClaimed]:
    """The event that the claim was handed out with, as the run shows it."""
    run = view.run(key.run_id)
    return [claim_event(run)] if run is not None and run.token == key.token else []
