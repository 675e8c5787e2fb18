"""Definitions: limits, idempotency keys, and what a change does to runs that exist."""

from __future__ import annotations

import math
from typing import Any

import pytest

from statemachine import limits
from statemachine.commands import DeleteJob, DueChanged, Finish, JobUpdated, PutJob, Release, RenewSession, RunNow
from statemachine.definition import flaw_of
from statemachine.keys import run_id_of
from statemachine.limits import IDEMPOTENCY_KEPT_MS
from statemachine.records import AttemptOutcome, CommandTarget, ContainerTarget, HttpTarget, RunKind, RunState
from tests.statemachine.driver import NOW_MS, Driver, a_job, fire, put_job, skipped, tick

SECOND = 1000


def http(**fields: Any) -> HttpTarget:
    return HttpTarget(**({"url": "http://a/"} | fields))


def container(**fields: Any) -> ContainerTarget:
    return ContainerTarget(**({"image": "a"} | fields))


def command(**fields: Any) -> CommandTarget:
    return CommandTarget(**({"argv": ("a",)} | fields))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job_id", ""),
        ("job_id", "A" * (limits.JOB_ID_LENGTH_MAX + 1)),
        ("job_id", "a-b"),
        ("job_id", "a\n"),
        ("job_id", "é"),
        ("name", ""),
        ("name", "x" * (limits.NAME_LENGTH_MAX + 1)),
        ("name", "a\0b"),
        ("team", ""),
        ("team", "x" * (limits.TEAM_LENGTH_MAX + 1)),
        ("team", "a\0b"),
        ("expressions", ("* * * * *",) * (limits.EXPRESSIONS_MAX + 1)),
        ("expressions", ("*" * (limits.EXPRESSION_LENGTH_MAX + 1),)),
        ("tz", "x" * (limits.WORD_LENGTH_MAX + 1)),
        ("target", http(url="x" * (limits.URL_LENGTH_MAX + 1))),
        ("target", http(method="x" * (limits.WORD_LENGTH_MAX + 1))),
        ("target", http(headers={str(number): "" for number in range(limits.HEADERS_MAX + 1)})),
        ("target", http(headers={"a": "x" * (limits.HEADER_LENGTH_MAX + 1)})),
        ("target", http(headers={"x" * (limits.HEADER_LENGTH_MAX + 1): ""})),
        ("target", http(body="x" * (limits.ARGS_BYTES_MAX + 1))),
        ("target", http(signing_secret="x" * (limits.SECRET_LENGTH_MAX + 1))),
        ("target", http(heartbeat_s=0.0)),
        ("target", http(heartbeat_s=math.nan)),
        ("target", container(image="")),
        ("target", container(image="x" * (limits.IMAGE_LENGTH_MAX + 1))),
        ("target", container(command=("x",) * (limits.ARGUMENTS_MAX + 1))),
        ("target", container(command=("x" * (limits.ARGUMENT_LENGTH_MAX + 1),))),
        ("target", container(env={str(number): "" for number in range(limits.VARIABLES_MAX + 1)})),
        ("target", container(cpu=math.nan)),
        ("target", container(memory_mb=0)),
        ("target", container(network="x" * (limits.NETWORK_LENGTH_MAX + 1))),
        ("target", command(argv=())),
        ("target", command(argv=("x",) * (limits.ARGUMENTS_MAX + 1))),
        ("target", command(env={"a": "x" * (limits.VARIABLE_LENGTH_MAX + 1)})),
        ("target", command(cwd="x" * (limits.PATH_LENGTH_MAX + 1))),
        ("target", command(memory_mb=0)),
        ("target", command(cpu_s=limits.RESOURCE_MAX + 1)),
        ("target", command(open_files=0)),
        ("args", b"x" * (limits.ARGS_BYTES_MAX + 1)),
        ("timeout_s", 0.0),
        ("timeout_s", math.nan),
        ("timeout_s", math.inf),
        ("max_retries", -1),
        ("max_retries", limits.RETRIES_MAX + 1),
        ("backoff_base_s", -1.0),
        ("backoff_multiplier", limits.MULTIPLIER_MAX + 1),
        ("backoff_max_s", math.nan),
        ("backoff_jitter", 1.1),
        ("priority", -1),
        ("priority", 10),
        ("misfire_grace_s", -1.0),
        ("jitter_s", limits.DURATION_S_MAX + 1),
        ("labels", {str(number): "" for number in range(limits.LABELS_MAX + 1)}),
        ("labels", {"a": "x" * (limits.LABEL_LENGTH_MAX + 1)}),
        ("created_ms", -1),
        ("first_due_ms", limits.TIME_MS_MAX + 1),
        ("deleted_ms", 1),
        ("paused_ms", 1),
        ("max_runs", 0),
        ("exclude_calendars", ("x",) * 2),
        ("exclude_calendars", ("",)),
        ("exclude_calendars", tuple("abcdefghi")),
        ("misfire_window_s", math.nan),
    ],
)
def test_each_limit_is_refused_by_name(driver: Driver, field: str, value: Any) -> None:
    reply = driver.put(**({"job_id": "A"} | {field: value}))
    assert (reply.code, reply.detail) == ("malformed", f"job.{field} is out of its limits")
    with driver.snapshot() as snapshot:
        assert snapshot.jobs() == []


