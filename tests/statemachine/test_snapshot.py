"""The read-only queries, on a state that was made by commands."""

from __future__ import annotations

import pytest

from statemachine.commands import (
    AssignBuckets,
    BucketMove,
    DeleteJob,
    ExpireSession,
    Finish,
    RunNow,
)
from statemachine.keys import bucket_of, run_id_of
from statemachine.limits import RUNS_SCAN_MAX
from statemachine.records import AttemptOutcome, BucketOwner, RunKind, RunState
from statemachine.snapshot import Snapshot
from tests.statemachine.driver import NOW_MS, Driver, a_job, fire, put_job, skipped, tick

SECOND = 1000


def ids(snapshot: Snapshot, **query: object) -> list[str]:
    return [job.job_id for job in snapshot.jobs(**query)]  # type: ignore[arg-type]


# --- jobs


@pytest.fixture
def five_jobs(driver: Driver) -> Driver:
    for job_id, team, name in (
        ("A", "red", "one"),
        ("B", "blue", "one"),
        ("C", "red", "two"),
        ("D", "reds", "two"),
        ("E", "red", "three"),
    ):
        driver.put(job_id, team=team, name=name)
    driver.apply(DeleteJob(now_ms=NOW_MS, job_id="E"))
    return driver


def test_jobs_are_listed_in_order_of_id_page_by_page(five_jobs: Driver) -> None:
    with five_jobs.snapshot() as snapshot:
        assert ids(snapshot) == ["A", "B", "C", "D"]
        assert ids(snapshot, limit=2) == ["A", "B"]
        assert ids(snapshot, limit=2, after_id="B") == ["C", "D"]
        assert ids(snapshot, after_id="D") == []
        assert ids(snapshot, after_id="Bx") == ["C", "D"]


def test_jobs_of_a_team_and_of_a_name(five_jobs: Driver) -> None:
    with five_jobs.snapshot() as snapshot:
        assert ids(snapshot, team="red") == ["A", "C"]
        assert ids(snapshot, team="red", after_id="A") == ["C"]
        assert ids(snapshot, team="reds") == ["D"]
        assert ids(snapshot, team="re") == []
        assert ids(snapshot, name="one") == ["A", "B"]
        assert ids(snapshot, name="one", after_id="A") == ["B"]
        assert ids(snapshot, name="one", limit=1) == ["A"]
        assert ids(snapshot, team="red", name="two") == ["C"]
        assert ids(snapshot, team="red", name="three") == []


def test_a_deleted_job_is_still_found_by_its_id(five_jobs: Driver) -> None:
    with five_jobs.snapshot() as snapshot:
        deleted = snapshot.job("E")
        assert deleted is not None and deleted.deleted_ms == NOW_MS
        assert snapshot.next_run_ms("E") is None
        assert snapshot.job("Z") is None
        assert snapshot.next_run_ms("Z") is None


def test_earlier_versions_are_kept_for_runs_that_are_retried(driver: Driver) -> None:
    for version in range(1, 19):
        assert driver.put("A", version=version, timeout_s=float(version)).code == "ok"
    with driver.snapshot() as snapshot:
        kept = {version: snapshot.job_version("A", version) for version in (1, 2, 17, 18, 19)}
        assert snapshot.job_version("Z", 1) is None
    assert {version: job and job.timeout_s for version, job in kept.items()} == {
        1: None,
        2: 2.0,
        17: 17.0,
        18: 18.0,
        19: None,
    }


def test_texts_that_cannot_be_ids_are_not_found(five_jobs: Driver) -> None:
    with five_jobs.snapshot() as snapshot:
        for text in ("", "x" * 1000, "ä" * 600):
            assert snapshot.job(text) is None
            assert snapshot.run(text) is None
            assert snapshot.session(text) is None
            assert snapshot.next_run_ms(text) is None
            assert snapshot.runs_of_job(text).items == []
            assert ids(snapshot, team=text) == []
            assert ids(snapshot, name=text) == []
            assert len(ids(snapshot, after_id=text)) in (0, 4)


