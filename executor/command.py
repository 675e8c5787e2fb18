"""The command target: one program an attempt, in a process group of its own, on this machine and as this node's user.

There is no shell, no standard input and none of the node's own environment. Whatever way an attempt ends, its group
ends with it; what left the group is found by its mark (process_marks.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from executor.child_process import NO_OUTPUT, Child, Spawned, spawn
from executor.command_guard import Guard
from executor.command_plan import CannotRun, plan_command
from executor.environment import own_variables
from executor.interface import Assignment, Outcome, OutcomeKind, OutputSink
from executor.owner import Owner
from executor.process_marks import MARK, Environment, end_marked, end_marked_and_wait
from executor.text import one_line

TIMEOUT_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL when the time is up."""
KILL_GRACE_S = 0.2
"""The same when the attempt's task is cancelled: a node whose lease lapsed has 0.3 s to end what it runs."""
KILLED_S = 0.5
"""How long the system is given to take away what was killed: a process that waits for a broken disk may stay."""
SPAWNING_MAX = 4
"""Threads that start processes: one waits for the exec while the loop goes on."""

T = TypeVar("T")
Key = tuple[str | None, str | None]


class CommandExecutor:
    """Runs command targets. Implements executor.interface.ReapingExecutor."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._guard = Guard(owner.mark)
        self._threads = ThreadPoolExecutor(SPAWNING_MAX, thread_name_prefix="spawn")
        self._sweeper = ThreadPoolExecutor(1, thread_name_prefix="sweep")
        self._children: set[Child] = set()
        self._spawning: set[asyncio.Future[Spawned]] = set()
        self._active: set[Key] = set()

    async def run(self, assignment: Assignment, output: OutputSink) -> Outcome:
        key = _key(own_variables(assignment))
        self._active.add(key)
        try:
            return await self._attempt(assignment, output)
        except CannotRun as error:
            return _failed(str(error))
        except ValueError as error:
            return _failed(f"the target is not valid: {error}")
        except OSError as error:
            return _failed(f"the program cannot be started: {error.strerror or 'the system refuses'}")
        finally:
            self._active.discard(key)

    async def reap(self) -> int:
        """End what earlier starts of this node left behind, and what outlived its attempt; returns how many."""
        return await self._in_thread(end_marked, self._is_leftover)

    async def close(self) -> None:
        """Running attempts have been cancelled before; whatever is left of them ends now."""
        self._active.clear()
        if self._spawning:
            await asyncio.wait(self._spawning)
        await self.reap()
        for child in list(self._children):
            await child.wait_ended(KILLED_S)
        await self._in_thread(self._guard.stop)
        self._threads.shutdown(wait=False)
        self._sweeper.shutdown(wait=False, cancel_futures=True)

    async def _attempt(self, assignment: Assignment, output: OutputSink) -> Outcome:
        child = self._watch(await self._spawn(assignment), output)
        try:
            if await child.wait_ended(assignment.timeout_s):
                return _outcome(child.code)
            await self._end(child, assignment, TIMEOUT_GRACE_S)
            return Outcome(kind=OutcomeKind.TIMED_OUT, detail=f"killed after {assignment.timeout_s:g} s")
        except asyncio.CancelledError:
            await self._end(child, assignment, KILL_GRACE_S)
            raise
        finally:
            child.mute()

    async def _end(self, child: Child, assignment: Assignment, grace_s: float) -> None:
        """SIGTERM, then SIGKILL; at once if this is cancelled too. What has left the group is looked for."""
        key = _key(own_variables(assignment))
        try:
            child.signal_group(signal.SIGTERM)
            await child.wait_ended(grace_s)
        finally:
            child.signal_group(signal.SIGKILL)
            with contextlib.suppress(RuntimeError):  # closed meanwhile, which has looked for it
                self._sweeper.submit(end_marked_and_wait, lambda found: self._is_of(found, key))
        await child.wait_ended(KILLED_S)  # its end is reported when it is gone: the next attempt may start at once

    async def _spawn(self, assignment: Assignment) -> Spawned:
        """In a thread. A cancelled task must not lose sight of a process that is just being started."""
        spawning = self._in_thread(self._spawn_guarded, assignment)
        self._spawning.add(spawning)
        spawning.add_done_callback(self._spawning.discard)
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            spawning.add_done_callback(self._kill_unwanted)
            raise

    def _spawn_guarded(self, assignment: Assignment) -> Spawned:
        plan = plan_command(assignment, self._owner.mark)
        self._guard.ensure_running()
        return spawn(plan)

    def _kill_unwanted(self, spawning: asyncio.Future[Spawned]) -> None:
        if not spawning.cancelled() and spawning.exception() is None:
            child = self._watch(spawning.result())
            child.signal_group(signal.SIGKILL)

    def _watch(self, spawned: Spawned, output: OutputSink = NO_OUTPUT) -> Child:
        child = Child(spawned, output, self._children.discard)
        self._children.add(child)
        return child

    def _is_of(self, environment: Environment, key: Key) -> bool:
        return environment[MARK] == self._owner.mark and _key(environment) == key

    def _is_leftover(self, environment: Environment) -> bool:
        if not environment[MARK].startswith(self._owner.prefix):
            return False  # another node's
        return environment[MARK] != self._owner.mark or _key(environment) not in self._active

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _key(environment: Mapping[str, str]) -> Key:
    """The attempt that a process is of."""
    return environment.get("HORAE_RUN_ID"), environment.get("HORAE_FENCE_TOKEN")


def _failed(detail: str) -> Outcome:
    return Outcome(kind=OutcomeKind.FAILED, detail=one_line(detail))


def _outcome(code: int) -> Outcome:
    """Of an exit code, or minus a signal's number. A shell's way of telling a signal is the status."""
    if code == 0:
        return Outcome(kind=OutcomeKind.SUCCEEDED, status=0)
    if code > 0:
        return Outcome(kind=OutcomeKind.FAILED, status=code, detail=f"exit code {code}")
    name = signal.Signals(-code).name
    hint = " (cpu_s is used up)" if name == "SIGXCPU" else ""
    return Outcome(kind=OutcomeKind.FAILED, status=128 - code, detail=f"killed by {name}{hint}")
