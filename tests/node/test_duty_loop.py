"""The loop around the leader's duties, on the real state machine."""

from __future__ import annotations

from collections import Counter

import pytest

from node.duty_loop import DutyLoop
from node.state_view import ReaderSource
from raftlog.errors import OutcomeUnknown
from raftlog.interface import Role
from statemachine.codec import encode_command
from statemachine.commands import REAP_SLICE_MAX, OpenSession, PutJob, RenewSession, RunNow
from statemachine.records import Job, NoopTarget
from tests.node.conftest import CONFIG, LiveNode


def open_session(node: str, incarnation: int = 1, slots: int = 10_000, now_ms: int = 1000) -> bytes:
    return encode_command(
        OpenSession(
            now_ms=now_ms,
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


async def test_a_node_that_is_not_heard_gets_no_further_runs_until_it_is(idle: LiveNode) -> None:
    """Long before its session ends: what it was handed meanwhile would be lost with it."""

    def renew(node: str, renewal: int) -> None:
        command = RenewSession(now_ms=idle.clock.wall_ms(), node=node, incarnation=1, renewal=renewal)
        idle.log.apply([encode_command(command)])

    def suspects() -> set[str]:
        with idle.snapshot() as snapshot:
            return {session.node for session in snapshot.sessions() if session.suspect}

    def holders(nonce: str) -> dict[str, int]:
        runs = [
            encode_command(RunNow(now_ms=idle.clock.wall_ms(), job_id="A", nonce=f"{nonce}{number}"))
            for number in range(8)
        ]
        idle.log.apply(runs)
        with idle.snapshot() as snapshot:
            return {node: len(list(snapshot.claims_of(node, 1))) for node in ("n1", "n2")}

    idle.clock.stop()
    job = Job(job_id="A", name="a", team="t", target=NoopTarget(), created_ms=1, updated_ms=1)
    idle.log.apply(
        [
            *(open_session(node, slots=8, now_ms=idle.clock.wall_ms()) for node in ("n1", "n2")),
            encode_command(PutJob(now_ms=idle.clock.wall_ms(), job=job)),
        ]
    )
    loop = loop_of(idle)
    for renewal in range(1, 4):
        renew("n1", renewal)
        await turn(loop)
        idle.clock.ahead_s += 0.8
    await turn(loop)
    assert suspects() == {"n2"}
    assert holders("x") == {"n1": 8, "n2": 0}
    renew("n2", 1)
    await turn(loop)
    assert suspects() == set()
    assert holders("y") == {"n1": 8, "n2": 8}