def test_the_limits_themselves_are_allowed() -> None:
    job = a_job(
        "A" * limits.JOB_ID_LENGTH_MAX,
        name="x" * limits.NAME_LENGTH_MAX,
        team="x" * limits.TEAM_LENGTH_MAX,
        target=http(url="x" * limits.URL_LENGTH_MAX, body="x" * limits.ARGS_BYTES_MAX),
        timeout_s=limits.DURATION_S_MAX,
        max_retries=limits.RETRIES_MAX,
        priority=9,
        first_due_ms=limits.TIME_MS_MAX,
    )
    assert flaw_of(job) is None


def test_a_target_may_use_all_of_its_limits() -> None:
    """(M2)"""
    words = ("x" * limits.ARGUMENT_LENGTH_MAX,) * limits.ARGUMENTS_MAX
    env = {str(number): "x" * limits.VARIABLE_LENGTH_MAX for number in range(limits.VARIABLES_MAX)}
    most = limits.RESOURCE_MAX
    for target in (
        container(),
        command(),
        container(image="x" * limits.IMAGE_LENGTH_MAX, command=words, env=env, cpu=float(most), memory_mb=most),
        command(argv=words, env=env, cwd="x" * limits.PATH_LENGTH_MAX, memory_mb=most, cpu_s=most, open_files=most),
    ):
        assert flaw_of(a_job("A", target=target)) is None


# --- idempotency keys


def keyed(job_id: str, key: str, now_ms: int = NOW_MS) -> PutJob:
    return put_job(job_id, key=key, now_ms=now_ms)


def test_a_refused_create_does_not_use_up_its_key(driver: Driver) -> None:
    driver.put("A", name="taken")
    assert driver.apply(put_job("B", name="taken", key="k")).reply.code == "name_taken"
    assert driver.apply(keyed("C", "k")).reply.code == "ok"


def test_the_repeat_of_a_create_answers_where_the_job_stands_now(owned: Driver) -> None:
    owned.apply(keyed("A", "k"))
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 9 * SECOND)))
    reply = owned.apply(keyed("B", "k")).reply
    assert (reply.code, reply.job_id, reply.version, reply.next_ms) == ("existing", "A", 1, NOW_MS + 9 * SECOND)


def test_outdated_keys_go_two_at_a_time(driver: Driver) -> None:
    for job_id in "ABCDE":
        driver.apply(keyed(job_id, f"key {job_id}"))
    later = NOW_MS + IDEMPOTENCY_KEPT_MS
    kept = []
    for job_id in "PQRS":
        driver.apply(keyed(job_id, f"key {job_id}", now_ms=later))
        kept.append((len(driver.table("idempotency")), len(driver.table("idempotency_times"))))
    assert kept == [(4, 4), (3, 3), (3, 3), (4, 4)]


