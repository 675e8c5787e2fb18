from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine import commands as c
from statemachine.codec import (
    Undecodable,
    decode_command,
    decode_event,
    decode_job,
    decode_reply,
    encode,
    encode_command,
    encode_event,
    encode_reply,
)
from statemachine.policy_records import Calendar
from statemachine.records import AttemptOutcome, HttpTarget, Job, Team
from tests.statemachine.driver import NOW_MS, a_job, fire, open_session, put_job, skipped, tick

HTTP_JOB = a_job(
    target=HttpTarget(url="http://a/", headers={"X-Env": "prod", "A": "ä"}), labels={"z": "1", "a": "2"}, timeout_s=1.5
)
COMMANDS: list[c.Command] = [
    put_job(key="k"),
    c.PutJob(now_ms=1, job=HTTP_JOB),
    c.DeleteJob(now_ms=1, job_id="A"),
    c.PauseJob(now_ms=1, job_id="A", reason="why", expected_version=1, idempotency_key="k"),
    c.ResumeJob(now_ms=1, job_id="A", expected_version=2, first_due_ms=9, skip=skipped(5, 8, 3, "paused")),
    c.StartBackfill(now_ms=1, backfill_id="b", job_id="A", from_ms=1, to_ms=9, args=b"1", idempotency_key="k"),
    c.StepBackfill(
        now_ms=1, node="n1", epoch=1, backfill_id="b", job_version=1, expected_ms=1, due_ms=(1, 2), next_ms=None
    ),
    c.CancelBackfill(now_ms=1, backfill_id="b", reason="why"),
    c.PutCalendar(now_ms=1, calendar=Calendar(name="x", tz="UTC", spans=((1, 2),)), expected_version=0),
    c.DeleteCalendar(now_ms=1, name="x"),
    c.RunNow(now_ms=1, job_id="A", nonce="n", args=b"1"),
    fire(tick(5000, 6000, skips=(skipped(5001, 5999, 3),))),
    c.Release(now_ms=1, run_id="000000001388-A", token=0),
    c.Start(now_ms=1, run_id="000000001388-A", token=1, started_ms=2),
    c.Finish(
        now_ms=1,
        run_id="r",
        token=1,
        outcome=AttemptOutcome.FAILED,
        detail="no",
        started_ms=1,
        finished_ms=2,
        status=-9,
    ),
    c.Withdraw(now_ms=1, run_id="r", token=1),
    c.Detach(now_ms=1, run_id="r", token=1, started_ms=1, left_ms=9, heartbeat_ms=5, backoff_ms=3),
    c.Heartbeat(now_ms=1, run_id="r", token=1, progress="half"),
    c.Complete(now_ms=1, run_id="r", token=1, outcome=AttemptOutcome.FAILED, detail="no", retry_at_ms=2),
    c.Deadline(now_ms=1, run_id="r", at_ms=5),
    c.Redrive(now_ms=1, run_id="r"),
    c.CancelRun(now_ms=1, run_id="r", reason="typo"),
    open_session("n1", 1, slots=1, ahead=2),
    c.RenewSession(now_ms=1, node="n1", incarnation=1, renewal=2, draining=True),
    c.SuspectSession(now_ms=1, node="n1", incarnation=1, renewal=2),
    c.ExpireSession(now_ms=1, node="n1", incarnation=1, renewal=2),
    c.PruneRuns(now_ms=1, items=(c.PruneItem(job_id="A", version=1, run_ids=("r",), job=True),)),
    c.ReportNotification(now_ms=1, at_ms=2, number=3, error="no"),
    c.AssignBuckets(now_ms=1, moves=(c.BucketMove(bucket=1, expected_epoch=0, node=None),)),
    c.PutTeam(now_ms=1, team=Team(team="t", max_concurrent=2, max_jobs=3), expected_version=0),
    c.DeleteTeam(now_ms=1, team="t"),
]


def test_every_command_is_among_the_samples() -> None:
    assert {type(command) for command in COMMANDS} == set(c.AnyCommand.__args__) == set(c.Command.__subclasses__())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__struct_config__.tag)
def test_a_command_comes_back(command: c.Command) -> None:
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__struct_config__.tag)
def test_a_field_too_many_is_refused(command: c.Command) -> None:
    """An older replica must not ignore what a newer one understands: they would part."""
    fields = msgspec.msgpack.decode(encode_command(command)[1:])
    with pytest.raises(Undecodable):
        decode_command(b"\x01" + msgspec.msgpack.encode([*fields, 1]))


