"""Scripted targets: they write to the witness, as a recording sink would, and then do what the script says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from chaos.history import Effect, EffectEnd
from executor.interface import Assignment, Outcome, OutcomeKind

SUCCEEDED = Outcome(kind=OutcomeKind.SUCCEEDED, status=200)
FAILED = Outcome(kind=OutcomeKind.FAILED, status=500)
TIMED_OUT = Outcome(kind=OutcomeKind.TIMED_OUT, detail="no answer in time")


class Witness:
    """Outside of the system: what targets saw, whatever became of the nodes that called them."""

    def __init__(self, now: Callable[[], float], note: Callable[..., None]) -> None:
        self.effects: list[Effect] = []
        self.ends: list[EffectEnd] = []
        self._now = now
        self._note = note

    def called(self, node: str, assignment: Assignment) -> None:
        self._note("effect", node, assignment.run_id, assignment.fence_token)
        self.effects.append(
            Effect(
                at_s=self._now(),
                node=node,
                run_id=assignment.run_id,
                job_id=assignment.job_id,
                attempt=assignment.attempt,
                token=assignment.fence_token,
            )
        )

    def ended(self, node: str, assignment: Assignment, how: str) -> None:
        self.ends.append(
            EffectEnd(at_s=self._now(), node=node, run_id=assignment.run_id, token=assignment.fence_token, how=how)
        )


class ScriptedNoop:
    """The instant target, witnessed."""

    def __init__(self, node: str, witness: Witness) -> None:
        self._node = node
        self._witness = witness

    def run_instantly(self, assignment: Assignment) -> Outcome:
        self._witness.called(self._node, assignment)
        self._witness.ended(self._node, assignment, "succeeded")
        return SUCCEEDED

    async def run(self, assignment: Assignment) -> Outcome:
        return self.run_instantly(assignment)

    async def close(self) -> None:
        """There is nothing to release."""


class ScriptedHttp:
    """Its url's path is the script: /quick, /slow, /hang, /failing, /deadly. `die` kills the node between the effect
    and its report."""

    def __init__(
        self, node: str, witness: Witness, dice: random.Random, *, failing: float, die: Callable[[], None]
    ) -> None:
        self._node = node
        self._witness = witness
        self._dice = dice
        self._failing = failing
        self._die = die

    async def run(self, assignment: Assignment) -> Outcome:
        self._witness.called(self._node, assignment)
        how = "killed"
        try:
            outcome = await self._act(assignment)
            how = outcome.kind.value
        finally:
            self._witness.ended(self._node, assignment, how)
        return outcome

    async def _act(self, assignment: Assignment) -> Outcome:
        script = str(assignment.target["url"]).rpartition("/")[2]
        takes_s = self._takes_s(script)
        if takes_s >= assignment.timeout_s:
            await asyncio.sleep(assignment.timeout_s)
            return TIMED_OUT
        await asyncio.sleep(takes_s)
        if script == "deadly" and self._dice.random() < 0.1:
            self._die()
            await asyncio.sleep(0)  # never returns: this process is dead
        return FAILED if self._dice.random() < self._odds(script) else SUCCEEDED

    def _takes_s(self, script: str) -> float:
        if script == "slow":
            return self._dice.uniform(0.8, 3.0)
        if script == "hang" and self._dice.random() < 0.3:
            return float("inf")
        return self._dice.uniform(0.001, 0.05)

    def _odds(self, script: str) -> float:
        return 0.7 if script == "failing" else self._failing

    async def close(self) -> None:
        """There is nothing to release."""