def test_keys_are_kept_for_seven_days(driver: Driver) -> None:
    driver.apply(keyed("A", "k"))
    assert driver.apply(keyed("B", "k", now_ms=NOW_MS + IDEMPOTENCY_KEPT_MS - 1)).reply.code == "existing"
    assert driver.apply(keyed("B", "k", now_ms=NOW_MS + IDEMPOTENCY_KEPT_MS)).reply.code == "ok"


def test_a_key_used_again_after_its_time_is_kept_from_then_on(driver: Driver) -> None:
    """Pruning the row of its first use must not take the second along."""
    for job_id in "XYZ":
        driver.apply(keyed(job_id, f"key {job_id}"))
    driver.apply(keyed("A", "k"))
    later = NOW_MS + IDEMPOTENCY_KEPT_MS
    assert driver.apply(keyed("B", "k", now_ms=later)).reply.code == "ok"
    for job_id in "CD":
        driver.apply(keyed(job_id, f"key {job_id}", now_ms=later))
    reply = driver.apply(keyed("E", "k", now_ms=later)).reply
    assert (reply.code, reply.job_id) == ("existing", "B")
    assert len(driver.table("idempotency")) == len(driver.table("idempotency_times")) == 3


def test_the_clock_of_one_create_does_not_bring_a_key_back(driver: Driver) -> None:
    driver.apply(keyed("A", "k"))
    driver.apply(keyed("B", "l", now_ms=0))
    assert driver.apply(keyed("C", "k")).reply.code == "existing"


# --- changes


def test_the_owner_hears_of_a_new_tick_and_everybody_of_a_new_version(owned: Driver) -> None:
    first = owned.apply(put_job("A"))
    assert first.events == [("n1", DueChanged(at_ms=NOW_MS + SECOND))]
    second = owned.apply(put_job("A", version=2, first_due_ms=None))
    assert second.events == [("*", JobUpdated(job_id="A", version=2))]


def test_without_an_owner_nobody_is_told(driver: Driver) -> None:
    assert driver.apply(put_job("A")).events == []


def test_an_update_moves_the_one_entry_of_the_due_index(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.put("A", version=2, first_due_ms=NOW_MS + 7 * SECOND)
    owned.put("A", version=3, first_due_ms=None)
    assert owned.table("due") == {}
    owned.put("A", version=4, first_due_ms=NOW_MS + 8 * SECOND)
    assert len(owned.table("due")) == 1
    assert owned.apply(fire(tick(NOW_MS + 8 * SECOND, version=4))).reply.codes == ("ok",)


def test_a_tick_that_an_earlier_version_fired_ahead_keeps_its_run(owned: Driver) -> None:
    """I1: the new version comes to the same tick; its run exists, and stays the only one."""
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.put("A", version=2, first_due_ms=NOW_MS + SECOND)
    outcome = owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 3 * SECOND, version=2)))
    assert outcome.reply.codes == ("ok",)
    run = owned.run(run_id_of("A", NOW_MS + SECOND))
    assert (run.job_version, run.token, run.state) == (1, 1, RunState.CLAIMED)
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == NOW_MS + 3 * SECOND


def test_an_overlap_policy_sees_the_runs_from_before_it(owned: Driver) -> None:
    of_the_tick = {"run_id": run_id_of("A", NOW_MS + SECOND), "token": 1, "outcome": AttemptOutcome.SUCCEEDED}
    owned.put("A")
    owned.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x"))
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.apply(Finish(**of_the_tick, now_ms=NOW_MS, started_ms=NOW_MS, finished_ms=NOW_MS))
    owned.put("A", version=2, overlap_policy="skip", first_due_ms=NOW_MS + 2 * SECOND)
    assert len(owned.table("active_by_job")) == 1
    owned.apply(fire(tick(NOW_MS + 2 * SECOND, version=2)))
    second = run_id_of("A", NOW_MS + 2 * SECOND)
    owned.apply(Release(now_ms=NOW_MS + 2 * SECOND, run_id=second, token=0))
    run = owned.run(second)
    assert run.state is RunState.SKIPPED
    assert run.reason == f"overlap: {run_id_of('A', NOW_MS, RunKind.MANUAL, 'x')}"