def test_so_is_an_unknown_key_of_a_target_and_a_field_too_many_of_a_job() -> None:
    tag, now_ms, job, *rest = msgspec.msgpack.decode(encode_command(c.PutJob(now_ms=1, job=HTTP_JOB))[1:])
    target_place = Job.__struct_fields__.index("target")
    worse_target = [*job[:target_place], job[target_place] | {"extra": [[1]]}, *job[target_place + 1 :]]
    for worse in (worse_target, [*job, 1]):
        with pytest.raises(Undecodable):
            decode_command(b"\x01" + msgspec.msgpack.encode([tag, now_ms, worse, *rest]))


@pytest.mark.parametrize(
    "reply",
    [
        c.PlainReply(code="fenced"),
        c.JobReply(job_id="A", version=1, next_ms=None),
        c.RunReply(run_id="r"),
        c.FireReply(codes=("ok", "not_due")),
        c.SessionReply(remaining=True),
        c.AssignReply(codes=("ok",)),
    ],
)
def test_a_reply_comes_back(reply: c.Reply) -> None:
    assert decode_reply(encode_reply(reply)) == reply


@pytest.mark.parametrize(
    "event",
    [
        c.RunClaimed(
            run_id="r",
            job_id="A",
            job_version=1,
            session=1,
            token=1,
            attempt=1,
            attempts_max=2,
            priority=5,
            due_ms=1,
            release_ms=2,
        ),
        c.JobDeleted(job_id="A"),
        c.JobUpdated(job_id="A", version=2),
        c.SessionEnded(node="n1", incarnation=1),
        c.SessionRenewed(node="n1", incarnation=1, renewal=2, wall_ms=3),
        c.BucketsMoved(),
        c.DueChanged(at_ms=1),
        c.RunsPruned(runs=(("r", 1),)),
    ],
)
def test_an_event_comes_back(event: c.AnyEvent) -> None:
    assert decode_event(encode_event(event)) == event


def test_a_record_comes_back_with_its_maps_in_order() -> None:
    assert encode(decode_job(encode(HTTP_JOB))) == encode(HTTP_JOB)
    assert list(decode_job(encode(HTTP_JOB)).labels) == ["z", "a"]


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02" + encode_command(COMMANDS[0])[1:], b"\x01\xc1", b"\x01\x90"])
def test_other_bytes_are_undecodable(data: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_command(data)


def test_nesting_is_refused_before_it_is_followed() -> None:
    """A recursion limit would be met at another depth on another replica."""
    nested = b"\x91" * 100_000 + b"\xc0"
    for start in (b"\x01", b"\x01\x95\xa5start\x01", b"\x01\x92\xa8put_job\x01", b"\x01\x95\xa7put_job\x01"):
        with pytest.raises(Undecodable):
            decode_command(start + nested)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_undecodable(data: bytes) -> None:
    for text in (data, b"\x01" + data):
        try:
            command = decode_command(text)
        except Undecodable:
            continue
        assert isinstance(command, c.Command)


def test_limits_are_part_of_the_types() -> None:
    for command in (
        c.Release(now_ms=-1, run_id="r", token=0),
        c.Release(now_ms=2**47, run_id="r", token=0),
        c.Release(now_ms=NOW_MS, run_id="", token=0),
        c.Release(now_ms=NOW_MS, run_id="r" * 200, token=0),
        c.Release(now_ms=NOW_MS, run_id="r", token=2**53 + 1),
        c.ExpireSession(now_ms=NOW_MS, node="n\n", incarnation=1, renewal=1),
        c.ExpireSession(now_ms=NOW_MS, node="n" * 65, incarnation=1, renewal=1),
        c.Fire(now_ms=NOW_MS, node="n", items=(tick(1),) * (c.FIRE_ITEMS_MAX + 1)),
        c.RunNow(now_ms=NOW_MS, job_id="A", nonce="x", args=b"1" * (64 * 1024 + 1)),
        c.Withdraw(now_ms=NOW_MS, run_id="r", token=1, reason="x" * 1001),
    ):
        with pytest.raises(Undecodable):
            decode_command(encode_command(command))
