"""A machine on a scratch LMDB directory, fed one proposal at a time: what most tests of the package stand on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb

from statemachine.codec import decode_event, decode_reply, encode_command
from statemachine.commands import (
    AnyEvent,
    AnyReply,
    AssignBuckets,
    BucketMove,
    Command,
    Fire,
    FireItem,
    FireRun,
    FireSkip,
    OpenSession,
    PutJob,
    RenewSession,
)
from statemachine.machine import Applied, Machine
from statemachine.reader import StateReader
from statemachine.records import BUCKETS, Job, NoopTarget, Run
from statemachine.snapshot import Snapshot
from statemachine.tables import DATABASES_MAX

NOW_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """raftlog's Proposal, by shape."""

    node: str = "n1"
    incarnation: int = 1
    seq: int
    acknowledged: int = 0
    commands: Sequence[bytes]


@dataclass(frozen=True)
class Outcome:
    """An apply's result, decoded."""

    replies: list[AnyReply]
    events: list[tuple[str, AnyEvent]]

    @property
    def reply(self) -> Any:
        [reply] = self.replies
        return reply

    def sent(self, kind: type) -> list[tuple[str, Any]]:
        return [(topic, event) for topic, event in self.events if isinstance(event, kind)]


def scratch_environment(path: Path | str) -> Any:
    """An environment that does not wait for the disk."""
    return lmdb.open(str(path), map_size=1 << 28, max_dbs=DATABASES_MAX, sync=False, metasync=False)


def decode(applied: Applied) -> Outcome:
    replies = [decode_reply(reply) for reply in applied.replies]
    return Outcome(replies, [(topic, decode_event(body)) for topic, body in applied.events])


class Driver:
    """Applies commands in order, each call one proposal at the next index."""

    def __init__(self, path: Path | str) -> None:
        self.environment = scratch_environment(path)
        self.machine = Machine(self.environment)
        self.reader = StateReader(self.environment)
        self.index = 0
        self.seq = 0

    def apply(self, *commands: Command, node: str = "n1") -> Outcome:
        """`node` proposes."""
        self.seq += 1
        encoded = [encode_command(command) for command in commands]
        return self.propose(Proposal(node=node, seq=self.seq, acknowledged=self.seq - 1, commands=encoded))

    def propose(self, proposal: Proposal | None) -> Outcome:
        self.index += 1
        with self.environment.begin(write=True) as transaction:
            return decode(self.machine.apply(transaction, index=self.index, proposal=proposal))

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with self.reader.snapshot() as snapshot:
            yield snapshot

    def run(self, run_id: str) -> Run:
        with self.snapshot() as snapshot:
            run = snapshot.run(run_id)
        assert run is not None
        return run

    def digest(self) -> str:
        with self.snapshot() as snapshot:
            return snapshot.digest()

    def table(self, name: str) -> dict[bytes, bytes]:
        """A whole table, as bytes."""
        with self.environment.begin() as transaction:
            return dict(transaction.cursor(db=getattr(self.machine.tables(transaction), name)))

    # --- the usual beginnings

    def open(self, node: str = "n1", incarnation: int = 1, *, slots: int = 10, ahead: int = 10, **fields: Any) -> Any:
        return self.apply(open_session(node, incarnation, slots=slots, ahead=ahead, **fields)).reply

    def open_more(self, node: str, *, slots: int = 10, now_ms: int = NOW_MS) -> Outcome:
        """A session that takes due runs only."""
        return self.apply(open_session(node, 1, now_ms=now_ms, slots=slots, ahead=0))

    def renew(self, node: str = "n1", *, renewal: int, now_ms: int = NOW_MS) -> None:
        self.apply(RenewSession(now_ms=now_ms, node=node, incarnation=1, renewal=renewal))

    def own_all(self, node: str = "n1", epoch: int = 0) -> None:
        moves = tuple(BucketMove(bucket=bucket, expected_epoch=epoch, node=node) for bucket in range(BUCKETS))
        self.apply(AssignBuckets(now_ms=NOW_MS, moves=moves))

    def put(self, job_id: str = "A", **fields: Any) -> Any:
        return self.apply(put_job(job_id, **fields)).reply


def open_session(node: str, incarnation: int, *, now_ms: int = NOW_MS, slots: int, ahead: int) -> OpenSession:
    addresses = {"http": f"{node}:8101", "raft": f"{node}:7101", "version": "0.1.0", "tzdata": "2026a"}
    return OpenSession(now_ms=now_ms, node=node, incarnation=incarnation, slots=slots, ahead=ahead, **addresses)


def a_job(job_id: str = "A", **fields: Any) -> Job:
    usual = {
        "name": f"job {job_id}",
        "team": "t",
        "target": NoopTarget(),
        "created_ms": NOW_MS,
        "updated_ms": NOW_MS,
        "first_due_ms": NOW_MS + 1000,
    }
    return Job(job_id=job_id, **(usual | fields))


def put_job(
    job_id: str = "A", *, now_ms: int = NOW_MS, key: str | None = None, skip: FireSkip | None = None, **fields: Any
) -> PutJob:
    """Create the job, or with `version` replace the one before it."""
    job = a_job(job_id, **fields)
    return PutJob(
        now_ms=now_ms,
        job=job,
        expected_version=job.version - 1,
        idempotency_key=key,
        body_digest=b"digest" if key else b"",
        skip=skip,
    )


def fire(*items: FireItem, now_ms: int = NOW_MS, node: str = "n1") -> Fire:
    return Fire(now_ms=now_ms, node=node, items=items)


def tick(
    due_ms: int, next_ms: int | None = None, *, job_id: str = "A", release_ms: int | None = None, **fields: Any
) -> FireItem:
    """An item that runs the one tick that the job stands at."""
    run = FireRun(due_ms=due_ms, release_ms=due_ms if release_ms is None else release_ms)
    usual: dict[str, Any] = {"version": 1, "epoch": 1, "runs": (run,)}
    return FireItem(job_id=job_id, expected_ms=due_ms, next_ms=next_ms, **(usual | fields))


def skipped(from_ms: int, until_ms: int, count: int, reason: str = "misfire") -> FireSkip:
    return FireSkip(from_ms=from_ms, until_ms=until_ms, count=count, reason=reason)
