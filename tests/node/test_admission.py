"""From a draft to a job: what is refused, where, and what to write instead."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from node.admission import TIMEOUT_S_MAX, admit, make_plan, parse_args
from node.interface import ARGS_BYTES_MAX, HttpTarget, Invalid, JobDraft, NoopTarget, Notify
from statemachine.definition import flaw_of

NOW_MS = 1_796_004_000_000  # 2026-11-30T02:00:00Z
JOB_ID = "01JDAAAAAAAAAAAAAAAAAAAAAA"


def draft(**fields: Any) -> JobDraft:
    body = {"name": "nightly", "schedule": "0 2 * * *", "tz": "Europe/Berlin", "target": NoopTarget()} | fields
    return JobDraft(**body)


def refused(**fields: Any) -> dict[str, str]:
    """The fields that are refused, and why."""
    with pytest.raises(Invalid) as caught:
        admit(draft(**fields), job_id=JOB_ID, now_ms=NOW_MS)
    return {error.path: error.message for error in caught.value.errors}


def test_a_draft_becomes_a_job_that_the_state_machine_accepts() -> None:
    """(M1)"""
    job = admit(draft(args={"b": [1, "ü"]}, labels={"app": "x"}), job_id=JOB_ID, now_ms=NOW_MS)
    assert flaw_of(job) is None
    assert (job.job_id, job.expressions, job.tz, job.version) == (JOB_ID, ("0 2 * * *",), "Europe/Berlin", 1)
    assert (job.created_ms, job.updated_ms) == (NOW_MS, NOW_MS)
    assert job.args == '{"b":[1,"ü"]}'.encode()
    assert job.first_due_ms == NOW_MS + 23 * 3_600_000, "02:00 in Berlin is 01:00 in UTC, an hour ago"
    assert job.misfire_policy == "skip"


def test_the_first_tick_is_the_one_that_the_ticker_computes() -> None:
    """(dkron#1031)"""
    job = admit(draft(schedule="H * * * *"), job_id=JOB_ID, now_ms=NOW_MS)
    assert job.first_due_ms == make_plan(job).ticks.next(NOW_MS)


def test_a_list_of_expressions_is_their_union() -> None:
    job = admit(draft(schedule=["0 2 * * *", "@every 90s"]), job_id=JOB_ID, now_ms=NOW_MS)
    assert job.expressions == ("0 2 * * *", "@every 90s")


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": "0 2 * * *"},
        {"schedule": "@hourly"},
        {"schedule": ["@every 5s", "* * * * *"]},
        {"schedule": None, "run_at": "2026-12-24T18:00:00"},
        {"schedule": "@every 5s", "ends_at": "2026-12-24T18:00:00"},
    ],
)
def test_a_wall_clock_needs_a_zone(fields: dict[str, Any]) -> None:
    assert refused(tz=None, **fields) == {"tz": 'a time zone is needed; write "UTC" instead'}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"schedule": "every morning"}, "schedule"),
        ({"schedule": "@every 5s", "starts_at": "soon"}, "starts_at"),
        ({"schedule": None, "run_at": "tomorrow"}, "run_at"),
        ({"schedule": None, "run_at": "2026-12-24T18:00:00+0530"}, "run_at"),
    ],
)
@pytest.mark.parametrize("tz", [None, "Mars/Olympus"])
def test_a_missing_or_wrong_zone_hides_no_other_fault(fields: dict[str, Any], path: str, tz: str | None) -> None:
    assert path in refused(tz=tz, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": "@every 5s"},
        {"schedule": None, "run_at": "2026-12-24T18:00:00+01:00"},
        {"schedule": "@EVERY 5s", "ends_at": "2026-12-24T18:00:00Z"},
    ],
)
def test_instants_need_no_zone(fields: dict[str, Any]) -> None:
    assert admit(draft(tz=None, **fields), job_id=JOB_ID, now_ms=NOW_MS).tz == "UTC"


@pytest.mark.parametrize(("given", "number"), [("low", 2), ("normal", 5), ("high", 8), (0, 0), (9, 9)])
def test_priorities_have_names(given: Any, number: int) -> None:
    assert admit(draft(priority=given), job_id=JOB_ID, now_ms=NOW_MS).priority == number


def once(run_at: str, **fields: Any) -> dict[str, Any]:
    return {"schedule": None, "run_at": run_at} | fields


def test_a_one_off_runs_late_rather_than_never_unless_told_otherwise() -> None:
    job = admit(draft(**once("2026-12-24T18:00:00")), job_id=JOB_ID, now_ms=NOW_MS)
    assert job.misfire_policy == "run_once"
    assert job.first_due_ms == job.run_at_ms == 1_798_131_600_000, "a naive run_at is read in the job's zone"
    skip = admit(draft(**once("2026-12-24T18:00:00", misfire_policy="skip")), job_id=JOB_ID, now_ms=NOW_MS)
    assert skip.misfire_policy == "skip"


