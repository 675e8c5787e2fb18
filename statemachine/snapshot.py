"""What can be asked of the state, as of one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from statemachine.codec import (
    decode_backfill,
    decode_bucket,
    decode_calendar,
    decode_due,
    decode_idempotency,
    decode_job,
    decode_run,
    decode_session,
    decode_timer,
)
from statemachine.dead_runs import dead_run_ids
from statemachine.digest import digest_of
from statemachine.history_queries import HistoryQueries
from statemachine.keys import (
    SEPARATOR,
    U16,
    U64,
    archive_key,
    due_key,
    pair_key,
    pair_of_backfill,
    pair_prefix,
    parked_prefix,
    parse_run_id,
    place_of,
    row_prefix,
    row_run_id,
    session_prefix,
    split_due_key,
    split_session_key,
    team_prefix,
)
from statemachine.limits import (
    CALENDAR_NAME_LENGTH_MAX,
    JOB_ID_LENGTH_MAX,
    NODE_LENGTH_MAX,
    NONCE_LENGTH_MAX,
    RUNS_SCAN_MAX,
    TEAM_LENGTH_MAX,
    TIME_MS_MAX,
)
from statemachine.policy_records import Backfill, Calendar
from statemachine.records import (
    BUCKETS,
    BucketOwner,
    Counters,
    DueEntry,
    Job,
    Run,
    RunState,
    Session,
    TimerEntry,
)
from statemachine.repeat_records import IdempotencyEntry
from statemachine.tables import read_applied_index
from statemachine.team_queries import TeamQueries
from statemachine.ticks import first_unrecorded, last_version, next_tick, rows_before
from statemachine.waiting import read_depth
from statemachine.work import NOBODY, read_clock_ms, read_counters

DuePlace = tuple[int, int, str]
"""(at_ms, bucket, job id or run id): where an entry of `due` or `timers` stands."""


class RunsPage(NamedTuple):
    """Runs, newest first, and the `before_key` of the next page; None when there is no more."""

    items: list[Run]
    next_key: str | None


class Snapshot(TeamQueries, HistoryQueries):
    """Queries on one transaction. Valid until the transaction ends; ids that cannot exist are simply not found."""

    def applied_index(self) -> int:
        return read_applied_index(self._transaction, self._tables)

    def digest(self) -> str:
        """Fingerprint of the whole state; reads all of it."""
        return digest_of(self._transaction, self._tables)

    # --- jobs

    def job(self, job_id: str) -> Job | None:
        """The job; a deleted one as it was last, with `deleted_ms`."""
        if not 1 <= len(job_id) <= JOB_ID_LENGTH_MAX:
            return None
        value = self._get(self._tables.jobs, job_id.encode())
        if value is not None:
            return decode_job(value)
        return last_version(self._transaction, self._tables, job_id)

    def job_version(self, job_id: str, version: int) -> Job | None:
        """The job as it was at a version: the current one, or one of the last few before it."""
        job = self.job(job_id)
        if job is None or job.version == version:
            return job
        value = self._get(self._tables.job_archive, archive_key(job_id, version))
        return None if value is None else decode_job(value)

    def jobs(
        self, team: str | None = None, name: str | None = None, after_id: str | None = None, limit: int = 50
    ) -> list[Job]:
        """Live jobs in order of id, after `after_id`; of a team, with exactly this name."""
        if team is not None and len(team) > TEAM_LENGTH_MAX:
            return []
        after = (after_id or "")[:JOB_ID_LENGTH_MAX]
        job_ids = self._job_ids(team, after) if name is None else self._named_ids(team, name, after)
        return [self._live_job(job_id) for job_id in islice(job_ids, limit)]

    def next_run_ms(self, job_id: str) -> int | None:
        """The tick that a live job stands at; None if no tick is to come."""
        job = self.job(job_id)
        if job is None or job.deleted_ms is not None:
            return None
        return next_tick(self._transaction, self._tables, job)

    def first_unrecorded_ms(self, job_id: str) -> int | None:
        """The first tick of a live job that has neither a run nor a skip; of a paused one, where its pause begins."""
        job = self.job(job_id)
        if job is None or job.deleted_ms is not None:
            return None
        return first_unrecorded(self._transaction, self._tables, job)

    def backfill(self, backfill_id: str) -> Backfill | None:
        if not 1 <= len(backfill_id) <= NONCE_LENGTH_MAX:
            return None
        value = self._get(self._tables.backfills, backfill_id.encode())
        return None if value is None else decode_backfill(value)

    def backfills_of(self, job_id: str, after: str | None = None) -> Iterator[Backfill]:
        """The job's backfills, oldest first, after this one."""
        prefix = pair_of_backfill(job_id[:JOB_ID_LENGTH_MAX], "")
        start = prefix if after is None else prefix + after[:NONCE_LENGTH_MAX].encode() + SEPARATOR
        for key, _ in self._under(self._tables.job_backfills, prefix, start):
            found = self.backfill(key[len(prefix) :].decode())
            assert found is not None, "a listed backfill must exist"
            yield found

    def active_backfills(self) -> Iterator[Backfill]:
        """Those that are running, of all jobs."""
        for key, _ in self._under(self._tables.active_backfills, b""):
            found = self.backfill(key.decode())
            assert found is not None, "an active backfill must exist"
            yield found

    def backfill_outstanding(self, backfill_id: str) -> int:
        """How many of its runs are not over."""
        return sum(1 for _ in self._under(self._tables.backfill_runs, backfill_id.encode() + SEPARATOR))

    def calendar(self, name: str) -> Calendar | None:
        if not 1 <= len(name) <= CALENDAR_NAME_LENGTH_MAX:
            return None
        value = self._get(self._tables.calendars, name.encode())
        return None if value is None else decode_calendar(value)

    def calendars(self, after: str | None = None) -> Iterator[Calendar]:
        """In order of name, after this one."""
        start = b"" if after is None else after[:CALENDAR_NAME_LENGTH_MAX].encode() + SEPARATOR
        for _, value in self._under(self._tables.calendars, b"", start):
            yield decode_calendar(value)

    def idempotency_entry(self, team: str, key: str) -> IdempotencyEntry | None:
        """What an idempotency key of a team made; perhaps longer ago than keys count (IDEMPOTENCY_KEPT_MS)."""
        value = self._get(self._tables.idempotency, pair_key(team, key))
        return None if value is None else decode_idempotency(value)

    # --- what is to be done, and when

    def due_until(
        self, horizon_ms: int, limit: int | None = None, after: DuePlace | None = None
    ) -> Iterator[tuple[int, int, str, DueEntry]]:
        """(due_ms, bucket, job id, entry) of ticks up to the horizon, in order of time; `after` goes on from a
        place."""
        for place, value in self._until(self._tables.due, horizon_ms, limit, after):
            yield (*place, decode_due(value))

    def timers_until(
        self, horizon_ms: int, limit: int | None = None, after: DuePlace | None = None
    ) -> Iterator[tuple[int, int, str, TimerEntry]]:
        """(at_ms, bucket, run id, entry) of runs to be released up to the horizon, in order of time."""
        for place, value in self._until(self._tables.timers, horizon_ms, limit, after):
            yield (*place, decode_timer(value))

    def deadlines_until(self, horizon_ms: int) -> Iterator[DuePlace]:
        """(at_ms, bucket, run id) of runs to be ended up to the horizon, in order of time."""
        for place, _ in self._until(self._tables.deadlines, horizon_ms, None, None):
            yield place

    # --- runs

    def run(self, run_id: str) -> Run | None:
        if parse_run_id(run_id) is None:
            return None
        value = self._get(self._tables.runs, run_id.encode())
        return None if value is None else decode_run(value)

    def runs_of_job(
        self,
        job_id: str,
        states: Collection[RunState] = (),
        from_ms: int | None = None,
        to_ms: int | None = None,
        before_key: str | None = None,
        limit: int = 50,
    ) -> RunsPage:
        """The job's runs of every kind, newest first: due from `from_ms` (inclusive) to `to_ms` (exclusive), in one of
        `states` (none: any), older than the run id `before_key`. A page may be short of `limit` and still have a
        next."""
        items: list[Run] = []
        last = None
        for scanned, run_id in enumerate(self._run_ids(job_id, to_ms, before_key)):
            if len(items) == limit or scanned == RUNS_SCAN_MAX:
                return RunsPage(items, last)
            last = run_id
            run = self._existing_run(run_id)
            if from_ms is not None and run.due_ms < from_ms:
                break
            if not states or run.state in states:
                items.append(run)
        return RunsPage(items, None)

    def dead_runs(
        self, team: str | None = None, job_id: str | None = None, before_key: str | None = None, limit: int = 50
    ) -> RunsPage:
        """Of a team, of all, or of one job of the team; the latest due first, older than the run id `before_key`."""
        run_ids = list(islice(dead_run_ids(self._transaction, self._tables, team, job_id, before_key), limit + 1))
        items = [self._existing_run(run_id) for run_id in run_ids[:limit]]
        return RunsPage(items, items[-1].run_id if len(run_ids) > limit else None)

    def claims_of(self, node: str, incarnation: int) -> Iterator[tuple[str, int]]:
        """(run id, token) of what a session holds, in order of due time."""
        prefix = session_prefix(node, incarnation)
        for key, value in self._under(self._tables.claims, prefix):
            yield key[len(prefix) :].decode(), int(U64.unpack(value)[0])

    def stops_of(self, node: str, incarnation: int) -> Iterator[tuple[str, int]]:
        """(run id, token) of what a session holds and is to end."""
        prefix = session_prefix(node, incarnation)
        for key, value in self._under(self._tables.stops, prefix):
            yield key[len(prefix) :].decode(), int(U64.unpack(value)[0])

    def claims_of_job(self, job_id: str) -> Iterator[str | None]:
        """Run ids of the job's claims, whoever holds them. It goes through all claims of the cluster, which its slots
        bound: for each one of another job there is a None, so that the reader may rest."""
        middle = b"-" + job_id.encode()
        for key, _ in self._under(self._tables.claims, b""):
            run_id = key[key.index(SEPARATOR) + 1 + U64.size :]
            is_jobs = run_id[12:].startswith(middle) and run_id[12 + len(middle) :][:1] in (b"", b"-")
            yield run_id.decode() if is_jobs else None

    def parked_of(self, job_id: str) -> Iterator[str]:
        """Ids of the job's runs that others of it hold back, the one that goes next first."""
        prefix = parked_prefix(job_id)
        for key, _ in self._under(self._tables.parked, prefix):
            yield key[len(prefix) + U64.size :].decode()

    def queue_depth(self) -> list[int]:
        """How many runs wait for a session with room, by priority (0..9)."""
        return read_depth(self._transaction, self._tables)

    # --- sessions and buckets

    def session(self, node: str) -> Session | None:
        """The node's last session, live or not."""
        if not 1 <= len(node) <= NODE_LENGTH_MAX:
            return None
        value = self._get(self._tables.sessions, node.encode())
        return None if value is None else decode_session(value)

    def sessions(self) -> list[Session]:
        """Every node's last session, live or not, in order of node id."""
        return [decode_session(value) for _, value in self._under(self._tables.sessions, b"")]

    def ended_sessions(self) -> list[tuple[str, int]]:
        """(node, incarnation) of sessions whose claims are still to be given back: ExpireSession goes on with them."""
        return [split_session_key(key) for key, _ in self._under(self._tables.ended_sessions, b"")]

    def buckets(self) -> list[BucketOwner]:
        """The owner of every bucket, by bucket."""
        owners = [NOBODY] * BUCKETS
        decoded: dict[bytes, BucketOwner] = {}
        for key, value in self._transaction.cursor(db=self._tables.buckets):
            owner = decoded.get(value)
            if owner is None:
                owner = decoded[value] = decode_bucket(value)
            owners[U16.unpack(key)[0]] = owner
        return owners

    def clock_ms(self) -> int | None:
        """The cluster's clock as of the last command; None before the first session."""
        return read_clock_ms(self._transaction, self._tables)

    def counters(self) -> Counters:
        return read_counters(self._transaction, self._tables)

    # --- how

    def _until(
        self, table: Any, horizon_ms: int, limit: int | None, after: DuePlace | None
    ) -> Iterator[tuple[DuePlace, bytes]]:
        start = b"" if after is None else due_key(*after) + b"\0"
        for key, value in islice(self._under(table, b"", start), limit):
            place = split_due_key(key)
            if place[0] > horizon_ms:
                return
            yield place, value

    def _live_job(self, job_id: str) -> Job:
        value = self._get(self._tables.jobs, job_id.encode())
        assert value is not None, "a listed job must exist"
        return decode_job(value)

    def _job_ids(self, team: str | None, after_id: str) -> Iterator[str]:
        table = self._tables.jobs if team is None else self._tables.team_jobs
        prefix = b"" if team is None else team_prefix(team)
        for key, _ in self._under(table, prefix, prefix + after_id.encode() + SEPARATOR):
            yield key[len(prefix) :].decode()

    def _named_ids(self, team: str | None, name: str, after_id: str) -> list[str]:
        prefix = pair_prefix(name) if team is None else pair_key(name, team)
        found = [value.decode() for _, value in self._under(self._tables.job_names, prefix)]
        return sorted(job_id for job_id in found if job_id > after_id)

    def _run_ids(self, job_id: str, to_ms: int | None, before_key: str | None) -> Iterator[str]:
        """Ids of the job's runs, newest first: scheduled ticks and other runs, merged."""
        if not 1 <= len(job_id) <= JOB_ID_LENGTH_MAX:
            return iter(())
        ends = [] if to_ms is None else [U64.pack(min(max(to_ms, 0), TIME_MS_MAX + 1))]
        before = None if before_key is None else parse_run_id(before_key)
        if before is not None:
            ends.append(place_of(before))
        return merge(*(self._rows(job_id, scheduled, ends) for scheduled in (True, False)), reverse=True)

    def _rows(self, job_id: str, scheduled: bool, ends: list[bytes]) -> Iterator[str]:
        prefix = row_prefix(job_id, scheduled=scheduled)
        end = prefix + min(ends) if ends else None
        for key, _ in rows_before(self._transaction, self._tables, prefix, end):
            yield row_run_id(job_id, key)

    def _existing_run(self, run_id: str) -> Run:
        value = self._get(self._tables.runs, run_id.encode())
        assert value is not None, "a row must have its run"
        return decode_run(value)
