"""The named databases of the state, and how to open them: the one place that knows the layout inside LMDB.

The tables live under a generation: `state/meta` says which one counts. There are two slots for them, the even one and
the odd one, and both always exist: the generation that counts is in one; in the other a copy of another node's state is
received, which becomes the state by one write (`flip`). So the handles of a reader in another process stay good through
any number of copies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import lmdb

from statemachine.keys import U64
from statemachine.records import FORMAT_VERSION

MAP_SIZE_BYTES = 64 * 1024**3
"""The same in every process that opens the environment; the file is sparse and grows as it is used."""
DATABASES_MAX = 128
"""Both slots of the state, the log's tables, and room for more."""
READERS_MAX = 512

FIRST_GENERATION = 1
_META = b"state/meta"
_GENERATION = b"generation"
_FORMAT = b"format"
APPLIED_KEY = b"applied_index"
COUNTERS_KEY = b"counters"
DEPTH_KEY = b"queue_depth"
CLOCK_KEY = b"clock"
AGING_KEY = b"aging"
SLOW_HELD_KEY = b"slow_held"
OUTBOX_KEY = b"outbox"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """LMDB handles of one generation's tables; the comment at each is key → value."""

    meta: Any  # applied_index, counters, queue_depth, clock, aging, slow_held
    jobs: Any  # job_id → Job (live ones only)
    job_archive: Any  # job_id \0 version → Job: earlier versions, and the last one of a deleted job
    job_names: Any  # digests of name, team → job_id
    team_jobs: Any  # team \0 job_id → nothing
    teams: Any  # team → Team
    targets: Any  # digest of a target's name → TargetScore, if it is not 0
    team_use: Any  # team → TeamUse: what it has and holds, counted where it changes
    backfills: Any  # backfill_id → Backfill
    job_backfills: Any  # job_id \0 backfill_id → nothing
    active_backfills: Any  # backfill_id → nothing: those that are running
    backfill_runs: Any  # backfill_id \0 run_id → nothing: runs that are not over
    calendars: Any  # name → Calendar
    calendar_jobs: Any  # calendar \0 job_id → nothing: live jobs that name it
    due: Any  # due_ms, bucket, job_id → DueEntry
    timers: Any  # at_ms, bucket, run_id → TimerEntry
    deadlines: Any  # at_ms, bucket, run_id → nothing: runs that are ended then
    runs: Any  # run_id → Run
    job_runs: Any  # job_id \0 class due_ms suffix → (job version, next tick) for ticks
    waiting: Any  # lane, team \0 release_ms run_id → nothing
    claims: Any  # node \0 incarnation run_id → token
    stops: Any  # as claims, of those that are to be ended
    run_counts: Any  # job_id → runs that counted for its max_runs
    ended: Any  # number, in order → Ending: what is to be settled
    job_stats: Any  # job_id → JobStats
    dead_runs: Any  # team \0 run_id → nothing
    active_by_job: Any  # job_id \0 run_id → c for catch-up: released runs that an overlap policy looks at
    parked: Any  # job_id \0 release_ms run_id → nothing: released runs that others of the job hold back
    outbox: Any  # next_ms, number → Notification
    outbox_counts: Any  # team → how many of the outbox are its
    sessions: Any  # node → Session
    ended_sessions: Any  # node \0 incarnation → nothing: claims may still have to be given back
    buckets: Any  # bucket → BucketOwner
    idempotency: Any  # digests of team, key → IdempotencyEntry
    idempotency_times: Any  # created_ms, key → nothing
    proposers: Any  # node → Proposer
    results: Any  # node \0 incarnation, seq → replies
    rotation: Any  # class → what is left of the turn of the team served last, the team


TABLE_NAMES = tuple(sorted(field.name for field in fields(Tables)))


def open_environment(path: Any, *, readonly: bool = False) -> Any:
    """Open the directory as the log process does (one writer), or read-only beside it. Raises lmdb.Error."""
    return lmdb.open(
        path,
        map_size=MAP_SIZE_BYTES,
        max_dbs=DATABASES_MAX,
        max_readers=READERS_MAX,
        readonly=readonly,
        create=not readonly,
        lock=True,
    )


class State(NamedTuple):
    """The handles of everything; which tables count depends on the transaction that reads them."""

    meta: Any
    slots: tuple[Tables, Tables]
    """By the parity of the generation."""

    def generation(self, transaction: Any) -> int:
        """The generation that counts, as of this transaction."""
        return int(U64.unpack(transaction.get(_GENERATION, db=self.meta))[0])

    def tables(self, transaction: Any) -> Tables:
        """The tables that count, as of this transaction: one that began before a flip must not see those of after
        it."""
        return self.slots[self.generation(transaction) % 2]

    def beside(self, transaction: Any) -> Tables:
        """The tables of the other slot: those of the next generation, or what is left of the last one."""
        return self.slots[(self.generation(transaction) + 1) % 2]

    def flip(self, transaction: Any) -> None:
        """Make the tables of the other slot the state."""
        transaction.put(_GENERATION, U64.pack(self.generation(transaction) + 1), db=self.meta)


def create_state(environment: Any) -> State:
    """Open or create everything. Not inside a write transaction: it makes its own."""
    with environment.begin(write=True) as transaction:
        meta = environment.open_db(_META, txn=transaction)
        if transaction.get(_GENERATION, db=meta) is None:
            transaction.put(_FORMAT, U64.pack(FORMAT_VERSION), db=meta)
            transaction.put(_GENERATION, U64.pack(FIRST_GENERATION), db=meta)
        assert transaction.get(_FORMAT, db=meta) == U64.pack(FORMAT_VERSION), "the state has another format"
        return State(meta, _open_slots(environment, transaction, create=True))


def open_state(environment: Any) -> State:
    """Everything as its writer has made it; raises lmdb.NotFoundError before the writer's first start."""
    meta = environment.open_db(_META, create=False)
    return State(meta, _open_slots(environment, None, create=False))


def read_applied_index(transaction: Any, tables: Tables) -> int:
    """The index that the state stands at; 0 for an empty one."""
    value = transaction.get(APPLIED_KEY, db=tables.meta)
    return 0 if value is None else int(U64.unpack(value)[0])


def _open_slots(environment: Any, transaction: Any, *, create: bool) -> tuple[Tables, Tables]:
    even, odd = (
        Tables(
            **{
                name: environment.open_db(f"state/{slot:08d}/{name}".encode(), txn=transaction, create=create)
                for name in TABLE_NAMES
            }
        )
        for slot in (FIRST_GENERATION + 1, FIRST_GENERATION)
    )
    return even, odd