def test_a_run_at_in_the_past_is_accepted_within_the_grace_only() -> None:
    job = admit(draft(**once("2026-11-30T01:59:01Z")), job_id=JOB_ID, now_ms=NOW_MS)
    assert job.first_due_ms == NOW_MS - 59_000
    message = refused(**once("2026-11-30T01:58:59Z"))["run_at"]
    assert "61 s ago" in message and "misfire_grace_s (60)" in message
    admit(draft(**once("2026-11-30T01:58:59Z", misfire_grace_s=120)), job_id=JOB_ID, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("fields", "path", "part"),
    [
        ({"name": ""}, "name", "empty"),
        ({"name": "a" * 201}, "name", "200"),
        ({"name": " a"}, "name", "blank"),
        ({"name": "a\nb"}, "name", "line break"),
        ({"team": ""}, "team", "empty"),
        ({"team": "a" * 65}, "team", "64"),
        ({"team": "a/b"}, "team", "letters"),
        ({"labels": {"a b": "c"}}, "labels.a b", "label's name"),
        ({"labels": {"a": "c" * 257}}, "labels.a", "256"),
        ({"labels": {"a": "\x00"}}, "labels.a", "control"),
        ({"labels": {str(number): "" for number in range(33)}}, "labels", "32"),
        ({"args": "x" * ARGS_BYTES_MAX}, "args", "bytes"),
        ({"timeout_s": 0}, "timeout_s", "from"),
        ({"timeout_s": TIMEOUT_S_MAX + 1}, "timeout_s", "to 86400"),
        ({"timeout_s": float("nan")}, "timeout_s", "from"),
        ({"max_retries": -1}, "max_retries", "from 0"),
        ({"max_retries": 10**400}, "max_retries", "to 100"),
        ({"backoff_base_s": -1.0}, "backoff_base_s", "from 0"),
        ({"backoff_multiplier": 0.5}, "backoff_multiplier", "from 1"),
        ({"backoff_max_s": float("inf")}, "backoff_max_s", "to"),
        ({"backoff_jitter": 1.5}, "backoff_jitter", "to 1"),
        ({"misfire_grace_s": -1.0}, "misfire_grace_s", "from 0"),
        ({"jitter_s": 1e9}, "jitter_s", "to"),
        ({"max_runs": 0}, "max_runs", "from 1"),
        ({"misfire_window_s": -1}, "misfire_window_s", "from 0"),
        ({"priority": 10}, "priority", "0 to 9"),
        ({"schedule": None}, "schedule", "either"),
        ({"run_at": "2027-01-01T00:00:00Z"}, "schedule", "either"),
        ({"schedule": "0 25 * * *"}, "schedule", "write"),
        ({"schedule": ["0 2 * * *", "61 * * * *"]}, "schedule[1]", "write"),
        ({"schedule": []}, "schedule", "write"),
        ({"tz": "Mars/Olympus"}, "tz", "write"),
        ({"tz": ""}, "tz", "write"),
        (once("tomorrow"), "run_at", "RFC 3339"),
        (once("2027-01-01T00:00:00Z", starts_at="2026-12-01T00:00:00Z"), "starts_at", "recurring"),
        (once("9999-12-31T00:00:00Z"), "run_at", ""),
        ({"ends_at": "2026-11-01T00:00:00Z"}, "ends_at", "no tick"),
        ({"starts_at": "2026-12-02T00:00:00Z", "ends_at": "2026-12-01T00:00:00Z"}, "ends_at", "before it starts"),
        ({"starts_at": "soon"}, "starts_at", "RFC 3339"),
        ({"target": HttpTarget(url="ftp://a/b")}, "target.url", "http"),
        ({"target": HttpTarget(url="https://")}, "target.url", "host"),
        ({"target": HttpTarget(url="http://a/", headers={"X": "a\r\nb"})}, "target.headers.X", ""),
        ({"target": HttpTarget(url="http://169.254.169.254/")}, "target.url", ""),
    ],
)
def test_what_cannot_be_accepted_is_named(fields: dict[str, Any], path: str, part: str) -> None:
    errors = refused(**fields)
    assert list(errors) == [path]
    assert part in errors[path]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    assert set(refused(name="", timeout_s=0, schedule="nonsense")) == {"name", "timeout_s", "schedule"}


def test_link_local_targets_can_be_allowed() -> None:
    target = HttpTarget(url="http://169.254.169.254/")
    assert admit(draft(target=target), job_id=JOB_ID, now_ms=NOW_MS, allow_link_local=True).target == target


def test_own_args_of_a_run_have_the_same_limit() -> None:
    assert parse_args({"a": 1}) == b'{"a":1}'
    with pytest.raises(Invalid):
        parse_args("x" * ARGS_BYTES_MAX)


def test_a_stored_job_means_what_its_draft_meant() -> None:
    fields = {"starts_at": "2027-01-01T00:00:00Z", "ends_at": "2027-01-03T12:00:00Z", "dst_gap": "skip"}
    job = admit(draft(**fields), job_id=JOB_ID, now_ms=NOW_MS)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=type(job))
    plan = make_plan(stored)
    ticks = []
    at_ms: int | None = NOW_MS
    while (at_ms := plan.ticks.next(at_ms)) is not None:
        ticks.append(at_ms)
    assert ticks[0] == job.first_due_ms
    assert len(ticks) == 3


@pytest.mark.parametrize(
    ("notify", "path", "message"),
    [
        ({"on": ("dead",)}, "notify.url", "is required"),
        ({"url": "alerts.example"}, "notify.url", "http"),
        ({"url": "http://169.254.169.254/x"}, "notify.url", "link-local"),
        ({"url": "http://a", "threshold": 0}, "notify.threshold", "must be from 1 to"),
        ({"url": "http://a", "silence_s": -1}, "notify.silence_s", "must be from 0 to"),
        ({"url": "http://a", "late_s": float("nan")}, "notify.late_s", "must be from 0 to"),
        ({"url": "http://a", "on": ("dead", "dead")}, "notify.on", "twice"),
    ],
)
def test_what_cannot_be_told_is_refused(notify: dict[str, Any], path: str, message: str) -> None:
    assert message in refused(notify=Notify(**notify))[path]


def test_a_job_may_say_that_nobody_is_told() -> None:
    """So its team's default does not count for it."""
    job = admit(draft(notify=Notify(on=())), job_id=JOB_ID, now_ms=NOW_MS)
    assert job.notify == Notify(on=()) and flaw_of(job) is None
