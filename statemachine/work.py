"""The working set of one apply: what it has read and what it means to write.

Sessions, counters and buckets are touched by every run, so they are decoded once and written once an apply. Nothing
here outlives the apply: a tick that is aborted leaves no trace in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from statemachine.clock import cluster_clock_ms, is_off
from statemachine.codec import (
    decode_bucket,
    decode_counters,
    decode_job,
    decode_run,
    decode_session,
    decode_team,
    encode,
    encode_event,
)
from statemachine.commands import AnyEvent
from statemachine.history_records import Ending
from statemachine.keys import U16, U64, bucket_of, kind_of_lane
from statemachine.records import BucketOwner, Counters, Job, Run, Session, Team
from statemachine.tables import CLOCK_KEY, COUNTERS_KEY, Tables
from statemachine.targets import Targets
from statemachine.usage import Usage
from statemachine.waiting import WaitingQueue

EVERY_NODE = "*"
"""The topic of events that concern every node; any other topic is a node id."""
NOBODY = BucketOwner(node=None, epoch=0)


NO_TIME = -1
"""The clock of an apply that has not understood a command yet."""


class Event(NamedTuple):
    """A hint for the node processes of `topic`; `body` is codec.encode_event's."""

    topic: str
    body: bytes


class Turn(NamedTuple):
    """The team (its name in bytes) that was handed a run last, and what is left of its turn."""

    team: bytes
    left: int


class Seat:
    """A node's session with what changes at every run: the counts of what it holds, and what its clock said last."""

    __slots__ = ("held_ahead", "held_due", "kinds_ahead", "kinds_due", "session", "wall_ms")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held_due = session.held_due
        self.held_ahead = session.held_ahead
        self.kinds_due = dict(session.kinds_due)
        self.kinds_ahead = dict(session.kinds_ahead)
        self.wall_ms = session.wall_ms

    @property
    def takes_claims(self) -> bool:
        return self.session.live and not self.session.draining and not self.session.suspect

    def hold(self, run: Run, change: int) -> None:
        if run.ahead:
            self.held_ahead += change
        else:
            self.held_due += change
        assert self.held_due >= 0 and self.held_ahead >= 0
        if self.session.kind_slots:
            self._hold_kind(run, change)

    def _hold_kind(self, run: Run, change: int) -> None:
        kind = kind_of_lane(run.lane)
        if kind in self.session.kind_slots:
            held = self.kinds_ahead if run.ahead else self.kinds_due
            count = held.pop(kind, 0) + change
            assert count >= 0
            if count:
                held[kind] = count

    def current(self) -> Session:
        """The session as it is to be stored."""
        session = self.session
        now = (self.held_due, self.held_ahead, self.wall_ms, self.kinds_due, self.kinds_ahead)
        if (session.held_due, session.held_ahead, session.wall_ms, session.kinds_due, session.kinds_ahead) == now:
            return session
        return msgspec.structs.replace(
            session,
            held_due=self.held_due,
            held_ahead=self.held_ahead,
            wall_ms=self.wall_ms,
            kinds_due=dict(sorted(self.kinds_due.items())),
            kinds_ahead=dict(sorted(self.kinds_ahead.items())),
        )