def test_so_many_earlier_runs_are_looked_at_and_no_more(owned: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemachine.overlap.OVERLAP_SCAN_MAX", 1)
    owned.put("A")
    owned.apply(*(RunNow(now_ms=NOW_MS, job_id="A", nonce=nonce) for nonce in "xyz"))
    owned.put("A", version=2, overlap_policy="skip")
    assert len(owned.table("active_by_job")) == 1


def test_a_tick_of_an_older_version_that_had_no_attempt_is_superseded(owned: Driver) -> None:
    owned.put("A")
    owned.apply(*(RunNow(now_ms=NOW_MS, job_id="A", nonce=f"n{number}") for number in range(20)))
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.put("A", version=2)
    owned.open("n1", 2, slots=100)
    run = owned.run(run_id_of("A", NOW_MS + SECOND))
    assert (run.state, run.reason) == (RunState.SKIPPED, "superseded")


def test_what_was_asked_for_by_hand_runs_under_the_new_version(driver: Driver) -> None:
    """A tick belongs to a definition, a manual run to the job."""
    driver.put("A")
    driver.apply(RunNow(now_ms=NOW_MS, job_id="A", nonce="x", args=b"7"))
    driver.put("A", version=2, priority=7, max_retries=0)
    driver.open("n1")
    run_id = run_id_of("A", NOW_MS, RunKind.MANUAL, "x")
    assert driver.run(run_id).state is RunState.SCHEDULED
    driver.apply(Release(now_ms=NOW_MS, run_id=run_id, token=0))
    run = driver.run(run_id)
    assert (run.state, run.kind, run.args) == (RunState.CLAIMED, RunKind.MANUAL, b"7")
    assert (run.job_version, run.priority, run.attempts_max) == (2, 7, 1)


def test_an_update_passes_over_no_tick_without_a_word(owned: Driver) -> None:
    """I2: a tick that was due and that nobody had fired yet would never have a record."""
    owned.put("A", first_due_ms=NOW_MS - 10 * SECOND)
    later = {"version": 2, "first_due_ms": NOW_MS + SECOND}
    assert owned.put("A", **later).code == "not_due"
    for bad in (
        skipped(NOW_MS - 9 * SECOND, NOW_MS, 10, "superseded"),
        skipped(NOW_MS - 10 * SECOND, NOW_MS + SECOND, 12, "superseded"),
        skipped(NOW_MS - 10 * SECOND, NOW_MS, 0, "superseded"),
    ):
        assert owned.put("A", skip=bad, **later).code == "not_due"
    told = owned.put("A", skip=skipped(NOW_MS - 10 * SECOND, NOW_MS, 11, "superseded"), **later)
    assert (told.code, told.next_ms) == ("ok", NOW_MS + SECOND)
    run = owned.run(run_id_of("A", NOW_MS - 10 * SECOND))
    assert (run.state, run.reason, run.until_ms, run.count) == (RunState.SKIPPED, "superseded", NOW_MS, 11)
    assert owned.apply(fire(tick(NOW_MS + SECOND, version=2))).reply.codes == ("ok",)


def test_a_tick_whose_release_is_still_to_come_may_be_taken_over_by_the_new_definition(owned: Driver) -> None:
    owned.put("A", first_due_ms=NOW_MS - 10 * SECOND, jitter_s=10.0)
    assert owned.put("A", version=2, first_due_ms=NOW_MS - 10 * SECOND).code == "ok"


def test_an_update_may_stand_at_the_tick_that_was_not_fired_yet(owned: Driver) -> None:
    """A change of its labels must not cost a late job its tick."""
    owned.put("A", first_due_ms=NOW_MS - 10 * SECOND)
    assert owned.put("A", version=2, first_due_ms=NOW_MS - 10 * SECOND, labels={"a": "b"}).code == "ok"
    assert owned.put("A", version=3, first_due_ms=None).code == "not_due"


def test_a_range_leaves_alone_what_somebody_holds(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.put("A", version=2, first_due_ms=NOW_MS + SECOND)
    only = skipped(NOW_MS + SECOND, NOW_MS + SECOND, 1, "calendar")
    item = tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND, version=2, runs=(), skips=(only,))
    assert owned.apply(fire(item)).reply.codes == ("ok",)
    assert owned.run(run_id_of("A", NOW_MS + SECOND)).state is RunState.CLAIMED
    assert len(owned.table("runs")) == 1


def test_a_range_begins_behind_what_has_a_record_already(owned: Driver) -> None:
    """I2, I1: an earlier definition made a run of the range's first tick. It stays that tick's one record, and the
    others have theirs, too."""
    owned.put("A", overlap_policy="skip")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.put("A", version=2, first_due_ms=NOW_MS + SECOND)
    late_ms = NOW_MS + 100 * SECOND
    owned.apply(RenewSession(now_ms=late_ms, node="n1", incarnation=1, renewal=1))
    missed = skipped(NOW_MS + SECOND, NOW_MS + 50 * SECOND, 50)
    item = tick(NOW_MS + SECOND, NOW_MS + 51 * SECOND, version=2, runs=(), skips=(missed,))
    assert owned.apply(fire(item, now_ms=late_ms)).reply.codes == ("ok",)
    first, rest = owned.run(run_id_of("A", NOW_MS + SECOND)), owned.run(run_id_of("A", NOW_MS + SECOND + 1))
    assert (first.state, first.reason, first.count) == (RunState.SKIPPED, "misfire", 1)
    assert (rest.state, rest.until_ms, rest.count) == (RunState.SKIPPED, NOW_MS + 50 * SECOND, 49)
    with owned.snapshot() as snapshot:
        assert snapshot.next_run_ms("A") == NOW_MS + 51 * SECOND
        assert [run.run_id for run in snapshot.runs_of_job("A").items] == [rest.run_id, first.run_id]


def test_a_scheduled_run_of_an_older_version_is_superseded_at_its_time(owned: Driver) -> None:
    owned.put("A", overlap_policy="skip")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.put("A", version=2, overlap_policy="skip", first_due_ms=NOW_MS + SECOND)
    first = run_id_of("A", NOW_MS + SECOND)
    owned.apply(Release(now_ms=NOW_MS + SECOND, run_id=first, token=0))
    assert owned.run(first).reason == "superseded"
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND, version=2)))
    run = owned.run(first)
    assert (run.state, run.job_version, run.reason, run.finished_ms) == (RunState.SCHEDULED, 2, None, None)


def test_a_deleted_jobs_id_and_history_stay(owned: Driver) -> None:
    owned.put("A")
    owned.apply(fire(tick(NOW_MS + SECOND, NOW_MS + 2 * SECOND)))
    owned.apply(DeleteJob(now_ms=NOW_MS + 5, job_id="A"))
    with owned.snapshot() as snapshot:
        assert len(snapshot.runs_of_job("A").items) == 1
        job = snapshot.job("A")
        assert job is not None and (job.deleted_ms, job.version) == (NOW_MS + 5, 1)
    assert owned.table("due") == {}
    assert owned.put("A").code == "version_conflict"


def test_what_is_printed_of_a_target_has_no_secret() -> None:
    """In a log line, a traceback or a failed assertion."""
    secrets = {"headers": {"X": "s3cret"}, "body": "s3cret", "signing_secret": "s3cret"}
    assert repr(http(url="https://me:s3cret@a/hook?token=s3cret", **secrets)) == "HttpTarget(POST a/hook)"
