"""Runs claims on this machine: takes those whose time has come, and reports how each ended.

Attempts that need no waiting (noop) are settled in one go, without a task each. The others get a task, within the
slots; what is beyond waits here. An attempt that is killed with its session is not reported: its claim is another
node's by then, or will be when the session has ended. One that was stopped alone is reported as cancelled. One that
ended by itself is reported whenever that is noticed, under its own token: after a pause that is how the state machine
comes to refuse, and count, a zombie's result.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from executor import describe_missing
from executor.interface import Executor, InstantExecutor, Outcome, OutcomeKind
from node.backlog import Backlog
from node.clock import Clock
from node.live_log import LiveLog
from node.timers import ClaimKey
from node.work import Work
from statemachine.commands import Start

INSTANT_SLICE_MAX = 256
"""Attempts settled between two looks at whether the session still holds."""

logger = logging.getLogger(__name__)


class AttemptSink(Protocol):
    """What attempts tell."""

    def started(self, work: Work, started_ms: int) -> None:
        """An attempt starts now."""
        ...

    def lasting(self, start: Start) -> None:
        """An attempt has been running for a while."""
        ...

    def open_log(self, work: Work) -> LiveLog:
        """Where an attempt puts out what it does."""
        ...

    def close_log(self, log: LiveLog) -> int | None:
        """An attempt has ended, however it did. Answers how many bytes of its log are kept."""
        ...

    def ended(
        self, work: Work, outcome: Outcome, started_ms: int, finished_ms: int, log_bytes: int | None = None
    ) -> None:
        """An attempt ended by itself, or was stopped."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """An attempt under way."""

    work: Work
    task: asyncio.Task[Outcome]
    started_ms: int


class Attempts:
    """All attempts of one node. `may_start` is asked at the very instant of each start."""

    def __init__(
        self,
        *,
        slots: int,
        kind_slots: Mapping[str, int] | None = None,
        start_report_after_s: float,
        clock: Clock,
        executors: Mapping[str, Executor],
        sink: AttemptSink,
        may_start: Callable[[], bool],
    ) -> None:
        self._slots = slots
        self._kind_slots = kind_slots or {}
        self._start_report_after_s = start_report_after_s
        self._clock = clock
        self._executors = executors
        # Asking for the protocol at each run cost a twelfth of a node's time.
        self._instant_executors = {kind: one for kind, one in executors.items() if isinstance(one, InstantExecutor)}
        self._sink = sink
        self._may_start = may_start
        self._instant: deque[Work] = deque()
        self._backlog = Backlog()
        self._running: dict[ClaimKey, Running] = {}
        self._stopping: set[ClaimKey] = set()
        self._running_kinds: Counter[str] = Counter()
        self._unreported: deque[tuple[float, ClaimKey]] = deque()

    def __len__(self) -> int:
        """Attempts under way."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Claims past their time that wait for a slot."""
        return len(self._backlog) + len(self._instant)

    def running_by_kind(self) -> dict[str, int]:
        return dict.fromkeys(self._executors, 0) | self._running_kinds

    def take(self, works: Iterable[Work]) -> None:
        """Work whose time has come."""
        for work in works:
            if work.definition.kind in self._instant_executors:
                self._instant.append(work)
            else:
                self._backlog.push(work)

    def step(self) -> None:
        """Start what may start, and report the starts of attempts that last."""
        while self._instant and self._may_start():
            for _ in range(min(INSTANT_SLICE_MAX, len(self._instant))):
                self._settle(self._instant.popleft())
        while self._backlog and len(self._running) < self._slots and self._may_start():
            work = self._backlog.pop(without=self._full_kinds())
            if work is None:
                break
            self._start(work)
        self._report_starts()

    def _full_kinds(self) -> list[str]:
        """The kinds of targets that have all their slots taken."""
        return [kind for kind, most in self._kind_slots.items() if self._running_kinds[kind] >= most]

    def next_report_s(self) -> float | None:
        """When the next start is to be reported, on the monotonic clock."""
        return self._unreported[0][0] if self._unreported else None

    def give_up(self, matches: Callable[[Work], bool]) -> list[Work]:
        """Take back what waits and matches; it has not started, nor will it."""
        instant = [work for work in self._instant if matches(work)]
        if instant:
            self._instant = deque(work for work in self._instant if not matches(work))
        return instant + self._backlog.take_out(matches)

    def kill(self, session: int) -> int:
        """Kill every attempt that was claimed by this session; returns how many. They are not reported."""
        running = [attempt for attempt in self._running.values() if attempt.work.key not in self._stopping]
        victims = [attempt for attempt in running if attempt.work.claim.session == session]
        for attempt in victims:
            attempt.task.cancel()
        return len(victims)

    def stop(self, keys: Set[ClaimKey]) -> list[Work]:
        """Kill the attempts of these claims; each is reported as cancelled once it is gone. Returns those that wait
        here, and never start. Repeating it does not disturb an executor that is tidying up."""
        for key in (keys & self._running.keys()) - self._stopping:
            self._stopping.add(key)
            self._running[key].task.cancel()
        return self.give_up(lambda work: work.key in keys)

    async def wait_idle(self, timeout_s: float) -> bool:
        """Whether every attempt under way ended in time."""
        if self._running:
            await asyncio.wait([attempt.task for attempt in self._running.values()], timeout=timeout_s)
        return not self._running

    def _settle(self, work: Work) -> None:
        executor = self._instant_executors[work.definition.kind]
        started_ms = self._clock.wall_ms()
        self._sink.started(work, started_ms)
        outcome = executor.run_instantly(work.assignment(started_ms))
        self._sink.ended(work, outcome, started_ms, self._clock.wall_ms())

    def _start(self, work: Work) -> None:
        started_ms = self._clock.wall_ms()
        self._sink.started(work, started_ms)
        log = self._sink.open_log(work)
        task = asyncio.get_running_loop().create_task(self._outcome(work, started_ms, log))
        # Not inside the task: one that is cancelled before its first step never runs a line of its own.
        task.add_done_callback(lambda _: self._on_done(work, task, log, started_ms))
        self._running[work.key] = Running(work=work, task=task, started_ms=started_ms)
        self._running_kinds[work.definition.kind] += 1
        self._unreported.append((self._clock.monotonic() + self._start_report_after_s, work.key))

    def _on_done(self, work: Work, task: asyncio.Task[Outcome], log: LiveLog, started_ms: int) -> None:
        if self._running.pop(work.key, None) is not None:
            self._running_kinds[work.definition.kind] -= 1
        was_stopped = work.key in self._stopping
        self._stopping.discard(work.key)
        log_bytes = self._sink.close_log(log)
        if not task.cancelled():
            self._sink.ended(work, task.result(), started_ms, self._clock.wall_ms(), log_bytes)
        elif was_stopped:
            outcome = Outcome(kind=OutcomeKind.CANCELLED, detail="stopped on request")
            self._sink.ended(work, outcome, started_ms, self._clock.wall_ms(), log_bytes)

    async def _outcome(self, work: Work, started_ms: int, output: LiveLog) -> Outcome:
        executor = self._executors.get(work.definition.kind)
        if executor is None:
            return Outcome(kind=OutcomeKind.FAILED, detail=describe_missing(work.definition.kind))
        try:
            return await executor.run(work.assignment(started_ms), output)
        except Exception:
            logger.exception("run %s: the executor broke its promise not to raise", work.claim.run_id)
            return Outcome(kind=OutcomeKind.FAILED, detail="internal error of the executor; see the node's log")

    def _report_starts(self) -> None:
        now_s = self._clock.monotonic()
        while self._unreported and self._unreported[0][0] <= now_s:
            attempt = self._running.get(self._unreported.popleft()[1])
            if attempt is not None:
                claim = attempt.work.claim
                self._sink.lasting(
                    Start(
                        now_ms=self._clock.wall_ms(),
                        run_id=claim.run_id,
                        token=claim.token,
                        started_ms=attempt.started_ms,
                    )
                )