# --- runs


@pytest.fixture
def many_runs(owned: Driver) -> Driver:
    """Job A: ticks at 1, 2 and 3 s from now, a skip from 4 to 6 s, manual runs now and at 2 s; job A_ has one tick."""
    owned.put("A")
    owned.put("A_")
    ticks = tuple(tick(NOW_MS + place * SECOND).runs[0] for place in (1, 2, 3))
    skips = (skipped(NOW_MS + 4 * SECOND, NOW_MS + 6 * SECOND, 3, "calendar"),)
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 7 * SECOND, runs=ticks, skips=skips)))
    owned.apply(fire(tick(NOW_MS + SECOND, job_id="A_")))
    owned.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    owned.apply(RunNow(now_ms=NOW_MS + 2 * SECOND, job_id="A", nonce="y"))
    owned.apply(RunNow(now_ms=NOW_MS + 2 * SECOND, job_id="A", nonce="z"))
    return owned


NEWEST_FIRST = ["4", "3", "2-mz", "2-my", "2", "1", "0-mx"]


def short(run_id: str) -> str:
    due, _, *suffix = run_id.split("-")
    return "-".join([str((int(due, 16) - NOW_MS) // SECOND), *suffix])


def test_runs_of_all_kinds_are_merged_newest_first(many_runs: Driver) -> None:
    with many_runs.snapshot() as snapshot:
        page = snapshot.runs_of_job("A")
        assert [short(run.run_id) for run in page.items] == NEWEST_FIRST
        assert page.next_key is None
        assert [short(run.run_id) for run in snapshot.runs_of_job("A_").items] == ["1"]


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_neither_repeat_nor_lose_a_run(many_runs: Driver, limit: int) -> None:
    seen, key = [], None
    with many_runs.snapshot() as snapshot:
        for _ in range(8):
            page = snapshot.runs_of_job("A", before_key=key, limit=limit)
            assert len(page.items) <= limit
            seen += [short(run.run_id) for run in page.items]
            key = page.next_key
            if key is None:
                break
    assert seen == NEWEST_FIRST


def test_a_page_goes_on_before_a_run_that_is_gone(many_runs: Driver) -> None:
    """Cursors stay valid while rows change: the key need not exist."""
    with many_runs.snapshot() as snapshot:
        for key, expected in (
            (run_id_of("A", NOW_MS + 2 * SECOND, RunKind.MANUAL, "yy"), ["2-my", "2", "1", "0-mx"]),
            (run_id_of("A", NOW_MS + 2 * SECOND + 1), ["2-mz", "2-my", "2", "1", "0-mx"]),
            ("garbage", NEWEST_FIRST),
        ):
            assert [short(run.run_id) for run in snapshot.runs_of_job("A", before_key=key).items] == expected


def test_runs_by_time_and_state(many_runs: Driver) -> None:
    with many_runs.snapshot() as snapshot:

        def found(**query: object) -> list[str]:
            return [short(run.run_id) for run in snapshot.runs_of_job("A", **query).items]  # type: ignore[arg-type]

        assert found(from_ms=NOW_MS + 2 * SECOND) == ["4", "3", "2-mz", "2-my", "2"]
        assert found(to_ms=NOW_MS + 2 * SECOND) == ["1", "0-mx"]
        assert found(from_ms=NOW_MS + SECOND, to_ms=NOW_MS + 3 * SECOND) == ["2-mz", "2-my", "2", "1"]
        assert found(to_ms=-5) == []
        assert found(to_ms=2**70) == NEWEST_FIRST
        assert found(states=(RunState.SKIPPED,)) == ["4"]
        assert found(states=(RunState.CLAIMED, RunState.SKIPPED), limit=2) == ["4", "3"]
        before = run_id_of("A", NOW_MS + 3 * SECOND)
        assert found(to_ms=NOW_MS + 2 * SECOND, before_key=before) == ["1", "0-mx"]


def test_a_page_looks_at_a_bounded_number_of_rows(many_runs: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert RUNS_SCAN_MAX == 10_000
    monkeypatch.setattr("statemachine.snapshot.RUNS_SCAN_MAX", 3)
    with many_runs.snapshot() as snapshot:
        page = snapshot.runs_of_job("A", states=(RunState.DEAD,))
        assert page.items == []
        assert page.next_key == run_id_of("A", NOW_MS + 2 * SECOND, RunKind.MANUAL, "z")


def test_a_run_by_its_id(many_runs: Driver) -> None:
    with many_runs.snapshot() as snapshot:
        run = snapshot.run(run_id_of("A", NOW_MS + SECOND))
        assert run is not None and (run.job_id, run.due_ms, run.kind) == ("A", NOW_MS + SECOND, RunKind.SCHEDULED)
        assert snapshot.run(run_id_of("A", NOW_MS + 5 * SECOND)) is None
        assert snapshot.run("no such id") is None


# --- what is to come


def test_due_ticks_in_order_and_onwards(driver: Driver) -> None:
    for job_id, due_ms in (("A", 3000), ("B", 1000), ("C", 2000), ("D", 1000)):
        driver.put(job_id, first_due_ms=due_ms)
    with driver.snapshot() as snapshot:
        found = list(snapshot.due_until(2000))
        assert [(due_ms, job_id, entry.version) for due_ms, _, job_id, entry in found] == [
            *sorted([(1000, "B", 1), (1000, "D", 1)], key=lambda place: bucket_of(place[1])),
            (2000, "C", 1),
        ]
        assert [bucket for _, bucket, _, _ in found] == [bucket_of(job_id) for _, _, job_id, _ in found]
        assert list(snapshot.due_until(2000, limit=2)) == found[:2]
        assert list(snapshot.due_until(2000, after=found[0][:3])) == found[1:]
        assert list(snapshot.due_until(999)) == []
        assert len(list(snapshot.due_until(2**47))) == 4


def test_timers_in_order_and_onwards(owned: Driver) -> None:
    owned.put("A", overlap_policy="skip")
    ticks = tuple(tick(NOW_MS + place * SECOND).runs[0] for place in (1, 2, 3))
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 4 * SECOND, runs=ticks)))
    with owned.snapshot() as snapshot:
        found = list(snapshot.timers_until(NOW_MS + 2 * SECOND))
        assert [(at_ms - NOW_MS, short(run_id), entry.kind) for at_ms, _, run_id, entry in found] == [
            (1000, "1", "release"),
            (2000, "2", "release"),
        ]
        assert list(snapshot.timers_until(NOW_MS + 2 * SECOND, after=found[0][:3])) == found[1:]
        assert list(snapshot.timers_until(NOW_MS + 2 * SECOND, limit=1)) == found[:1]


# --- sessions, buckets, counts


def test_an_empty_state_answers_everything(driver: Driver) -> None:
    with driver.snapshot() as snapshot:
        assert snapshot.applied_index() == 0
        assert snapshot.jobs() == []
        assert snapshot.sessions() == [] == snapshot.ended_sessions()
        assert snapshot.session("n1") is None
        assert snapshot.queue_depth() == [0] * 10
        assert snapshot.buckets() == [BucketOwner(node=None, epoch=0)] * 1024
        assert list(snapshot.claims_of("n1", 1)) == []
        assert snapshot.counters().jobs == 0


def test_sessions_and_what_they_hold(many_runs: Driver) -> None:
    many_runs.open("n2", 5, slots=1)
    with many_runs.snapshot() as snapshot:
        assert [(session.node, session.incarnation) for session in snapshot.sessions()] == [("n1", 1), ("n2", 5)]
        session = snapshot.session("n1")
        assert session is not None and (session.held_due, session.held_ahead) == (3, 4)
        claims = list(snapshot.claims_of("n1", 1))
        assert [short(run_id) for run_id, _ in claims] == ["0-mx", "1", "1", "2", "2-my", "2-mz", "3"]
        assert {token for _, token in claims} == {1}
        assert list(snapshot.claims_of("n1", 2)) == list(snapshot.claims_of("n", 1)) == []
    many_runs.open("n1", 2, slots=0)
    with many_runs.snapshot() as snapshot:
        assert snapshot.ended_sessions() == [("n1", 1)]
        assert len(list(snapshot.claims_of("n1", 1))) == 7


def test_buckets_by_number(owned: Driver) -> None:
    owned.apply(AssignBuckets(now_ms=NOW_MS, moves=(BucketMove(bucket=1023, expected_epoch=1, node=None),)))
    with owned.snapshot() as snapshot:
        buckets = snapshot.buckets()
    assert len(buckets) == 1024
    assert buckets[0] == BucketOwner(node="n1", epoch=1)
    assert buckets[1023] == BucketOwner(node=None, epoch=2)


def test_queue_depth_by_priority(driver: Driver) -> None:
    driver.put("A", priority=0)
    driver.put("B", priority=9)
    driver.apply(*(RunNow(now_ms=NOW_MS, job_id=job_id, nonce=nonce) for job_id, nonce in ("Ax", "Ay", "Bx")))
    with driver.snapshot() as snapshot:
        assert snapshot.queue_depth() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_counters_follow_what_happens(many_runs: Driver) -> None:
    outcomes = (AttemptOutcome.SUCCEEDED, AttemptOutcome.CANCELLED, AttemptOutcome.FAILED)
    for place, outcome in enumerate(outcomes, 1):
        many_runs.apply(
            Finish(
                now_ms=NOW_MS,
                run_id=run_id_of("A", NOW_MS + place * SECOND),
                token=1,
                outcome=outcome,
                started_ms=NOW_MS,
                finished_ms=NOW_MS,
            )
        )
    many_runs.apply(ExpireSession(now_ms=NOW_MS, node="n1", incarnation=1, renewal=0))
    with many_runs.snapshot() as snapshot:
        counters = snapshot.counters()
    assert (counters.runs_succeeded, counters.runs_cancelled, counters.runs_dead) == (1, 1, 0)
    assert (counters.runs_skipped, counters.ticks_skipped) == (1, {"calendar": 3})
    assert (counters.jobs, counters.sessions_expired) == (2, 1)
    # The failed one, and the four that were due when the session was lost: the clock stood at the last manual run's.
    assert counters.attempts_retried == 5


def test_a_snapshot_may_look_into_an_open_transaction(driver: Driver) -> None:
    with driver.environment.begin(write=True) as transaction:
        driver.machine.apply(transaction, index=1, proposal=None)
        assert Snapshot(transaction, driver.machine.tables(transaction)).applied_index() == 1


def test_names_longer_than_an_lmdb_key_are_listed(driver: Driver) -> None:
    long_name = "\U0001f426" * 200
    assert driver.apply(put_job("A", name=long_name, team="\U0001f426" * 64)).reply.code == "ok"
    with driver.snapshot() as snapshot:
        assert ids(snapshot, name=long_name, team="\U0001f426" * 64) == ["A"]
        assert snapshot.job("A") == a_job("A", name=long_name, team="\U0001f426" * 64)


def test_what_an_idempotency_key_made_can_be_asked(driver: Driver) -> None:
    driver.apply(put_job("A", key="k"))
    with driver.snapshot() as snapshot:
        entry = snapshot.idempotency_entry("t", "k")
        assert entry is not None and (entry.job_id, entry.digest, entry.created_ms) == ("A", b"digest", NOW_MS)
        assert snapshot.idempotency_entry("t", "other") is None
        assert snapshot.idempotency_entry("u", "k") is None
