"""One node at work: its loops, wired to the log's events. `run` until it is told to stop, then it leaves in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from executor.interface import Executor
from node.backfill_steps import BackfillSteps
from node.clock import Clock
from node.config import NodeConfig
from node.delivery import DeliveryLoop, Sender
from node.duty_loop import DutyLoop
from node.freshness import QuorumProbe
from node.look_ahead import LookAhead
from node.loop_lag import LoopLag
from node.metrics import Metrics
from node.plans import Plan, PlanCache
from node.reaping import Reaper
from node.retention_loop import RetentionLoop
from node.runlogs import RunLogs
from node.session_calls import SessionCalls
from node.skew import ClockSkews
from node.tick_loop import TickLoop
from node.ticker import Appeared, Moved, Ticker
from node.timers import ClaimKey
from node.views import StateSource
from node.worker import Worker
from raftlog.errors import LogError
from raftlog.interface import EVERY_NODE, Log, LogStatus
from statemachine.codec import Undecodable, decode_event
from statemachine.commands import (
    AnyEvent,
    BucketsMoved,
    DueChanged,
    JobDeleted,
    JobUpdated,
    RunClaimed,
    RunsPruned,
    SessionEnded,
    SessionRenewed,
    StopRequested,
)
from statemachine.limits import INT_MAX
from statemachine.records import Job, Session

PRUNE_EVERY_S = 600.0
UPLOAD_REST_S = 0.5
"""What logs that wait for the log store get of a leaving node's time; they are not lost, but wait for its return."""
MIB = 1024 * 1024
DAY_MS = 24 * 3600 * 1000
STALLED_S = 2.0
"""A loop that did not turn for so long is shown as stalled: twenty times its usual pace."""
LEADERSHIP_TRANSFER_S = 1.0
"""How long a leaving leader waits until another leads; usually it takes a round trip and two commits."""
QUORUM_LOST_S = 4.0
"""Without a passed barrier for so long, this node does not reach a majority."""

logger = logging.getLogger(__name__)


