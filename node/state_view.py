"""The node's views of the state, on the state machine's own reader: the one place that knows both vocabularies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from node.ticker import BUCKET_AFTER_ALL, DueTick, TimerDue
from statemachine.history_records import Notification
from statemachine.policy_records import Backfill, Calendar
from statemachine.reader import StateReader
from statemachine.records import BUCKETS, BucketOwner, Job, Run, Session, Team
from statemachine.retention import Forgettable, Keep
from statemachine.snapshot import Snapshot

SAMPLED_BUCKETS = 16
"""Of all buckets: a job's bucket is a hash, so a burst shows in any of them. The last ones, because ticks are fired in
their order: from the first ones a burst that is fired in part would look like one that is over."""


class SnapshotView:
    """Implements views.StateView."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @property
    def applied_index(self) -> int:
        return self.snapshot.applied_index()

    def job(self, job_id: str) -> Job | None:
        return self.snapshot.job(job_id)

    def active_backfills(self) -> Iterator[Backfill]:
        return self.snapshot.active_backfills()

    def backfill_outstanding(self, backfill_id: str) -> int:
        return self.snapshot.backfill_outstanding(backfill_id)

    def calendar(self, name: str) -> Calendar | None:
        return self.snapshot.calendar(name)

    def job_version(self, job_id: str, version: int) -> Job | None:
        return self.snapshot.job_version(job_id, version)

    def run(self, run_id: str) -> Run | None:
        return self.snapshot.run(run_id)

    def claims_of(self, node: str, incarnation: int) -> Iterable[tuple[str, int]]:
        return self.snapshot.claims_of(node, incarnation)

    def stops_of(self, node: str, incarnation: int) -> Iterable[tuple[str, int]]:
        return self.snapshot.stops_of(node, incarnation)

    def due_ticks(self, after: DueTick | None, until_ms: int) -> Iterator[DueTick]:
        place = None if after is None else (after.due_ms, after.bucket, after.job_id)
        for due_ms, bucket, job_id, entry in self.snapshot.due_until(until_ms, after=place):
            yield DueTick(due_ms, bucket, job_id, entry.version)

    def timers_until(self, until_ms: int) -> Iterator[TimerDue]:
        for at_ms, bucket, run_id, entry in self.snapshot.timers_until(until_ms):
            yield TimerDue(at_ms, bucket, run_id, entry.token)

    def deadlines_until(self, until_ms: int) -> Iterator[tuple[int, int, str]]:
        return self.snapshot.deadlines_until(until_ms)

    def due_counts(self, from_ms: int, until_ms: int, *, window_ms: int, instants_max: int) -> dict[int, int]:
        """Counts a few buckets of each instant and jumps over the others: a burst of 100,000 costs 1,600 reads."""
        counts: dict[int, int] = {}
        at_ms = from_ms - 1
        for _ in range(instants_max):
            first = next(self.snapshot.due_until(until_ms, 1, (at_ms, BUCKET_AFTER_ALL, "")), None)
            if first is None:
                break
            at_ms = first[0]
            window = at_ms - at_ms % window_ms
            counts[window] = counts.get(window, 0) + self._estimate(at_ms)
        return counts

    def _estimate(self, at_ms: int) -> int:
        sampled = sum(1 for _ in self.snapshot.due_until(at_ms, after=(at_ms, BUCKETS - SAMPLED_BUCKETS, "")))
        return max(sampled * BUCKETS // SAMPLED_BUCKETS, 1)

    def team(self, team: str) -> Team | None:
        return self.snapshot.team(team)

    def live_jobs(self, after_id: str, limit: int) -> Sequence[Job]:
        return self.snapshot.jobs(after_id=after_id, limit=limit)

    def deleted_jobs(self, after_id: str, limit: int) -> Sequence[Job]:
        return self.snapshot.deleted_jobs(after_id=after_id, limit=limit)

    def forgettable(self, job: Job, keep: Keep, now_ms: int, runs_max: int) -> Forgettable:
        return self.snapshot.forgettable(job, keep, now_ms, runs_max)

    def notifications_until(self, horizon_ms: int) -> Iterator[Notification]:
        return self.snapshot.notifications_until(horizon_ms)

    def session(self, node: str) -> Session | None:
        return self.snapshot.session(node)

    def sessions(self) -> Sequence[Session]:
        return self.snapshot.sessions()

    def clock_ms(self) -> int | None:
        return self.snapshot.clock_ms()

    def ended_sessions(self) -> Sequence[tuple[str, int]]:
        return self.snapshot.ended_sessions()

    def bucket_owners(self) -> Sequence[BucketOwner]:
        return self.snapshot.buckets()

    def owned_buckets(self, node: str) -> Mapping[int, int]:
        return {bucket: owner.epoch for bucket, owner in enumerate(self.snapshot.buckets()) if owner.node == node}


class ReaderSource:
    """Implements views.StateSource."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader

    @contextmanager
    def view(self) -> Iterator[SnapshotView]:
        with self._reader.snapshot() as snapshot:
            yield SnapshotView(snapshot)
