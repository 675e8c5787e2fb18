"""The metrics of a node, by the names of the API's contract.

What a failover must not reset is counted by the state machine and read from there, so every node shows the same
numbers for the cluster; what happens on this node (start delays, attempts under way) is counted here. Jobs are never
labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from node.runlogs import LogFigures
from raftlog.interface import LogStatus, Role
from statemachine.records import Counters

START_DELAY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Dense below the promise (p99 of 2 s), and far enough beyond it to show how bad an outage was."""
PRIORITIES = range(10)


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFigures:
    """What is read from the state at a scrape."""

    counters: Counters
    queue_depth: Mapping[int, int] = field(default_factory=dict)
    """Runs that wait for a session with room, by priority."""
    unplaceable: int = 0
    """Of those, the ones that no live node has the tags or the executor for (counted up to a limit)."""
    slow_targets: int = 0
    """Hosts, images and programs that time out often, and hold a share of the slots only."""
    team_claims: Mapping[str, int] = field(default_factory=dict)
    """Runs under way, by team with settings (up to a limit)."""
    due_not_queued: int = 0
    """Ticks whose time is past and that have no run yet (counted up to a limit)."""
    jobs_overdue: int = 0
    """Of those, the ones that are late beyond a failover: something is wrong with them or with the cluster."""
    notifications_pending: int = 0
    lmdb_used_bytes: int = 0
    lmdb_map_bytes: int = 0
    live_nodes: Collection[str] = ()


