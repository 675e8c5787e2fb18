"""Delivery of what the outbox owes: at least once, by the leader's node, each receiver in its own places (M18)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

import msgspec
import pytest

from node.delivery import DELIVERIES_MAX, RECEIVER_MAX, DeliveryLoop
from node.state_view import ReaderSource
from raftlog.errors import NoQuorum, OutcomeUnknown
from raftlog.interface import Role
from statemachine import commands as c
from statemachine.codec import encode_command
from statemachine.history_records import Notification
from statemachine.keys import bucket_of, run_id_of
from statemachine.records import AttemptOutcome, Job, NoopTarget, Notify
from tests.node.conftest import CONFIG, LiveNode

URL = "http://alerts.example/hook"


class Receiver:
    """Takes messages, or answers them with `error`; holds them while it is `closed`."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, object], Mapping[str, str]]] = []
        self.error: str | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.came = asyncio.Event()

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        self.messages.append((url, msgspec.json.decode(body), headers))
        self.came.set()
        await self.open.wait()
        return self.error

    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, _, headers in self.messages]


def loop_of(idle: LiveNode, receiver: Receiver) -> DeliveryLoop:
    source = ReaderSource(idle.reader)
    return DeliveryLoop(config=CONFIG, log=idle.log, source=source, clock=idle.clock, sender=receiver)


async def turn(loop: DeliveryLoop) -> None:
    loop.turn()
    await loop.wait_idle()


def die(idle: LiveNode, *job_ids: str, url: str = URL) -> None:
    """Jobs whose one run dies, and a renewal that settles it."""
    with idle.snapshot() as snapshot:
        session = snapshot.session("n1")
    now_ms, renewal = idle.clock.wall_ms(), 0 if session is None else session.renewal
    room = {"http": "", "raft": "", "slots": 1000, "ahead": 0, "version": "0", "tzdata": "t"}
    moves = tuple(c.BucketMove(bucket=bucket_of(job_id), expected_epoch=0, node="n1") for job_id in job_ids)
    notify = Notify(on=("dead",), url=url)
    commands: list[c.Command] = [c.AssignBuckets(now_ms=now_ms, moves=moves)]
    if session is None:
        commands.insert(0, c.OpenSession(now_ms=now_ms, node="n1", incarnation=1, **room))  # type: ignore[arg-type]
    for job_id in job_ids:
        job = Job(
            job_id=job_id,
            name=f"job {job_id}",
            team="t",
            target=NoopTarget(),
            max_retries=0,
            notify=notify,
            created_ms=now_ms,
            updated_ms=now_ms,
            first_due_ms=now_ms,
        )
        run = c.FireRun(due_ms=now_ms, release_ms=now_ms)
        item = c.FireItem(job_id=job_id, expected_ms=now_ms, version=1, epoch=1, runs=(run,), next_ms=None)
        commands += [c.PutJob(now_ms=now_ms, job=job), c.Fire(now_ms=now_ms, node="n1", items=(item,))]
    idle.log.apply([encode_command(command) for command in commands])
    fields = {"token": 1, "outcome": AttemptOutcome.FAILED, "started_ms": now_ms, "finished_ms": now_ms}
    ends = [c.Finish(now_ms=now_ms, run_id=run_id_of(job_id, now_ms), **fields) for job_id in job_ids]  # type: ignore[arg-type]
    idle.log.apply([encode_command(end) for end in ends])
    idle.log.apply([encode_command(c.RenewSession(now_ms=now_ms, node="n1", incarnation=1, renewal=renewal + 1))])


def owed(idle: LiveNode) -> list[Notification]:
    with idle.snapshot() as snapshot:
        return list(snapshot.notifications_until(2**47 - 1))


async def test_a_dead_run_is_told_once_and_leaves_the_outbox(idle: LiveNode) -> None:
    receiver = Receiver()
    loop = loop_of(idle, receiver)
    die(idle, "A")
    await turn(loop)
    await turn(loop)
    [(url, body, headers)] = receiver.messages
    assert url == URL
    assert body["type"] == "run.dead"
    data = body["data"]
    assert isinstance(data, dict)
    assert (data["job_name"], data["team"], data["reason"], data["consecutive_failures"]) == ("job A", "t", "failed", 1)
    assert headers["webhook-id"].startswith(str(data["run_id"]))
    assert abs(int(headers["webhook-timestamp"]) - idle.clock.wall_ms() / 1000) < 60
    assert owed(idle) == []


