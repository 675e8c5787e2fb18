"""What makes this node work: its session, its claims, its attempts, in one loop.

The loop that starts runs is the loop that renews the session: a node that hangs in one hangs in both, and is taken
for dead rather than half alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from executor.interface import Executor, Outcome
from node.attempts import Attempts
from node.clock import Clock
from node.config import NodeConfig
from node.live_log import LiveLog
from node.metrics import Metrics
from node.outcomes import report_of
from node.reconciliation import Reconciliation
from node.reporter import Report, Reporter
from node.runlogs import RunLogs
from node.session_calls import SessionCalls
from node.sessions import Drain, Ended, KillAll, Open, Renew, SessionEvent, SessionKeeper
from node.timers import (
    Claimed,
    ClaimKey,
    Finished,
    Lapsed,
    Leaving,
    Reconciled,
    ReleaseTimers,
    Stopped,
    Superseded,
    TimerEvent,
)
from node.views import StateSource
from node.wakeup import Wakeup
from node.work import Work, WorkSource
from raftlog.interface import Log
from statemachine.commands import AnyReply, Detach, Finish, RunClaimed, Start, Withdraw
from statemachine.records import Session, SkipReason

DRAINING_TOLD_S = 1.0
HANDED_OVER_S = 1.0
HANDED_OVER_POLL_S = 0.02
"""How long a leaving node waits for the cluster to know, and for its buckets to be others': both usually take a part
of it, and neither must keep it from leaving."""
SESSION_END_S = 1.0
"""What a leaving node keeps of its time for ending its session."""
LAST_TRY_S = 0.1
"""What a step of leaving gets when the steps before it took all the time."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Worker:
    """One node's share of the work. `run` until cancelled; `drain` before, to leave in order."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        log: Log,
        source: StateSource,
        executors: Mapping[str, Executor],
        logs: RunLogs,
        clock: Clock,
        random: Callable[[], float],
        metrics: Metrics,
        session_calls: SessionCalls,
    ) -> None:
        self._config = config
        self._source = source
        self._logs = logs
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._calls = session_calls
        self._keeper = SessionKeeper(config.cluster)
        self._timers = ReleaseTimers()
        self._works = WorkSource(config.api_url)
        self._reporter = Reporter(log, timeout_s=config.propose_timeout_s)
        self.attempts = Attempts(
            slots=config.slots,
            kind_slots=config.kind_slots,
            start_report_after_s=config.start_report_after_s,
            clock=clock,
            executors=executors,
            sink=self,
            may_start=self._may_start_and_report,
        )
        self._session_events: list[SessionEvent] = []
        self._timer_events: list[TimerEvent] = []
        self._wakeup = Wakeup()
        self.reconciliation = Reconciliation(
            config=config, source=source, clock=clock, timers=self._timers, tell=self._on_reconciled
        )
        self._left = False

    # --- what happens around the worker ------------------------------------------------------------------------------

    @property
    def session(self) -> int | None:
        """The incarnation of the session that this node holds."""
        return self._keeper.incarnation

    def may_start(self) -> bool:
        """Whether the session is good enough to start an attempt now."""
        return self._keeper.may_start(self._clock.boottime())

    def on_claimed(self, index: int, claims: Iterable[RunClaimed]) -> None:
        self._timer_events.extend(Claimed(index=index, claim=claim) for claim in claims)
        self._wakeup.wake()

    def on_superseded(self, job_id: str, version: int) -> None:
        """A job was deleted, or changed to this version."""
        self._timer_events.append(Superseded(job_id=job_id, version=version))
        self._wakeup.wake()

    def on_stop_requested(self, key: ClaimKey) -> None:
        """A claim is to be ended now."""
        self._timer_events.append(Stopped(key=key))
        self._wakeup.wake()

    def on_session_event(self, event: SessionEvent) -> None:
        self._session_events.append(event)
        self._wakeup.wake()

    def on_session_ended(self, incarnation: int) -> None:
        self.on_session_event(Ended(incarnation=incarnation))

    def on_state_replaced(self) -> None:
        """The events of a while were not told: look for what they may have said. A state that does not know this
        node's session yet says nothing about it."""
        with self._source.view() as view:
            session = view.session(self._config.node)
        held = self._keeper.incarnation
        if held is not None and session is not None and _is_over(held, session):
            self.on_session_ended(held)
        self.reconciliation.wake()

    def _on_reconciled(self, event: Reconciled) -> None:
        self._timer_events.append(event)
        self._timer_events.extend(Stopped(key=key) for key in event.stopped)
        self._wakeup.wake()

    # --- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. Whatever it raises is a broken invariant: the node must end."""
        while True:
            await self._wakeup.sleep(self.pulse())

    def pulse(self) -> float:
        """One turn: renew, start, report. Returns the seconds until the next, if nothing happens before."""
        now_s = self._clock.boottime()
        self._act(self._keeper.step(now_s, _drained(self._session_events)))
        self._follow_session()
        events = _drained(self._timer_events)
        self._give_up_superseded(events)
        self._stop_attempts(events)
        # Fenced, the timers still take in what happens, but no claim's time has come.
        due = self._timers.step(self._clock.wall_ms() if self._may_start_and_report() else 0, events)
        self._withdraw(due.superseded, SkipReason.SUPERSEDED)
        self._withdraw(due.stopped, None)
        self._withdraw(due.given_back, None)
        self._take(due.start)
        self.attempts.step()
        self._reporter.yield_to_starts(self._starts_wait())
        return self._sleep_s(now_s)

    def _starts_wait(self) -> bool:
        """Whether the burst goes on: the next step starts more."""
        release_ms = self._timers.next_release_ms()
        return release_ms is not None and release_ms <= self._clock.wall_ms() and self._may_start_and_report()

    def _may_start_and_report(self) -> bool:
        return self.may_start() and len(self._reporter) < self._config.finishes_waiting_max

    def _act(self, actions: Iterable[Open | Renew | KillAll]) -> None:
        for action in actions:
            match action:
                case Open() | Renew():
                    self._calls.call(action, self.on_session_event)
                case KillAll():
                    self._kill(action)

    def _kill(self, order: KillAll) -> None:
        if not self._left:
            logger.warning("session %d lapsed: %s", order.incarnation, order.why)
        self._timer_events.append(Lapsed(incarnation=order.incarnation))
        self.attempts.give_up(lambda work: work.claim.session == order.incarnation)
        # What ended while this process was paused is read by the loop in the meantime, and reported.
        asyncio.get_running_loop().call_later(self._config.late_result_grace_s, self.attempts.kill, order.incarnation)

    def _follow_session(self) -> None:
        """A new session may have been handed claims before this node heard that it is open: read them."""
        if self._keeper.incarnation is not None and self._keeper.incarnation != self._timers.session:
            self._timers.open(self._keeper.incarnation)
            logger.info("session %d is open", self._keeper.incarnation)
            self.reconciliation.wake()

    def _take(self, claims: Sequence[RunClaimed]) -> None:
        if not claims:
            return
        works: list[Work] = []
        lost: list[RunClaimed] = []
        with self._source.view() as view:
            for claim in claims:
                work = self._works.work_of(view, claim)
                if work is None:
                    lost.append(claim)
                else:
                    works.append(work)
        self._withdraw(lost, SkipReason.SUPERSEDED)
        self.attempts.take(works)

    def _give_up_superseded(self, events: Iterable[TimerEvent]) -> None:
        versions = {event.job_id: event.version for event in events if isinstance(event, Superseded)}
        if versions:
            given_up = self.attempts.give_up(lambda work: work.claim.job_version < versions.get(work.claim.job_id, 0))
            self._withdraw([work.claim for work in given_up], SkipReason.SUPERSEDED)

    def _stop_attempts(self, events: Iterable[TimerEvent]) -> None:
        keys = {event.key for event in events if isinstance(event, Stopped)}
        if keys:
            self._withdraw([work.claim for work in self.attempts.stop(keys)], None)

    def _withdraw(self, claims: Iterable[RunClaimed], reason: str | None) -> None:
        for claim in claims:
            command = Withdraw(now_ms=self._clock.wall_ms(), run_id=claim.run_id, token=claim.token, reason=reason)
            self._reporter.report(command, self._on_answered)

    def _sleep_s(self, now_s: float) -> float:
        waits = [self._config.step_every_s, self._keeper.next_step_s(now_s) - now_s]
        release_ms = self._timers.next_release_ms()
        if release_ms is not None and self._may_start_and_report():
            waits.append((release_ms - self._clock.wall_ms()) / 1000)
        report_s = self.attempts.next_report_s()
        if report_s is not None:
            waits.append(report_s - self._clock.monotonic())
        return max(min(waits), 0.0)

    # --- what attempts tell ------------------------------------------------------------------------------------------

    def started(self, work: Work, started_ms: int) -> None:
        if work.claim.attempt == 1:
            self._metrics.observe_start(work.claim.priority, (started_ms - work.claim.release_ms) / 1000)

    def lasting(self, start: Start) -> None:
        self._reporter.report(start, self._on_answered)

    def open_log(self, work: Work) -> LiveLog:
        return self._logs.open(work.claim.run_id, work.claim.attempt)

    def close_log(self, log: LiveLog) -> int | None:
        return self._logs.close(log)

    def ended(
        self, work: Work, outcome: Outcome, started_ms: int, finished_ms: int, log_bytes: int | None = None
    ) -> None:
        report = report_of(
            work,
            outcome,
            started_ms=started_ms,
            finished_ms=finished_ms,
            log_bytes=log_bytes,
            random=self._random,
        )
        self._reporter.report(report, self._on_answered)
        self._wakeup.wake()

    def _on_answered(self, report: Report, reply: AnyReply) -> None:
        if reply.code != "ok":
            logger.debug("%s of run %s: %s", type(report).__name__, report.run_id, reply.code)
        if isinstance(report, Finish | Withdraw | Detach):
            self._timer_events.append(Finished(key=ClaimKey(report.run_id, report.token)))

    # --- leaving -----------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Take nothing more, let running attempts end, give back the rest, end the session. Takes `drain_s` at most."""
        deadline_s = self._clock.monotonic() + self._config.drain_s
        self.on_session_event(Drain())
        await self._calls.wait_draining(timeout_s=DRAINING_TOLD_S)
        await self._wait_handed_over()
        self._timer_events.append(Leaving())
        self._withdraw([work.claim for work in self.attempts.give_up(lambda work: True)], None)
        # At once: the withdrawals must be under way before the session is ended below.
        self.pulse()
        if not await self.attempts.wait_idle(self._config.drain_attempts_s) and self.session is not None:
            logger.warning("%d attempts did not end in time: they are given back", len(self.attempts))
            self.attempts.kill(self.session)
        await self._reporter.wait_answered(max(deadline_s - self._clock.monotonic() - SESSION_END_S, LAST_TRY_S))
        if self._keeper.incarnation is not None:
            self._left = True
            left_s = max(deadline_s - self._clock.monotonic(), LAST_TRY_S)
            await self._calls.leave(self._keeper.incarnation, self._keeper.renewal, timeout_s=left_s)

    async def _wait_handed_over(self) -> None:
        """Until this node owns no bucket, if there is another that could."""
        deadline_s = self._clock.monotonic() + HANDED_OVER_S
        while self._clock.monotonic() < deadline_s:
            with self._source.view() as view:
                takers = [one for one in view.sessions() if one.live and not one.draining]
                if not takers or not view.owned_buckets(self._config.node):
                    return
            await asyncio.sleep(HANDED_OVER_POLL_S)

    def stop(self) -> None:
        self._reporter.stop()


def _is_over(incarnation: int, session: Session) -> bool:
    return session.incarnation > incarnation or (session.incarnation == incarnation and not session.live)


def _drained(events: list[T]) -> list[T]:
    taken = events[:]
    events.clear()
    return taken