class Runtime:
    """Everything of a node but its API. The log and the state's source are the caller's, and outlive it.

    `clock` is what the node goes by; the session's renewals alone tell what `machine_clock` shows."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        log: Log,
        source: StateSource,
        executors: Mapping[str, Executor],
        sender: Sender,
        logs: RunLogs,
        clock: Clock,
        machine_clock: Clock,
        skews: ClockSkews,
        random: Callable[[], float],
        metrics: Metrics,
        make_plan: Callable[[Job], Plan],
        version: str,
        tzdata: str,
    ) -> None:
        self._config = config
        self._log = log
        self._logs = logs
        self._clock = clock
        self._source = source
        self._tzdata = tzdata
        self._other_tzdata: dict[str, str] = {}
        self.skews = skews
        self.reaper = Reaper(executors)
        self.loop_lag = LoopLag(clock.monotonic)
        self.probe = QuorumProbe(log, clock, every_s=config.quorum_probe_every_s)
        calls = SessionCalls(
            config=config,
            log=log,
            source=source,
            clock=machine_clock,
            skews=skews,
            version=version,
            tzdata=tzdata,
            running=lambda: len(self.worker.attempts),
            kinds=executors.keys(),
        )
        self.worker = Worker(
            config=config,
            log=log,
            source=source,
            executors=executors,
            logs=logs,
            clock=clock,
            random=random,
            metrics=metrics,
            session_calls=calls,
        )
        plans = PlanCache(make_plan)
        self._ticks = TickLoop(
            config=config,
            log=log,
            source=source,
            clock=clock,
            ticker=_ticker(config, plans),
            backfills=BackfillSteps(node=config.node, plans=plans),
            session=lambda: self.worker.session,
        )
        self._duties = DutyLoop(config=config, log=log, source=source, clock=clock)
        self._retention = RetentionLoop(config=config, log=log, source=source, clock=clock)
        self._delivery = DeliveryLoop(config=config, log=log, source=source, clock=clock, sender=sender)
        self._copies_received = log.status.snapshots_received
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ask `run` to drain and return. Safe to repeat."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until `stop`, then drain. Raises whatever broke one of the loops: the node must end then."""
        self._log.subscribe(self._config.node, self._on_events)
        self._log.subscribe(EVERY_NODE, self._on_events)
        self._log.on_status(self._on_status)
        await self.reaper.reap()
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(loop)
                for loop in (
                    self.worker.run(),
                    self.worker.reconciliation.run(),
                    self._ticks.run(),
                    self._duties.run(),
                    self._delivery.run(),
                    self._retention.run(),
                    self.probe.run(),
                    self.loop_lag.run(),
                    self.reaper.run(),
                    self._prune_forever(),
                    self._logs.upload(),
                )
            ]
            await self._stopping.wait()
            logger.info("draining")
            await self.worker.drain()
            await self._hand_leadership_over()
            await self._logs.leave(UPLOAD_REST_S)
            for loop in loops:
                loop.cancel()
        self.worker.stop()

    async def _hand_leadership_over(self) -> None:
        """Last of all: until then the leader's duties were ours, and they moved our own buckets. Whoever is left with
        the others need not wait for an election. If it fails they do, so nothing is lost by it."""
        try:
            if await self._log.transfer_leadership(timeout_s=LEADERSHIP_TRANSFER_S):
                return
            logger.info("nobody took the leadership over")
        except LogError as error:
            logger.warning("the leadership was not handed over: %s", error)

    def not_ready(self) -> str | None:
        """Why this node should get no traffic now; None when it should."""
        if self._stopping.is_set():
            return "this node is leaving"
        status = self._log.status
        if status.node in status.low_disks:
            free_mib = (status.disk_free_bytes or 0) / MIB
            return f"the disk of this node is nearly full ({free_mib:.0f} MiB free)"
        if self.probe.stale_s > QUORUM_LOST_S:
            return "this node does not reach a majority of the cluster"
        if not self.worker.may_start():
            return "this node has no valid session"
        if self._clock.monotonic() - self._ticks.last_step_s > STALLED_S:
            return "scheduling on this node has stalled"
        return None

    def _on_status(self, status: LogStatus) -> None:
        self._duties.on_status(status)
        if status.snapshots_received != self._copies_received:
            self._copies_received = status.snapshots_received
            self._read_anew()

    def _read_anew(self) -> None:
        """A copy of another node's state has become ours: nothing that happened in between was told. What is held in
        memory is compared with it at once, as it is from time to time in case an event was lost."""
        logger.info("the state was replaced by a copy of the leader's")
        self._ticks.on_event(Moved())
        self._duties.on_buckets_moved()
        self.worker.on_state_replaced()

    def _on_events(self, index: int, bodies: Sequence[bytes]) -> None:
        claims: list[RunClaimed] = []
        for body in bodies:
            try:
                event = decode_event(body)
            except Undecodable as error:
                # A newer leader's machine may know more events; whoever needs one rebuilds from the state.
                logger.warning("an event of a version that this node does not know: %s", error)
                continue
            if isinstance(event, RunClaimed):
                claims.append(event)
            else:
                self._on_event(event)
        if claims:
            self.worker.on_claimed(index, claims)

    def _on_event(self, event: AnyEvent) -> None:
        match event:
            case StopRequested():
                self.worker.on_stop_requested(ClaimKey(event.run_id, event.token))
            case JobDeleted():
                self.worker.on_superseded(event.job_id, INT_MAX)
            case JobUpdated():
                self.worker.on_superseded(event.job_id, event.version)
            case SessionEnded() if event.node == self._config.node:
                self.worker.on_session_ended(event.incarnation)
            case SessionRenewed():
                self._on_renewed(event)
            case BucketsMoved():
                self._ticks.on_event(Moved())
                self._duties.on_buckets_moved()
            case RunsPruned():
                self._logs.forget(event.runs)
            case DueChanged():
                self._ticks.on_event(Appeared(at_ms=event.at_ms))
            case _:
                pass

    def _on_renewed(self, event: SessionRenewed) -> None:
        with self._source.view() as view:
            session, clock_ms = view.session(event.node), view.clock_ms()
        if self.probe.stale_s < QUORUM_LOST_S:  # else it is news of long ago, from a log that is being caught up with
            self.skews.heard(event.node, event.wall_ms, clock_ms)
        if session is not None:
            self._maybe_warn_of_tzdata(session)

    def _maybe_warn_of_tzdata(self, session: Session) -> None:
        """Replicas cannot come to differ by it, since only proposers compute ticks; but the same job may then fire at
        another hour, depending on who owns its bucket."""
        if session.tzdata == self._tzdata:
            self._other_tzdata.pop(session.node, None)
        elif self._other_tzdata.get(session.node) != session.tzdata:
            self._other_tzdata[session.node] = session.tzdata
            logger.warning(
                "node %s computes ticks with tzdata %s, this one with %s: install the same on all",
                *(session.node, session.tzdata, self._tzdata),
            )

    async def _prune_forever(self) -> None:
        await self._logs.start()
        while True:
            await self._prune()
            await asyncio.sleep(PRUNE_EVERY_S)

    async def _prune(self) -> None:
        """By the cluster's clock: a wrong one would take all logs away."""
        with self._source.view() as view:
            clock_ms = view.clock_ms()
        if clock_ms is not None:
            await self._logs.prune(clock_ms - self._config.logs_keep_days * DAY_MS)


def _ticker(config: NodeConfig, plans: PlanCache) -> Ticker:
    return Ticker(
        node=config.node,
        plans=plans,
        look_ahead=LookAhead(config.cluster),
        fires_max=config.fires_in_flight_max,
        releases_max=config.releases_in_flight_max,
        rescan_every_ms=round(config.rescan_every_s * 1000),
    )
