"""One test a sentence of what Horae promises (I1 … I10), as far as the state machine keeps it.

I5, I7, I9 and I11 are kept elsewhere: by the log, by quotas (which come later), by the node, and by all together.
"""

from __future__ import annotations

import pytest

from statemachine.commands import (
    AssignBuckets,
    BucketMove,
    CancelRun,
    Command,
    Complete,
    DeleteJob,
    Detach,
    ExpireSession,
    Finish,
    Release,
    RunClaimed,
    RunNow,
    StopRequested,
    Withdraw,
)
from statemachine.keys import bucket_of, run_id_of
from statemachine.machine import Machine
from statemachine.records import AttemptOutcome, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver, fire, skipped, tick

SECOND = 1000
DUE_MS = NOW_MS + SECOND
RUN_ID = run_id_of("A", DUE_MS)


def finish(token: int, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED, now_ms: int = DUE_MS) -> Finish:
    times = {"now_ms": now_ms, "started_ms": now_ms, "finished_ms": now_ms, "retry_at_ms": now_ms}
    return Finish(run_id=RUN_ID, token=token, outcome=outcome, **times)


def expire(now_ms: int = DUE_MS) -> ExpireSession:
    return ExpireSession(now_ms=now_ms, node="n1", incarnation=1, renewal=0)


# I1: One run per scheduled (job_id, due_at). Two nodes that believe they own a job cannot make two.


def test_I1_two_nodes_that_believe_they_own_a_job_cannot_make_two_runs(owned: Driver) -> None:
    """(M6, quartz#107, xxl-job#370) (redbeat#208)"""
    owned.open("n2")
    owned.put("A")
    late = fire(tick(DUE_MS, DUE_MS + SECOND))
    moved = BucketMove(bucket=bucket_of("A"), expected_epoch=1, node="n2")
    owned.apply(AssignBuckets(now_ms=NOW_MS, moves=(moved,)))
    new_owner = fire(tick(DUE_MS, DUE_MS + SECOND, epoch=2), node="n2")
    codes = [owned.apply(command).reply.codes for command in (new_owner, late, new_owner)]
    assert codes == [("ok",), ("stale_epoch",), ("not_due",)]
    with owned.snapshot() as snapshot:
        assert [run.run_id for run in snapshot.runs_of_job("A").items] == [RUN_ID]


# I2: No tick is silently skipped. Creating the run(s) and moving next_run_at past the tick is ONE log command; a tick
# that is not run leaves a `skipped` record with its reason.


def test_I2_creating_the_run_and_moving_past_the_tick_is_one_command(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(tick(DUE_MS, DUE_MS + SECOND)))
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == DUE_MS + SECOND
        assert snapshot.run(RUN_ID) is not None


def test_I2_a_tick_that_is_not_run_leaves_a_record_with_its_reason(owned: Driver) -> None:
    owned.put("A")
    missed = tick(DUE_MS, DUE_MS + 3 * SECOND, runs=(), skips=(skipped(DUE_MS, DUE_MS + 2 * SECOND, 3),))
    owned.apply(fire(missed, now_ms=DUE_MS + 3 * SECOND))
    run = owned.run(RUN_ID)
    assert (run.state, run.reason, run.until_ms, run.count) == (RunState.SKIPPED, "misfire", DUE_MS + 2 * SECOND, 3)


def test_I2_a_command_that_moves_past_a_tick_without_a_word_is_refused(owned: Driver) -> None:
    owned.put("A")
    assert owned.apply(fire(tick(DUE_MS, DUE_MS + SECOND, runs=()))).reply.codes == ("malformed",)
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == DUE_MS


# I3: A result counts only with the run's current fencing token; the token rises with every claim. A zombie's write is
# refused.


def test_I3_the_token_rises_with_every_claim_and_a_zombies_write_is_refused(owned: Driver) -> None:
    """(M17)"""
    owned.put("A")
    owned.apply(fire(tick(DUE_MS)))
    owned.apply(expire())
    [(_, claim)] = owned.open_more("n2", now_ms=DUE_MS).sent(RunClaimed)
    assert claim.token == 2
    assert owned.apply(finish(1)).reply.code == "fenced"
    assert owned.run(RUN_ID).state is RunState.CLAIMED
    assert owned.apply(finish(2)).reply.code == "ok"
    with owned.snapshot() as snapshot:
        assert snapshot.counters().fenced_writes == 1


