"""The container target: one container an attempt, on the engine of this machine.

Its name is made of run and token, so no two claims share one, and every call names it: an attempt that is cut off
between any two calls can be ended without having seen an answer. It is removed however the attempt ends; what a killed
node leaves is found by its labels.
"""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp

from executor.container_detail import failure, outcome_of
from executor.container_plan import ContainerPlan, plan_container
from executor.engine import Engine, EngineAway, EngineError
from executor.engine_frames import Frames, NotFrames
from executor.interface import Assignment, Outcome, OutcomeKind, OutputSink, Unavailable
from executor.owner import Owner
from executor.text import one_line

CONTAINERS_MAX = 128
"""At once on this node: two connections to the engine each, below the usual 1,024 file descriptors. The others wait,
outside of their timeout."""
TIMEOUT_GRACE_S = 1
"""Between the stop signal and SIGKILL when the time is up."""
LAST_OUTPUT_S = 2.0
"""How long the rest of the output may take after the end."""
ENGINE_BACK_S = 0.5
ENGINE_BACK_TRIES = 20
"""An engine that restarts is waited for: with live-restore the container has not noticed."""
CLOSE_S = 2.0


class ContainerExecutor:
    """Runs container targets. Implements executor.interface.ReapingExecutor."""

    def __init__(self, engine: Engine, owner: Owner, *, allow_host_network: bool = False) -> None:
        self._engine = engine
        self._owner = owner
        self._allow_host_network = allow_host_network
        self._places = asyncio.Semaphore(CONTAINERS_MAX)
        self._names: set[str] = set()
        self._removals: set[asyncio.Task[None]] = set()
        self._has_reaped = False

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        try:
            plan = plan_container(assignment, self._owner)
        except ValueError as error:
            return Outcome(kind=OutcomeKind.FAILED, detail=one_line(f"the target is not valid: {error}"))
        if plan.uses_host_network and not self._allow_host_network:
            return failure(plan, "this node gives no container its own network: start it with --allow-host-network")
        async with self._places:
            self._names.add(plan.name)
            try:
                return await self._attempt(plan, assignment.timeout_s, output)
            except (EngineError, EngineAway, Unavailable) as error:
                return failure(plan, str(error))
            finally:
                await self._remove(plan.name)

    async def reap(self) -> int:
        """Remove every container of this node that no attempt of this start runs; returns how many. Raises
        Unavailable."""
        try:
            orphans = [name for name in await self._engine.names(self._owner.labels) if name not in self._names]
            await asyncio.gather(*(self._engine.remove(name) for name in orphans))
        except (EngineError, EngineAway) as error:
            raise Unavailable(str(error)) from None
        self._has_reaped = True
        return len(orphans)

    async def close(self) -> None:
        """Running attempts have been cancelled before; their containers are waited for a moment."""
        if self._removals:
            await asyncio.wait(self._removals, timeout=CLOSE_S)
        await self._engine.close()

    async def _attempt(self, plan: ContainerPlan, timeout_s: float, output: OutputSink) -> Outcome:
        end_s = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(end_s):
                await self._create(plan)
        except TimeoutError:
            detail = f"the container was not there within {timeout_s:g} s: pulling its image takes too long"
            return Outcome(kind=OutcomeKind.TIMED_OUT, detail=detail)
        async with self._engine.attached(plan.name) as stream:
            copying = asyncio.create_task(_copy(stream, output))
            try:
                code = await self._run_until(plan.name, end_s)
                await asyncio.wait((copying,), timeout=LAST_OUTPUT_S)
            finally:
                copying.cancel()
        if code is None:
            return Outcome(kind=OutcomeKind.TIMED_OUT, detail=f"killed after {timeout_s:g} s")
        return outcome_of(plan, code, await self._engine.state(plan.name))

    async def _create(self, plan: ContainerPlan) -> None:
        """Nothing starts before what an earlier start of this node left has gone."""
        if not self._has_reaped:
            await self.reap()
        if plan.pull == "always" or (plan.pull == "missing" and not await self._engine.has_image(plan.image)):
            await self._engine.pull(plan.image)
        await self._engine.create(plan.name, plan.body)

    async def _run_until(self, name: str, end_s: float) -> int | None:
        """Its exit code; None if its time was up and it was stopped."""
        try:
            async with asyncio.timeout_at(end_s):
                await self._engine.start(name)
                return await self._wait(name)
        except TimeoutError:
            with contextlib.suppress(EngineError, EngineAway):  # its removal kills it
                await self._engine.stop(name, grace_s=TIMEOUT_GRACE_S)
            return None

    async def _wait(self, name: str) -> int:
        for _ in range(ENGINE_BACK_TRIES):
            try:
                return await self._engine.wait(name)
            except EngineAway:
                await asyncio.sleep(ENGINE_BACK_S)
        return await self._engine.wait(name)

    async def _remove(self, name: str) -> None:
        """In a task of its own, which goes on if this one is cancelled. If the engine is away, the next reaping finds
        it: until it is gone its name is not among those that run."""
        removal = asyncio.create_task(self._try_to_remove(name))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
        await asyncio.shield(removal)

    async def _try_to_remove(self, name: str) -> None:
        try:
            with contextlib.suppress(EngineError, EngineAway):
                await self._engine.remove(name)
        finally:
            self._names.discard(name)


async def _copy(stream: aiohttp.StreamReader, output: OutputSink) -> None:
    """The container's output to the sink, until it ends or the engine breaks off; neither decides how the run ends."""
    frames = Frames()
    try:
        async for data in stream.iter_any():
            for piece in frames.feed(data):
                output.write(piece)
    except NotFrames as error:
        output.write(f"[{error}: the rest is missing]\n".encode())
    except (aiohttp.ClientError, OSError):
        output.write(b"[the engine broke off: the rest of the output is missing]\n")
