"""A run-now with an idempotency key makes one run, however often and wherever it is repeated."""

from __future__ import annotations

from typing import Any

from statemachine.commands import PutJob, RunNow, RunReply
from statemachine.limits import IDEMPOTENCY_KEPT_MS
from statemachine.records import Job, NoopTarget
from tests.statemachine.driver import NOW_MS, Driver


def run_now(nonce: str, **fields: Any) -> RunNow:
    return RunNow(**({"now_ms": NOW_MS, "job_id": "A", "nonce": nonce, "idempotency_key": "k"} | fields))


def test_a_repeat_answers_the_first_run_and_makes_none(owned: Driver) -> None:
    owned.put("A")
    first = owned.apply(run_now("x", body_digest=b"1")).reply
    again = owned.apply(run_now("y", body_digest=b"1", now_ms=NOW_MS + 5000)).reply
    assert again == RunReply(code="existing", run_id=first.run_id)
    with owned.reader.snapshot() as snapshot:
        assert [run.run_id for run in snapshot.runs_of_job("A").items] == [first.run_id]


def test_two_in_one_proposal_make_one_run(owned: Driver) -> None:
    owned.put("A")
    first, second = owned.apply(run_now("x"), run_now("y")).replies
    assert (first.code, second.code) == ("ok", "existing")


def test_another_body_is_refused(owned: Driver) -> None:
    owned.put("A")
    owned.apply(run_now("x", body_digest=b"1"))
    assert owned.apply(run_now("y", body_digest=b"2")).reply.code == "idempotency_conflict"


def test_keys_belong_to_a_team_and_are_shared_with_its_creates(owned: Driver) -> None:
    owned.put("A")
    owned.put("B", team="other")
    owned.apply(run_now("x", body_digest=b"1"))
    assert owned.apply(run_now("y", job_id="B", body_digest=b"1")).reply.code == "ok"
    with owned.reader.snapshot() as snapshot:
        job = snapshot.job("A")
    assert job is not None
    other = Job(job_id="C", name="c", team=job.team, target=NoopTarget(), created_ms=NOW_MS, updated_ms=NOW_MS)
    create = PutJob(now_ms=NOW_MS, job=other, idempotency_key="k", body_digest=b"3")
    assert owned.apply(create).reply.code == "idempotency_conflict"


def test_a_key_is_forgotten_after_a_week(owned: Driver) -> None:
    owned.put("A")
    first = owned.apply(run_now("x")).reply
    late = owned.apply(run_now("y", now_ms=NOW_MS + IDEMPOTENCY_KEPT_MS)).reply
    assert late.code == "ok" and late.run_id != first.run_id


def test_without_a_key_each_is_its_own(owned: Driver) -> None:
    owned.put("A")
    first = owned.apply(run_now("x", idempotency_key=None)).reply
    second = owned.apply(run_now("y", idempotency_key=None)).reply
    assert first.run_id != second.run_id