# I4: At least once: a run that is not cancelled or skipped is attempted until it succeeds or its retries are used up.
# No run rests in a non-terminal state without a deadline that someone enforces.


def test_I4_a_run_is_attempted_until_its_retries_are_used_up(owned: Driver) -> None:
    owned.put("A", max_retries=2)
    owned.apply(fire(tick(DUE_MS)))
    owned.apply(finish(1, AttemptOutcome.FAILED))
    owned.apply(Release(now_ms=DUE_MS, run_id=RUN_ID, token=1))
    owned.apply(expire())
    owned.open_more("n2", now_ms=DUE_MS)
    owned.apply(finish(3, AttemptOutcome.TIMED_OUT))
    run = owned.run(RUN_ID)
    assert (run.state, run.reason) == (RunState.DEAD, "timed_out")
    assert [attempt.outcome for attempt in run.attempts] == [
        AttemptOutcome.FAILED,
        AttemptOutcome.LOST,
        AttemptOutcome.TIMED_OUT,
    ]


def test_I4_whoever_must_move_a_run_on_finds_it(owned: Driver) -> None:
    """A scheduled and a retrying one among the timers, a queued one in the queue, a claimed one with its session. (That
    each run stands in exactly one of these places is checked after every apply of the model's tests.) (quartz#145)"""
    owned.put("A", overlap_policy="skip")
    owned.apply(fire(tick(DUE_MS)))
    with owned.snapshot() as snapshot:
        assert [run_id for _, _, run_id, _ in snapshot.timers_until(DUE_MS)] == [RUN_ID]
    owned.apply(Release(now_ms=DUE_MS, run_id=RUN_ID, token=0))
    with owned.snapshot() as snapshot:
        assert list(snapshot.claims_of("n1", 1)) == [(RUN_ID, 1)]
    owned.apply(finish(1, AttemptOutcome.FAILED, now_ms=DUE_MS + 5))
    with owned.snapshot() as snapshot:
        assert [run_id for _, _, run_id, _ in snapshot.timers_until(DUE_MS + 5)] == [RUN_ID]
    owned.apply(expire(), Release(now_ms=DUE_MS, run_id=RUN_ID, token=1))
    with owned.snapshot() as snapshot:
        assert snapshot.queue_depth()[5] == 1


# I5, in part: a crash loses nothing acknowledged. The applied index is in the transaction of what it speaks of.


def test_I5_the_applied_index_is_exactly_as_old_as_the_state_beside_it(owned: Driver) -> None:
    owned.put("A")
    with owned.snapshot() as snapshot:
        before = snapshot.applied_index()
    transaction = owned.environment.begin(write=True)
    owned.machine.apply(transaction, index=before + 1, proposal=None)
    transaction.abort()
    with owned.environment.begin() as transaction:
        assert Machine.applied_index(owned.machine, transaction) == before


# I6: Replicas at the same applied index hold the same state (equal digest).