class Metrics:
    """One node's registry. The sources are asked at each scrape; `figures` may say None when the state cannot be
    read yet."""

    def __init__(
        self,
        *,
        figures: Callable[[], StateFigures | None],
        log_status: Callable[[], LogStatus],
        running: Callable[[], Mapping[str, int]],
        executors_up: Callable[[], Mapping[str, bool]],
        skew_s: Callable[[Collection[str]], float | None],
        loop_lag_s: Callable[[], float],
        log_figures: Callable[[], LogFigures],
    ) -> None:
        self._figures = figures
        self._log_status = log_status
        self._running = running
        self._executors_up = executors_up
        self._skew_s = skew_s
        self._loop_lag_s = loop_lag_s
        self._log_figures = log_figures
        self._registry = CollectorRegistry()
        self._delays = Histogram(
            "horae_run_start_delay_seconds",
            "From a run's release to the start of its attempt.",
            ["priority"],
            buckets=START_DELAY_BUCKETS_S,
            registry=self._registry,
        )
        self._delays_by_priority: dict[int, Histogram] = {}
        self._registry.register(self)

    def observe_start(self, priority: int, delay_s: float) -> None:
        """An attempt started so long after its release."""
        delays = self._delays_by_priority.get(priority)
        if delays is None:
            delays = self._delays_by_priority[priority] = self._delays.labels(str(priority))
        delays.observe(max(delay_s, 0.0))

    def text(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def describe(self) -> Iterable[Metric]:
        """Nothing at registration: the sources are not up yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Called by the registry at each scrape."""
        yield _labelled(GaugeMetricFamily, "horae_running", "Attempts under way on this node.", "kind", self._running())
        up = {kind: float(is_up) for kind, is_up in self._executors_up().items()}
        yield _labelled(GaugeMetricFamily, "horae_executor_up", "1 if this node can run the kind now.", "kind", up)
        text = "How late this node's event loop turned, at worst in the last half minute."
        yield GaugeMetricFamily("horae_loop_lag_seconds", text, value=self._loop_lag_s())
        yield from _raft(self._log_status())
        yield from _logs(self._log_figures())
        figures = self._figures()
        if figures is not None:
            yield from _counted(figures.counters)
            yield from _state(figures)
            skew_s = self._skew_s(figures.live_nodes)
            if skew_s is not None:
                text = "How far this node's clock is ahead of the median of the live nodes'."
                yield GaugeMetricFamily("horae_clock_skew_seconds", text, value=skew_s)


def _logs(figures: LogFigures) -> Iterable[Metric]:
    text = "What the logs of runs take on this node's disk."
    yield GaugeMetricFamily("horae_run_log_bytes", text, value=float(figures.disk_bytes))
    if figures.archive is None:
        return
    archive = figures.archive
    outcomes = {"uploaded": archive.uploaded, "failed": archive.failed, "dropped": archive.dropped}
    text = "Tries of this node to put a log into the log store; a dropped one is not tried again."
    yield _labelled(CounterMetricFamily, "horae_run_log_uploads", text, "outcome", outcomes)
    yield GaugeMetricFamily("horae_run_log_uploads_waiting", "Logs that wait for the log store.", value=archive.waiting)


def _counted(counters: Counters) -> Iterable[Metric]:
    runs = {
        "succeeded": counters.runs_succeeded,
        "dead": counters.runs_dead,
        "skipped": counters.runs_skipped,
        "cancelled": counters.runs_cancelled,
    }
    yield _labelled(CounterMetricFamily, "horae_runs", "Runs of the cluster that ended.", "outcome", runs)
    skipped = counters.ticks_skipped
    yield _labelled(CounterMetricFamily, "horae_ticks_skipped", "Ticks that were not run.", "reason", skipped)
    for name, text, value in (
        ("horae_retries", "Attempts that will be tried again.", counters.attempts_retried),
        ("horae_lease_expired", "Sessions that the leader ended.", counters.sessions_expired),
        ("horae_notifications_sent", "Notifications that their receivers took.", counters.notifications_sent),
        ("horae_notifications_failed", "Notifications given up.", counters.notifications_failed),
        ("horae_fenced_writes", "Results refused because their fencing token was old.", counters.fenced_writes),
    ):
        yield CounterMetricFamily(name, text, value=value)
    dead = counters.dead_by_team
    yield _labelled(CounterMetricFamily, "horae_dead_runs", "Runs whose attempts were used up.", "team", dead)
    yield GaugeMetricFamily("horae_jobs", "Jobs that are defined.", value=counters.jobs)


def _state(figures: StateFigures) -> Iterable[Metric]:
    depth = {str(priority): figures.queue_depth.get(priority, 0) for priority in PRIORITIES}
    yield _labelled(GaugeMetricFamily, "horae_queue_depth", "Runs that wait for room.", "priority", depth)
    claims = figures.team_claims
    yield _labelled(GaugeMetricFamily, "horae_team_claims", "Runs under way of teams with settings.", "team", claims)
    for name, text, value in (
        ("horae_runs_unplaceable", "Runs that wait and that no live node can run.", figures.unplaceable),
        ("horae_slow_targets", "Targets that are held back since they time out often.", figures.slow_targets),
        ("horae_due_not_queued", "Ticks past their time without a run.", figures.due_not_queued),
        ("horae_jobs_overdue", "Jobs whose tick is late beyond a failover.", figures.jobs_overdue),
        ("horae_notifications_pending", "Notifications that are owed.", figures.notifications_pending),
        ("horae_lmdb_used_bytes", "Bytes of the database that are in use.", figures.lmdb_used_bytes),
        ("horae_lmdb_map_bytes", "Bytes that the database may grow to.", figures.lmdb_map_bytes),
    ):
        yield GaugeMetricFamily(name, text, value=value)


def _raft(status: LogStatus) -> Iterable[Metric]:
    for name, text, value in (
        ("horae_raft_term", "The term of the log.", status.term),
        ("horae_raft_leader", "1 on the node that leads.", int(status.role is Role.LEADER)),
        ("horae_raft_commit_index", "The last entry known to be committed.", status.commit_index),
        ("horae_raft_applied_index", "The last entry applied here.", status.applied_index),
        ("horae_raft_commit_seconds", "How long the last commit to disk took.", status.commit_seconds),
        ("horae_raft_proposals_pending", "Proposals of this node without a result.", status.proposals_pending),
        ("horae_raft_first_index", "The first entry that this node's log holds.", status.first_index),
        ("horae_raft_log_bytes", "What the log takes on this node's disk.", status.log_bytes),
        ("horae_disk_low", "1 on a node whose disk is nearly full.", int(status.node in status.low_disks)),
    ):
        yield GaugeMetricFamily(name, text, value=float(value))
    for name, text, value in (
        ("horae_raft_snapshots_sent", "Copies of this node's state that others installed.", status.snapshots_sent),
        ("horae_raft_snapshots_received", "Copies of another's state installed here.", status.snapshots_received),
    ):
        yield CounterMetricFamily(name, text, value=value)
    if status.disk_free_bytes is not None:
        text = "Room for this node's data: on its file system, or in the map if that is less."
        yield GaugeMetricFamily("horae_disk_free_bytes", text, value=float(status.disk_free_bytes))


def _labelled(
    family: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    metric = family(name, text, labels=[label])
    for key, value in values.items():
        metric.add_metric([key], value)
    return metric
