"""The LMDB machine against a naive model in dicts, over random histories; and what must hold whatever happens."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from statemachine import commands as c
from statemachine.codec import decode_backfill, decode_run, decode_stats
from statemachine.history_records import JobStats
from statemachine.keys import U64
from statemachine.records import Run, Session
from tests.statemachine import invariants
from tests.statemachine.driver import Driver, Outcome
from tests.statemachine.model import Model
from tests.statemachine.moves import NODES, PROPOSALS, beginning, commands

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@contextmanager
def scratch_driver() -> Iterator[Driver]:
    with tempfile.TemporaryDirectory() as path:
        driver = Driver(path)
        yield driver
        driver.environment.close()


class Promises:
    """What a history must keep, watched from outside: tokens rise, and every tick is accounted for."""

    def __init__(self) -> None:
        self.tokens: dict[str, int] = defaultdict(int)

    def watch(self, driver: Driver, sent: list[c.Command], outcome: Outcome) -> None:
        for _, claim in outcome.sent(c.RunClaimed):
            assert claim.token > self.tokens[claim.run_id], "I3: the token rises with every claim"
            self.tokens[claim.run_id] = claim.token
        for team in {driver.run(claim.run_id).team for _, claim in outcome.sent(c.RunClaimed)}:
            self.within_quota(driver, team)
        for command, reply in zip(sent, outcome.replies, strict=True):
            if isinstance(command, c.Fire):
                fired = [item for item, code in zip(command.items, reply.codes, strict=True) if code == "ok"]
                for item in fired:
                    self.accounted(driver, item)

    def within_quota(self, driver: Driver, team: str) -> None:
        """I7: where a claim was accepted, the team is within its quota; counted from the claims, and from the runs that
        nobody holds because their targets complete them."""
        with driver.snapshot() as snapshot:
            settings = snapshot.team(team)
            held = [run_id for node in NODES for number in range(40) for run_id, _ in snapshot.claims_of(node, number)]
        detached = [key.decode() for key, value in driver.table("runs").items() if decode_run(value).lease is not None]
        ours = [run_id for run_id in [*held, *detached] if driver.run(run_id).team == team]
        if settings is not None and settings.max_concurrent is not None:
            assert len(ours) <= settings.max_concurrent

    def accounted(self, driver: Driver, item: c.FireItem) -> None:
        """I2: whatever the job moved past has a record, and exactly one (its key is the tick)."""
        for tick in item.runs:
            assert self.is_over(driver, item) or driver.run(f"{tick.due_ms:012x}-{item.job_id}").due_ms == tick.due_ms
        for ticks in item.skips:
            assert (
                self.is_over(driver, item) or driver.run(f"{ticks.from_ms:012x}-{item.job_id}").due_ms == ticks.from_ms
            )

    def is_over(self, driver: Driver, item: c.FireItem) -> bool:
        """The job had all the runs that it may have: later ticks are none of its."""
        with driver.snapshot() as snapshot:
            job = snapshot.job(item.job_id)
        return job is not None and job.max_runs is not None and job.first_due_ms is None


def play(history: list[list[int]]) -> None:
    model, promises, now_ms = Model(), Promises(), 10_000_000
    with scratch_driver() as driver:
        compare(driver, model, promises, beginning(now_ms), "n1")
        for values in history:
            sent, node, now_ms = commands(model, values, now_ms)
            compare(driver, model, promises, sent, node)


def compare(driver: Driver, model: Model, promises: Promises, sent: list[c.Command], node: str) -> None:
    """Let both apply one proposal, and look at everything."""
    replies, events = model.apply(sent, node)
    outcome = driver.apply(*sent, node=node)
    assert outcome.replies == replies
    assert outcome.events == events
    assert state_of(driver) == state_of_model(model)
    invariants.check(driver)
    promises.watch(driver, sent, outcome)


def state_of(driver: Driver) -> dict[str, Any]:
    with driver.snapshot() as snapshot:
        counters = snapshot.counters()
        return {
            "runs": {key.decode(): without_lane(decode_run(value)) for key, value in driver.table("runs").items()},
            "sessions": {session.node: session for session in snapshot.sessions()},
            "ended": set(snapshot.ended_sessions()),
            "due": {job_id: due_ms for due_ms, _, job_id, _ in snapshot.due_until(2**47 - 1)},
            "jobs": {job.job_id: job for job in snapshot.jobs(limit=100)},
            "teams": {name: team for name in snapshot.team_names() if (team := snapshot.team(name))},
            "buckets": {
                bucket: (owner.node, owner.epoch) for bucket, owner in enumerate(snapshot.buckets()) if owner.epoch
            },
            "counts": {
                name: count
                for name in counters.__struct_fields__
                if isinstance(count := getattr(counters, name), int) and count
            },
            "backfills": {key.decode(): decode_backfill(value) for key, value in driver.table("backfills").items()},
            "calendars": {calendar.name: calendar for calendar in snapshot.calendars()},
            "ticks": counters.ticks_skipped,
            "made": {key.decode(): U64.unpack(value)[0] for key, value in driver.table("run_counts").items()},
            "clock": snapshot.clock_ms(),
            "outbox": [
                (told.number, told.next_ms, told.tries, told.event, told.run_id, told.job_id)
                for told in snapshot.notifications_until(2**47 - 1)
            ],
            "stats": {
                key.decode(): stats
                for key, value in driver.table("job_stats").items()
                if (stats := decode_stats(value)) != JobStats()
            },
        }


def without_lane(run: Run) -> Run:
    """The model knows what a run needs, but not how that is written; the invariants compare it with the job."""
    return replace(run, lane=b"", run_on={})


def state_of_model(model: Model) -> dict[str, Any]:
    def counts(session: Session) -> dict[str, Any]:
        due, ahead = model.held_by(session, due=True), model.held_by(session, due=False)
        kinds = [Counter(model.need_of(run)[0] for run in runs) for runs in (due, ahead)]
        limited = [{kind: count for kind, count in sorted(one.items()) if kind in session.kind_slots} for one in kinds]
        return {"held_due": len(due), "held_ahead": len(ahead), "kinds_due": limited[0], "kinds_ahead": limited[1]}

    sessions = {node: replace(session, **counts(session)) for node, session in model.sessions.items()}
    ticks = {name.split()[1]: count for name, count in sorted(model.counts.items()) if name.startswith("ticks ")}
    return {
        "runs": model.runs,
        "sessions": sessions,
        "ended": model.ended,
        "due": model.due,
        "jobs": model.jobs,
        "teams": model.teams,
        "buckets": model.buckets,
        "counts": {name: count for name, count in model.counts.items() if count and " " not in name},
        "ticks": ticks,
        "made": model.made,
        "backfills": model.backfills,
        "calendars": model.calendars,
        "clock": model.clock_ms,
        "outbox": [
            (number, next_ms, tries, told.event, told.run_id, told.job_id)
            for number, (next_ms, tries) in sorted(model.outbox.items(), key=lambda owed: (owed[1][0], owed[0]))
            if (told := model.history.told[number])
        ],
        "stats": {
            job_id: stats
            for job_id in {*model.jobs, *model.deleted}
            if (stats := model.history.stats_of(job_id)) != JobStats()
        },
    }


@pytest.mark.slow
@settings(SLOW, max_examples=100)
@given(PROPOSALS)
def test_the_machine_does_what_the_model_does(history: list[list[int]]) -> None:
    play(history)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_so_it_does_in_a_long_history(seed: int) -> None:
    play(random_history(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
def test_so_it_does_in_hundreds_of_them(seed: int) -> None:
    play(random_history(seed))


def random_history(seed: int) -> list[list[int]]:
    """Deeper than hypothesis goes by itself: states pile up, and old ones are met again."""
    numbers = Random(seed)
    return [[numbers.randrange(256) for _ in range(60)] for _ in range(150)]
