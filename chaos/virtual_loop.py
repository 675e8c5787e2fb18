"""An asyncio event loop on virtual time: one thread, no sockets, and the same order of events in every process.

Time moves when nothing is left to do at an instant, and a microsecond with each callback: a loop that waits for time to
pass while it never sleeps must come to its end here, too.

Callbacks and tasks belong to a `Process` by their context. One that is killed never runs another line (no `finally`, no
`except`); one that is paused catches up afterwards, in order. What belongs to none is the world: networks and disks.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

CALLBACK_S = 1e-6
"""Virtual seconds that a callback takes."""

_process: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """Something that can be killed and paused as a whole."""

    def __init__(self, name: str, *, rate: float = 1.0) -> None:
        self.name = name
        self.rate = rate
        """Seconds of its clock in a second: what it waits for comes sooner by that."""
        self.alive = True
        self.paused = False
        self.pauses = 0
        """Pauses under way: they may overlap."""
        self.held: deque[VirtualHandle] = deque()
        """What became due while it was paused."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Its unfinished tasks. They are kept when it is killed: collecting them as garbage would run their ends."""
        self._context = Context()
        self._context.run(_process.set, self)

    @property
    def context(self) -> Context:
        """What runs in this context is part of the process."""
        return self._context.copy()

    def bury(self) -> None:
        """Let go of the tasks of a killed process, when their ends can do no harm any more."""
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(Exception):
                task.get_coro().close()
        self.tasks.clear()
        self.held.clear()


def current_process() -> Process | None:
    """The process that the code at hand belongs to; None for the world."""
    return _process.get()


class VirtualHandle:
    """A callback to come: what asyncio.Handle is, without what nobody asks here. A run makes a hundred thousand."""

    __slots__ = ("args", "callback", "context", "dropped", "process")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.process = context.get(_process)
        self.dropped = False

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped


class VirtualTask(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks iterate in the same order in every process."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, process: Process | None, **rest: Any) -> None:
        self.number = number
        self.process = process
        super().__init__(coro, **rest)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.AbstractEventLoop):
    """`run_until` moves the time. An error that no code handles is raised from there."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._ready: deque[VirtualHandle] = deque()
        self._timers: list[tuple[float, int, VirtualHandle]] = []
        self._numbers = 0
        self._error: BaseException | None = None
        self._pausing: list[Process] = []
        self._running: Process | None = None
        self.on_unhandled: Callable[[Process, BaseException], None] | None = None
        """Told of errors inside a process that nobody caught; without it they end the run."""
        self.unix_listeners: dict[str, Callable[[asyncio.BaseProtocol], asyncio.BaseTransport]] = {}
        """Who accepts connections, by the path of a Unix socket."""
        self.callbacks = 0

    # --- moving the time ---------------------------------------------------------------------------------------------

    def run_until(self, end_s: float) -> None:
        """Run everything that is due up to `end_s`, which is the time afterwards."""
        events._set_running_loop(self)
        try:
            while self._error is None:
                handle = self._next_handle(end_s)
                if handle is None:
                    break
                if not handle.dropped:
                    self._run(handle)
        finally:
            events._set_running_loop(None)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._now_s = max(self._now_s, end_s)

    def _next_handle(self, end_s: float) -> VirtualHandle | None:
        if self._ready:
            return self._ready.popleft()
        if self._pausing:
            self._pause_those_to_be()
        if not self._timers or self._timers[0][0] > end_s:
            return None
        when_s, _, handle = heapq.heappop(self._timers)
        if when_s > self._now_s:
            self._now_s = when_s
        return handle

    def _run(self, handle: VirtualHandle) -> None:
        process = handle.process
        if process is not None:
            if not process.alive:
                return
            if process.paused:
                process.held.append(handle)
                return
        self.callbacks += 1
        self._running = process
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"exception": error})
        self._running = None
        self._now_s += CALLBACK_S

    def busiest(self) -> str:
        """Whose turn is next."""
        process = self._ready[0].process if self._ready else None
        return "the world" if process is None else process.name

    # --- processes ---------------------------------------------------------------------------------------------------

    def pause(self, process: Process) -> None:
        """Stop it between two instants: what is ready now still runs, so that a check and the step that follows it are
        not torn apart."""
        process.pauses += 1
        self._pausing.append(process)

    def _pause_those_to_be(self) -> None:
        for process in self._pausing:
            process.paused = process.pauses > 0
        self._pausing.clear()

    def resume(self, process: Process) -> None:
        """End one pause; it goes on when none is left."""
        process.pauses = max(process.pauses - 1, 0)
        if process.pauses:
            return
        process.paused = False
        self._ready.extend(process.held)
        process.held.clear()

    def process_context(self) -> Context:
        """A context of the process at work."""
        assert self._running is not None
        return self._running.context

    # --- asyncio's side ----------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> VirtualHandle:  # type: ignore[override]
        handle = VirtualHandle(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, copy_context() if context is None else context)
        if handle.process is not None:
            when = self._now_s + (when - self._now_s) / handle.process.rate
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, handle))
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None) -> Any:  # type: ignore[override]
        process = _process.get() if context is None else context.get(_process)
        self._numbers += 1
        task = VirtualTask(coro, number=self._numbers, process=process, loop=self, name=name, context=context)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(process.tasks.pop)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """There are no threads: at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, **_: Any) -> Any:
        accept = self.unix_listeners.get(str(path))
        if accept is None:
            raise ConnectionRefusedError(f"nobody listens on {path}")
        protocol = protocol_factory()
        transport = accept(protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context.get("message"))
        task = context.get("task") or context.get("future")
        process = task.process if isinstance(task, VirtualTask) else self._running
        if process is not None and self.on_unhandled is not None:
            self.on_unhandled(process, error)
        else:
            self._error = self._error or error

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
