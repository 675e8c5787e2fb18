"""Scripted targets: they write to the witness, as a recording sink would, and then do what the script says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from chaos.history import Effect, EffectEnd
from executor.interface import Assignment, Outcome, OutcomeKind, OutputSink

SUCCEEDED = Outcome(kind=OutcomeKind.SUCCEEDED, status=200)
FAILED = Outcome(kind=OutcomeKind.FAILED, status=500)
LONG_OUTPUT = b"more\n" * 300_000
"""More than is kept of an attempt."""
TIMED_OUT = Outcome(kind=OutcomeKind.TIMED_OUT, detail="no answer in time")

BEFORE_EFFECT = "before its effect"
AFTER_EFFECT = "after its effect"
BEFORE_REPORT = "before its report"
TARGET_EDGES = (BEFORE_EFFECT, AFTER_EFFECT, BEFORE_REPORT)
DEADLY = 0.1
"""Part of the calls of a deadly target that kill their node."""


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

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        return self.run_instantly(assignment)

    async def close(self) -> None:
        """There is nothing to release."""


class Caller(Protocol):
    """The node that calls a target."""

    @property
    def name(self) -> str: ...

    targets_slower: float
    """How many times as long they take for this node at present."""
    dies_at_target: str | None
    """Where in a call it is to be killed: one of TARGET_EDGES."""

    def die_by_target(self) -> None: ...


class ScriptedHttp:
    """Its url's path is the script: /quick, /slow, /hang, /failing, /deadly (kills the node between the effect and its
    report), /long."""

    def __init__(self, caller: Caller, witness: Witness, dice: random.Random, *, failing: float) -> None:
        self._caller = caller
        self._node = caller.name
        self._witness = witness
        self._dice = dice
        self._failing = failing

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        await self._maybe_die(BEFORE_EFFECT)
        self._witness.called(self._node, assignment)
        how = "killed"
        try:
            outcome = await self._act(assignment, output)
            how = outcome.kind.value
        finally:
            self._witness.ended(self._node, assignment, how)
        await self._maybe_die(BEFORE_REPORT)
        return outcome

    async def _act(self, assignment: Assignment, output: OutputSink) -> Outcome:
        script = str(assignment.target["url"]).rpartition("/")[2]
        if script == "deadly" and self._dice.random() < DEADLY:
            self._caller.dies_at_target = AFTER_EFFECT
        takes_s = self._takes_s(script) * self._caller.targets_slower
        if takes_s >= assignment.timeout_s:
            await asyncio.sleep(assignment.timeout_s)
            return TIMED_OUT
        await asyncio.sleep(takes_s)
        await self._maybe_die(AFTER_EFFECT)
        if self._dice.random() < self._odds(script):
            return FAILED
        if script == "long":
            output.write(LONG_OUTPUT)
        return SUCCEEDED

    async def _maybe_die(self, edge: str) -> None:
        if self._caller.dies_at_target == edge:
            self._caller.dies_at_target = None
            self._caller.die_by_target()
            await asyncio.sleep(0)  # never returns, unless all is healed: this process is dead

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


class ScriptedReceiver:
    """Takes every notification."""

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        return None