async def test_what_was_refused_is_sent_again_later_under_the_same_id(idle: LiveNode) -> None:
    receiver = Receiver()
    receiver.error = "HTTP 503"
    loop = loop_of(idle, receiver)
    die(idle, "A")
    await turn(loop)
    await turn(loop)
    assert len(receiver.messages) == 1
    [notification] = owed(idle)
    assert (notification.tries, notification.error) == (1, "HTTP 503")
    idle.clock.ahead_s = 6.0
    receiver.error = None
    await turn(loop)
    assert len(receiver.messages) == 2 and len(set(receiver.ids())) == 1
    assert owed(idle) == []


async def test_a_delivery_whose_end_is_not_recorded_is_made_again(idle: LiveNode) -> None:
    """At least once: so it is when the leader dies between the two."""
    receiver = Receiver()
    loop = loop_of(idle, receiver)
    die(idle, "A")
    idle.log.cut = NoQuorum()
    await turn(loop)
    assert len(owed(idle)) == 1
    idle.log.cut = None
    await turn(loop_of(idle, receiver))
    assert len(receiver.messages) == 2 and len(set(receiver.ids())) == 1
    assert owed(idle) == []


async def test_only_beside_the_leader_is_anything_sent(idle: LiveNode) -> None:
    receiver = Receiver()
    loop = loop_of(idle, receiver)
    die(idle, "A")
    idle.log.role = Role.FOLLOWER
    await turn(loop)
    assert receiver.messages == []


async def test_a_receiver_that_hangs_holds_only_its_own_places(idle: LiveNode) -> None:
    receiver = Receiver()
    loop = loop_of(idle, receiver)
    die(idle, *(f"S{number}" for number in range(RECEIVER_MAX + 3)), url="http://slow.example/")
    die(idle, "Q")
    receiver.open.clear()
    loop.turn()
    loop.turn()
    await asyncio.sleep(0)
    urls = [url for url, _, _ in receiver.messages]
    assert (urls.count("http://slow.example/"), urls.count(URL)) == (RECEIVER_MAX, 1)
    receiver.open.set()
    await loop.wait_idle()
    await turn(loop)
    assert len(receiver.messages) == RECEIVER_MAX + 4
    assert owed(idle) == []


async def test_the_places_are_bounded(idle: LiveNode) -> None:
    receiver = Receiver()
    receiver.open.clear()
    loop = loop_of(idle, receiver)
    for number in range(DELIVERIES_MAX + 2):
        die(idle, f"J{number}", url=f"http://{number}.example/")
    loop.turn()
    await asyncio.sleep(0)
    assert len(receiver.messages) == DELIVERIES_MAX
    receiver.open.set()
    await loop.wait_idle()
    await turn(loop)
    assert owed(idle) == []


async def test_a_node_that_stops_drops_what_is_under_way_and_owes_it_still(idle: LiveNode) -> None:
    receiver = Receiver()
    receiver.open.clear()
    loop = loop_of(idle, receiver)
    die(idle, "A")
    work = asyncio.create_task(loop.run())
    await receiver.came.wait()
    work.cancel()
    await asyncio.wait([work])
    await loop.wait_idle()
    assert len(owed(idle)) == 1


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_that_is_owed_is_lost_over_crashes_and_lost_answers(idle: LiveNode, seed: int) -> None:
    """Whatever breaks in between: in the end each was taken at least once, under one id, and nothing is owed."""
    dice, receiver = Random(seed), Receiver()
    names = [f"J{number}" for number in range(12)]
    die(idle, *names)
    loop = loop_of(idle, receiver)
    taken: set[str] = set()
    for _ in range(40):
        seen = len(receiver.messages)
        receiver.error = dice.choice((None, "HTTP 503"))
        idle.log.cut = dice.choice((None, None, NoQuorum()))
        idle.log.lose_answers = dice.choice((None, OutcomeUnknown()))
        idle.clock.ahead_s += dice.choice((0.0, 1.0, 3600.0))
        await turn(loop)
        if receiver.error is None:
            taken.update(receiver.ids()[seen:])
        if dice.random() < 0.3:
            loop = loop_of(idle, receiver)  # the leader has died, and another one goes on
    idle.log.cut = idle.log.lose_answers = receiver.error = None
    idle.clock.ahead_s += 7200.0
    while owed(idle):
        seen = len(receiver.messages)
        await turn(loop_of(idle, receiver))
        taken.update(receiver.ids()[seen:])
    assert {message_id.split("-")[1].split(".")[0] for message_id in taken} == set(names)
    assert len(taken) == len(names)
