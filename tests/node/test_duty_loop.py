"""The loop around the leader's duties, on the real state machine."""

from __future__ import annotations

from collections import Counter

import pytest

from node.duty_loop import DutyLoop
from node.state_view import ReaderSource
from raftlog.errors import OutcomeUnknown
from raftlog.interface import Role
from statemachine.codec import encode_command
from statemachine.commands import REAP_SLICE_MAX, OpenSession, PutJob, RunNow
from statemachine.records import Job, NoopTarget
from tests.node.conftest import CONFIG, LiveNode


def open_session(node: str, incarnation: int = 1, slots: int = 10_000) -> bytes:
    return encode_command(
        OpenSession(
            now_ms=1000,
            node=node,
            incarnation=incarnation,
            http="",
            raft="",
            slots=slots,
            ahead=0,
            version="0",
            tzdata="t",
        )
    )


def loop_of(idle: LiveNode) -> DutyLoop:
    return DutyLoop(config=CONFIG, log=idle.log, source=ReaderSource(idle.reader), clock=idle.clock)


async def turn(loop: DutyLoop) -> None:
    loop.turn()
    await loop.wait_answered()


async def test_the_leader_gives_every_bucket_an_owner(idle: LiveNode) -> None:
    idle.log.apply([open_session("n1"), open_session("n2")])
    await turn(loop_of(idle))
    with idle.snapshot() as snapshot:
        assert Counter(owner.node for owner in snapshot.buckets()) == {"n1": 512, "n2": 512}


async def test_a_node_that_does_not_lead_does_nothing(idle: LiveNode) -> None:
    idle.log.role = Role.FOLLOWER
    idle.log.apply([open_session("n1")])
    index = idle.log.index
    await turn(loop_of(idle))
    assert idle.log.index == index


@pytest.mark.slow
async def test_however_many_claims_a_dead_session_held_they_come_back_in_one_go(idle: LiveNode) -> None:
    job = Job(job_id="A", name="a", team="t", target=NoopTarget(), created_ms=1, updated_ms=1)
    count = 2 * REAP_SLICE_MAX + 1
    runs = [encode_command(RunNow(now_ms=1000, job_id="A", nonce=str(number))) for number in range(count)]
    idle.log.apply([open_session("n2"), encode_command(PutJob(now_ms=1000, job=job)), *runs])
    idle.log.apply([open_session("n2", incarnation=2, slots=0)])
    with idle.snapshot() as snapshot:
        assert snapshot.ended_sessions() == [("n2", 1)]
    await turn(loop_of(idle))
    with idle.snapshot() as snapshot:
        assert snapshot.ended_sessions() == []
        assert snapshot.queue_depth()[5] == count


async def test_a_duty_without_an_answer_is_taken_up_again(idle: LiveNode) -> None:
    idle.log.apply([open_session("n1")])
    loop = loop_of(idle)
    idle.log.cut = OutcomeUnknown("cut")
    await turn(loop)
    idle.log.cut = None
    await turn(loop)
    with idle.snapshot() as snapshot:
        assert {owner.node for owner in snapshot.buckets()} == {"n1"}