def test_I6_replicas_that_applied_the_same_hold_the_same(
    driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Driver(tmp_path_factory.mktemp("replica"))
    for replica in (driver, other):
        replica.open()
        replica.own_all()
        replica.put("A")
        replica.apply(fire(tick(DUE_MS)))
    assert driver.digest() == other.digest()
    other.apply(finish(1))
    assert driver.digest() != other.digest()


# I8: Once a pause/delete/update is acknowledged as effective, no tick made under the old definition starts. Once a
# cancel is acknowledged, the run ends `cancelled` and is not retried.


def test_I8_after_a_delete_no_waiting_run_is_handed_out(driver: Driver) -> None:
    driver.put("A")
    driver.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    driver.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    assert driver.open_more("n1").sent(RunClaimed) == []
    run = driver.run(run_id_of("A", NOW_MS, RunKind.MANUAL, "x"))
    assert (run.state, run.reason) == (RunState.SKIPPED, "superseded")


def test_I8_a_claim_that_was_withdrawn_for_a_delete_does_not_come_back(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(tick(DUE_MS, DUE_MS + SECOND)))
    owned.apply(DeleteJob(now_ms=NOW_MS, job_id="A"))
    outcome = owned.apply(Withdraw(now_ms=NOW_MS, run_id=RUN_ID, token=1, reason="superseded"))
    assert outcome.sent(RunClaimed) == []
    assert owned.run(RUN_ID).state is RunState.SKIPPED
    assert owned.apply(fire(tick(DUE_MS + SECOND, DUE_MS + 2 * SECOND))).reply.codes == ("not_due",)


def test_I8_an_attempt_that_ended_cancelled_is_not_retried(owned: Driver) -> None:
    owned.put("A", max_retries=5)
    owned.apply(fire(tick(DUE_MS)))
    owned.apply(finish(1, AttemptOutcome.CANCELLED))
    assert owned.run(RUN_ID).state is RunState.CANCELLED
    with owned.snapshot() as snapshot:
        assert list(snapshot.timers_until(2**47 - 1)) == []


# I10: Reads are linearizable by default (the log's barrier); a read says at which index it stands.


def test_I10_a_snapshot_says_the_index_that_it_stands_at(owned: Driver) -> None:
    owned.put("A")
    with owned.snapshot() as snapshot:
        index = snapshot.applied_index()
        owned.put("B")
        assert (snapshot.applied_index(), snapshot.job("B")) == (index, None)
    with owned.snapshot() as snapshot:
        assert snapshot.applied_index() == index + 1
        assert snapshot.job("B") is not None


@pytest.mark.parametrize("end", ["finish", "retry", "detach", "complete", "withdraw", "expire"])
def test_a_cancel_is_never_lost_and_nothing_follows_it(owned: Driver, end: str) -> None:
    """(I8) (C7) Whatever its holder does with the claim, or that it dies: the run ends cancelled."""
    owned.put("A", max_retries=5)
    owned.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    run_id = run_id_of("A", NOW_MS, RunKind.MANUAL, "x")
    outcome = owned.apply(CancelRun(now_ms=NOW_MS, run_id=run_id))
    assert outcome.sent(StopRequested) == [("n1", StopRequested(run_id=run_id, token=1))]
    with owned.snapshot() as snapshot:
        assert list(snapshot.stops_of("n1", 1)) == [(run_id, 1)], "where the holder finds it if the event is lost"
    times: dict[str, int] = {"now_ms": NOW_MS, "started_ms": NOW_MS, "finished_ms": NOW_MS}
    ends: dict[str, Command] = {
        "finish": Finish(run_id=run_id, token=1, outcome=AttemptOutcome.SUCCEEDED, **times),
        "retry": Finish(run_id=run_id, token=1, outcome=AttemptOutcome.FAILED, retry_at_ms=NOW_MS, **times),
        "detach": Detach(
            now_ms=NOW_MS, run_id=run_id, token=1, started_ms=NOW_MS, left_ms=9, heartbeat_ms=5, backoff_ms=3
        ),
        "complete": Complete(now_ms=NOW_MS, run_id=run_id, token=1, outcome=AttemptOutcome.FAILED),
        "withdraw": Withdraw(now_ms=NOW_MS, run_id=run_id, token=1, reason="superseded"),
        "expire": ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0),
    }
    owned.apply(ends[end])
    assert (owned.run(run_id).state, owned.run(run_id).reason) == (RunState.CANCELLED, "cancelled")
    assert owned.table("stops") == owned.table("claims") == owned.table("waiting") == {}
    assert owned.apply(CancelRun(now_ms=NOW_MS, run_id=run_id, reason="again")).reply.code == "ok"
    assert owned.run(run_id).reason == "cancelled"


def test_an_attempt_that_its_target_is_to_complete_is_cancelled_at_once(owned: Driver) -> None:
    """(I8) Nobody holds it; what its target says later is refused."""
    owned.put("A", max_retries=5)
    owned.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    run_id = run_id_of("A", NOW_MS, RunKind.MANUAL, "x")
    times = {"now_ms": NOW_MS, "started_ms": NOW_MS, "left_ms": 9, "heartbeat_ms": 5, "backoff_ms": 3}
    owned.apply(Detach(run_id=run_id, token=1, **times))
    owned.apply(CancelRun(now_ms=NOW_MS, run_id=run_id))
    assert owned.run(run_id).state is RunState.CANCELLED
    assert owned.table("timers") == {}
    complete = Complete(now_ms=NOW_MS, run_id=run_id, token=1, outcome=AttemptOutcome.SUCCEEDED)
    assert owned.apply(complete).reply.code == "fenced"