class Work:
    """Reads and writes of one apply, of a proposal of the node `proposer`."""

    def __init__(self, transaction: Any, tables: Tables, proposer: str) -> None:
        self.transaction = transaction
        self.tables = tables
        self._proposer = proposer
        self._heard_ms = NO_TIME
        self._now_ms = NO_TIME
        self._clock_ms = self._stored_clock_ms = read_clock_ms(transaction, tables)
        self._clocks_changed = False
        self.events: list[Event] = []
        self.waiting = WaitingQueue(transaction, tables)
        self.usage = Usage(transaction, tables)
        self.targets = Targets(transaction, tables)
        self._teams: dict[str, Team | None] = {}
        self.freed: set[str] = set()
        """Jobs of which something ended or changed that may have held runs back (overlap.py)."""
        self._jobs: dict[str, Job | None] = {}
        self._runs: dict[bytes, Run] = {}
        self._buckets: dict[int, BucketOwner] = {}
        self._seats: dict[str, Seat] | None = None
        self._stored_sessions: dict[str, Session] = {}
        self._turns: dict[int, Turn | None] = {}
        self._turned: dict[int, Turn] = {}
        self._endings: list[Ending] = []
        self._counts: dict[str, int] = {}
        self._ticks_skipped: dict[str, int] = {}
        self._dead_by_team: dict[str, int] = {}

    # --- the time

    def hear(self, wall_ms: int) -> None:
        """A command says what time it is for its proposer. It may have waited long for its way into the log, so only a
        renewal sets the reading back. Nor does it make a clock right that its renewal showed as off: a node that knows
        of its wrong clock stamps everything else with the others' time."""
        seat = self.seats.get(self._proposer)
        if seat is not None and seat.session.live and not is_off(seat.wall_ms, self._stored_clock_ms):
            seat.wall_ms = max(seat.wall_ms, wall_ms)
        if wall_ms > self._heard_ms:
            self._heard_ms = wall_ms
        self._clocks_changed = True

    def reread_clocks(self) -> None:
        """A session was opened, renewed or ended."""
        self._clocks_changed = True

    @property
    def clock_ms(self) -> int | None:
        """The cluster's clock; None before the first session."""
        if self._clocks_changed:
            self._read_clocks()
        return self._clock_ms

    @property
    def now_ms(self) -> int:
        """The time of this apply: the proposer's, unless that is behind the cluster's clock or off."""
        if self._clocks_changed:
            self._read_clocks()
        return self._now_ms

    def is_off(self, wall_ms: int) -> bool:
        """Whether this wall clock is too far from the cluster's to decide anything."""
        return is_off(wall_ms, self.clock_ms)

    def _read_clocks(self) -> None:
        self._clocks_changed = False
        clock_ms = cluster_clock_ms([seat.current() for seat in self.seats.values()], self._stored_clock_ms)
        self._clock_ms, self._now_ms = clock_ms, self._heard_ms
        if clock_ms is not None and (self._heard_ms < clock_ms or is_off(self._heard_ms, clock_ms)):
            self._now_ms = clock_ms

    # --- jobs, runs, buckets

    def job(self, job_id: str) -> Job | None:
        """The live job of this id."""
        if job_id not in self._jobs:
            value = self.transaction.get(job_id.encode(), db=self.tables.jobs)
            self._jobs[job_id] = None if value is None else decode_job(value)
        return self._jobs[job_id]

    def put_job(self, job: Job) -> None:
        self.transaction.put(job.job_id.encode(), encode(job), db=self.tables.jobs)
        self.freed.add(job.job_id)
        self._jobs[job.job_id] = job

    def drop_job(self, job_id: str) -> None:
        self.transaction.delete(job_id.encode(), db=self.tables.jobs)
        self.freed.add(job_id)
        self._jobs[job_id] = None

    def run(self, run_id: str) -> Run | None:
        key = run_id.encode()
        run = self._runs.get(key)
        if run is None:
            value = self.transaction.get(key, db=self.tables.runs)
            return None if value is None else decode_run(value)
        return run

    def put_run(self, run: Run) -> None:
        self._runs[run.run_id.encode()] = run

    def drop_run(self, run_id: str) -> None:
        key = run_id.encode()
        self._runs.pop(key, None)
        self.transaction.delete(key, db=self.tables.runs)

    def bucket(self, bucket: int) -> BucketOwner:
        owner = self._buckets.get(bucket)
        if owner is None:
            value = self.transaction.get(U16.pack(bucket), db=self.tables.buckets)
            owner = self._buckets[bucket] = NOBODY if value is None else decode_bucket(value)
        return owner

    def put_bucket(self, bucket: int, owner: BucketOwner) -> None:
        self.transaction.put(U16.pack(bucket), encode(owner), db=self.tables.buckets)
        self._buckets[bucket] = owner

    def owner(self, job_id: str) -> BucketOwner:
        """Who owns the job's bucket, and since which assignment."""
        return self.bucket(bucket_of(job_id))

    def owner_of(self, job_id: str) -> str | None:
        """The node that fires this job's ticks."""
        return self.bucket(bucket_of(job_id)).node

    # --- sessions

    @property
    def seats(self) -> dict[str, Seat]:
        """Every node's last session, by node, in order of node id."""
        if self._seats is None:
            cursor = self.transaction.cursor(db=self.tables.sessions)
            self._stored_sessions = {key.decode(): decode_session(value) for key, value in cursor}
            self._seats = {node: Seat(session) for node, session in self._stored_sessions.items()}
        return self._seats

    def seat_of(self, run: Run) -> Seat | None:
        """The seat that holds the run's claim; None if a newer incarnation has taken the node's place."""
        assert run.node is not None
        seat = self.seats.get(run.node)
        return seat if seat is not None and seat.session.incarnation == run.session else None

    def open_seat(self, session: Session) -> None:
        self._seats = dict(sorted((self.seats | {session.node: Seat(session)}).items()))
        self.reread_clocks()

    # --- teams

    def team_record(self, team: str) -> Team | None:
        """The team's settings; None if it has none of its own."""
        if team not in self._teams:
            value = self.transaction.get(team.encode(), db=self.tables.teams)
            self._teams[team] = None if value is None else decode_team(value)
        return self._teams[team]

    def forget_team(self, team: str) -> None:
        """Its settings were changed."""
        self._teams.pop(team, None)

    # --- turns

    def turn(self, class_: int) -> Turn | None:
        """Where the turns stand in the class of this number; None: nothing was handed out in it yet."""
        if class_ not in self._turns:
            value = self.transaction.get(bytes((class_,)), db=self.tables.rotation)
            self._turns[class_] = None if value is None else Turn(value[U16.size :], U16.unpack_from(value)[0])
        return self._turns[class_]

    def set_turn(self, class_: int, turn: Turn) -> None:
        self._turns[class_] = self._turned[class_] = turn

    # --- effects

    def count(self, name: str, change: int = 1) -> None:
        """Raise one of the Counters."""
        self._counts[name] = self._counts.get(name, 0) + change

    def count_dead(self, team: str) -> None:
        self._dead_by_team[team] = self._dead_by_team.get(team, 0) + 1

    def count_skip(self, reason: str, ticks: int) -> None:
        self.count("runs_skipped")
        self._ticks_skipped[reason] = self._ticks_skipped.get(reason, 0) + ticks

    def note_ending(self, ending: Ending) -> None:
        """Something of a run is over: to be settled by a later apply."""
        self._endings.append(ending)

    def emit(self, topic: str, event: AnyEvent) -> None:
        self.events.append(Event(topic, encode_event(event)))

    # --- the end

    def flush(self) -> None:
        """Write everything that was held back."""
        put, tables = self.transaction.put, self.tables
        for key in sorted(self._runs):
            put(key, encode(self._runs[key]), db=tables.runs)
        for node, seat in (self._seats or {}).items():
            session = seat.current()
            if session is not self._stored_sessions.get(node):
                put(node.encode(), encode(session), db=tables.sessions)
        for class_, turn in sorted(self._turned.items()):
            put(bytes((class_,)), U16.pack(turn.left) + turn.team, db=tables.rotation)
        self.waiting.flush()
        self._flush_endings()
        self.usage.flush()
        self.targets.flush()
        self._flush_counters()
        self._flush_clock()

    def _flush_endings(self) -> None:
        if not self._endings:
            return
        cursor = self.transaction.cursor(db=self.tables.ended)
        number = U64.unpack(cursor.key())[0] + 1 if cursor.last() else 0
        for place, ending in enumerate(self._endings, number):
            cursor.put(U64.pack(place), encode(ending), append=True)

    def _flush_clock(self) -> None:
        clock_ms = self.clock_ms
        if clock_ms is not None and clock_ms != self._stored_clock_ms:
            self.transaction.put(CLOCK_KEY, U64.pack(clock_ms), db=self.tables.meta)

    def _flush_counters(self) -> None:
        if not self._counts:
            return
        counters = read_counters(self.transaction, self.tables)
        sums: dict[str, Any] = {name: getattr(counters, name) + change for name, change in self._counts.items()}
        sums["ticks_skipped"] = _sum(counters.ticks_skipped, self._ticks_skipped)
        sums["dead_by_team"] = _sum(counters.dead_by_team, self._dead_by_team)
        counters = msgspec.structs.replace(counters, **sums)
        self.transaction.put(COUNTERS_KEY, encode(counters), db=self.tables.meta)


def _sum(counts: dict[str, int], changes: dict[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + changes.get(name, 0) for name in sorted(counts.keys() | changes.keys())}


def read_clock_ms(transaction: Any, tables: Tables) -> int | None:
    """The cluster's clock as of the last command; None before the first session."""
    value = transaction.get(CLOCK_KEY, db=tables.meta)
    return None if value is None else int(U64.unpack(value)[0])


def read_counters(transaction: Any, tables: Tables) -> Counters:
    value = transaction.get(COUNTERS_KEY, db=tables.meta)
    return Counters() if value is None else decode_counters(value)
