"""What a run costs in apply: `python -m tests.statemachine.apply_cost [jobs]` prints CPU microseconds a run.

Fires, finishes and settles batches of 500 noop runs against a table of that many jobs, three sessions with room, as
the log process does: many applies in one write transaction, which is committed apart (its fsync is shared by everything
in the tick).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from statistics import median
from time import process_time
from types import SimpleNamespace
from typing import Any

from statemachine.codec import decode_event, encode_command
from statemachine.commands import (
    AssignBuckets,
    BucketMove,
    Command,
    Finish,
    Fire,
    FireItem,
    FireRun,
    OpenSession,
    PutJob,
    RenewSession,
    RunClaimed,
)
from statemachine.keys import bucket_of
from statemachine.machine import Machine
from statemachine.records import BUCKETS, AttemptOutcome, Job, NoopTarget
from statemachine.tables import open_environment

NODES = ("n1", "n2", "n3")
START_MS = 1_700_000_000_000
BATCH = 500
ROUNDS = 20


class Bench:
    """A machine that is fed proposals, and the CPU time that its applies took."""

    def __init__(self, path: str) -> None:
        self.environment = open_environment(path)
        self.machine = Machine(self.environment)
        self.index = 0

    def apply(self, batches: Sequence[Sequence[Command]]) -> tuple[list[Any], float]:
        """Apply proposals in one transaction: the events and the CPU seconds spent in apply."""
        events, seconds = [], 0.0
        proposals = [[encode_command(command) for command in batch] for batch in batches]
        with self.environment.begin(write=True) as transaction:
            for commands in proposals:
                self.index += 1
                proposal = SimpleNamespace(
                    node="n1", incarnation=1, seq=self.index, acknowledged=self.index - 6, commands=commands
                )
                begun = process_time()
                applied = self.machine.apply(transaction, index=self.index, proposal=proposal)
                seconds += process_time() - begun
                events += [decode_event(event.body) for event in applied.events]
        return events, seconds


def job_id_of(number: int) -> str:
    return f"01J{number * 2654435761 % 2**32:023d}"


def set_up(bench: Bench, jobs: int) -> None:
    room = {"slots": 100_000, "ahead": 100_000, "http": "", "raft": "", "version": "1", "tzdata": "1"}
    bench.apply([[OpenSession(now_ms=START_MS, node=node, incarnation=1, **room) for node in NODES]])
    moves = tuple(BucketMove(bucket=b, expected_epoch=0, node=NODES[b % 3]) for b in range(BUCKETS))
    bench.apply([[AssignBuckets(now_ms=START_MS, moves=moves)]])
    for first in range(0, jobs, 1000):
        bench.apply([[put_job(number) for number in range(first, min(first + 1000, jobs))]])


def put_job(number: int) -> PutJob:
    job = Job(
        job_id=job_id_of(number),
        name=f"job {number}",
        team="default",
        target=NoopTarget(),
        created_ms=START_MS,
        updated_ms=START_MS,
        first_due_ms=START_MS + 1000 * (number % 10_000 // BATCH),
    )
    return PutJob(now_ms=START_MS, job=job)


def fires(numbers: Sequence[int], due_ms: int, next_ms: int) -> Iterator[Fire]:
    """One Fire an owner, as its ticker would propose it."""
    for place, node in enumerate(NODES):
        items = tuple(
            FireItem(
                job_id=job_id_of(number),
                expected_ms=due_ms,
                version=1,
                epoch=1,
                runs=(FireRun(due_ms=due_ms, release_ms=due_ms),),
                next_ms=next_ms,
            )
            for number in sorted(numbers, key=job_id_of)
            if bucket_of(job_id_of(number)) % 3 == place
        )
        yield Fire(now_ms=due_ms - 3000, node=node, items=items)


def finishes(events: Sequence[Any], now_ms: int) -> list[Finish]:
    return [
        Finish(
            now_ms=now_ms,
            run_id=event.run_id,
            token=event.token,
            outcome=AttemptOutcome.SUCCEEDED,
            started_ms=now_ms,
            finished_ms=now_ms,
        )
        for event in events
        if isinstance(event, RunClaimed)
    ]


def measure(jobs: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        bench = Bench(path)
        set_up(bench, jobs)
        fire_us, finish_us, settle_us = [], [], []
        for round_ in range(ROUNDS):
            numbers = range(round_ * BATCH, (round_ + 1) * BATCH)
            due_ms = START_MS + 1000 * round_
            events, fire_s = bench.apply([[fire] for fire in fires(numbers, due_ms, due_ms + 3_600_000)])
            _, finish_s = bench.apply([finishes(events, due_ms)])
            renewal = RenewSession(now_ms=due_ms, node="n1", incarnation=1, renewal=round_ + 1)
            _, settle_s = bench.apply([[renewal]])
            fire_us.append(fire_s / BATCH * 1e6)
            finish_us.append(finish_s / BATCH * 1e6)
            settle_us.append(settle_s / BATCH * 1e6)
        figures = f"Fire {spread(fire_us)}, Finish {spread(finish_us)}, settling {spread(settle_us)}"
        print(f"{jobs:>8} jobs: {figures} µs a run (median, min, max)")


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} … {max(values):.1f})"


if __name__ == "__main__":
    for count in map(int, sys.argv[1:] or ["10000", "300000"]):
        measure(count)
