"""The scheduler as its users see it: creates that can be repeated, reads that say where they stand, honest errors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from node.interface import (
    Attempt,
    AttemptOutcome,
    Conflict,
    DiskFull,
    Invalid,
    JobDraft,
    LogElsewhere,
    Malformed,
    NoopTarget,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    PreconditionFailed,
    Read,
    Run,
    RunKind,
    RunLog,
    RunState,
    TooLarge,
    Unavailable,
)
from node.kept_log import KeptLog
from node.log_folder import LogFolder
from node.work import rfc3339
from raftlog import errors as log_errors
from statemachine.codec import encode_command
from statemachine.commands import ExpireSession, OpenSession
from tests.node.conftest import LiveNode


def draft(name: str = "a", **fields: object) -> JobDraft:
    body = {"name": name, "schedule": "@every 1h", "target": NoopTarget()} | fields
    return JobDraft(**body)  # type: ignore[arg-type]


async def test_a_created_job_can_be_read_at_once_and_on_every_list(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft(team="red"))
    assert created.created and created.version == 1
    view, read = await idle.service.job(created.job_id)
    assert (view.job.name, view.next_run_ms) == ("a", created.next_run_ms)
    assert (read.applied_index, read.stale_s) == (1, 0.0)
    for page in (
        await idle.service.jobs(),
        await idle.service.jobs(team="red"),
        await idle.service.jobs(name="a"),
        await idle.service.jobs(team="red", name="a"),
    ):
        assert [item.job.job_id for item in page.items] == [created.job_id]
    assert (await idle.service.jobs(team="blue")).items == []
    assert (await idle.service.jobs(name="b")).items == []


async def test_the_same_key_and_body_make_one_job_and_another_body_is_refused(idle: LiveNode) -> None:
    first = await idle.service.create_job(draft(args={"a": 1, "b": 2}), idempotency_key="k")
    again = await idle.service.create_job(draft(args={"b": 2, "a": 1}, idempotency_key="k"))
    assert (again.job_id, again.created, again.next_run_ms) == (first.job_id, False, first.next_run_ms)
    with pytest.raises(Conflict, match="idempotency key"):
        await idle.service.create_job(draft(args={"a": 2}), idempotency_key="k")
    other_team = await idle.service.create_job(draft(team="red"), idempotency_key="k")
    assert other_team.created


async def test_a_repeat_whose_run_at_is_past_by_now_still_gets_the_first_answer(idle: LiveNode) -> None:
    once = draft(schedule=None, run_at=rfc3339(idle.clock.wall_ms() + 60_000))
    first = await idle.service.create_job(once, idempotency_key="k")
    idle.clock.ahead_s = 24 * 3600
    again = await idle.service.create_job(once, idempotency_key="k")
    assert (again.job_id, again.created) == (first.job_id, False)
    for body, key in ((once, "another"), (once, None), (draft(schedule=None, run_at="2020-01-01T00:00:00Z"), "k")):
        with pytest.raises(Invalid):
            await idle.service.create_job(body, idempotency_key=key)
    idle.clock.ahead_s = 8 * 24 * 3600
    with pytest.raises(Invalid):
        await idle.service.create_job(once, idempotency_key="k")


async def test_a_name_is_taken_once_a_team(idle: LiveNode) -> None:
    await idle.service.create_job(draft())
    with pytest.raises(Conflict) as caught:
        await idle.service.create_job(draft())
    assert caught.value.errors[0].path == "name"


async def test_pages_join_up_while_rows_come_and_go(idle: LiveNode) -> None:
    made = [(await idle.service.create_job(draft(f"j{number}"))).job_id for number in range(5)]
    first = await idle.service.jobs(limit=2)
    assert [item.job.job_id for item in first.items] == made[:2]
    await idle.service.delete_job(made[1])
    await idle.service.delete_job(made[2])
    second = await idle.service.jobs(limit=2, cursor=first.next_cursor)
    assert [item.job.job_id for item in second.items] == made[3:]
    assert second.next_cursor is None


@pytest.mark.parametrize("cursor", ["", "%%%", "MTI", "AAAA", "x" * 5000, "ä"])
async def test_a_cursor_that_was_never_given_out_is_refused(idle: LiveNode, cursor: str) -> None:
    with pytest.raises(Malformed):
        await idle.service.jobs(cursor=cursor)


async def test_a_cursor_means_nothing_in_another_list(idle: LiveNode) -> None:
    made = [(await idle.service.create_job(draft(f"j{number}"))).job_id for number in range(3)]
    for job_id in (*made[:2], *made[:2]):
        await idle.service.run_now(job_id)
    of_jobs = (await idle.service.jobs(limit=1)).next_cursor
    of_runs = (await idle.service.runs_of_job(made[0], limit=1)).next_cursor
    assert of_jobs and of_runs
    for call in (
        idle.service.jobs(cursor=of_runs),
        idle.service.runs_of_job(made[0], cursor=of_jobs),
        idle.service.runs_of_job(made[1], cursor=of_runs),
        idle.service.jobs(cursor=of_jobs[:-2]),
    ):
        with pytest.raises(Malformed):
            await call


async def test_a_deleted_job_is_gone_and_its_history_stays(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft())
    run = await idle.service.run_now(created.job_id)
    await idle.service.delete_job(created.job_id)
    for call in (
        idle.service.job(created.job_id),
        idle.service.delete_job(created.job_id),
        idle.service.run_now(created.job_id),
    ):
        with pytest.raises(NotFound):
            await call
    page = await idle.service.runs_of_job(created.job_id)
    assert [item.run_id for item in page.items] == [run.run_id]
    assert (await idle.service.create_job(draft())).created, "its name is free again"


async def test_a_delete_names_the_version_that_it_saw(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft())
    with pytest.raises(PreconditionFailed):
        await idle.service.delete_job(created.job_id, expected_version=7)
    await idle.service.delete_job(created.job_id, expected_version=1)


async def test_run_now_makes_a_manual_run_with_its_own_args(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft(args={"a": 1}))
    run = await idle.service.run_now(created.job_id, args={"a": 2})
    assert (run.kind, run.state, run.args) == (RunKind.MANUAL, RunState.QUEUED, b'{"a":2}')
    assert (await idle.service.run(run.run_id))[0] == run
    with pytest.raises(NotFound):
        await idle.service.run_now("01JDAAAAAAAAAAAAAAAAAAAAAA")


async def test_the_same_key_makes_one_manual_run(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft())
    first = await idle.service.run_now(created.job_id, args={"a": 2}, idempotency_key="k")
    idle.clock.ahead_s = 5
    assert await idle.service.run_now(created.job_id, args={"a": 2}, idempotency_key="k") == first
    with pytest.raises(Conflict, match="idempotency key"):
        await idle.service.run_now(created.job_id, args={"a": 3}, idempotency_key="k")
    assert (await idle.service.run_now(created.job_id, args={"a": 2})).run_id != first.run_id


async def test_runs_are_listed_newest_first_by_page_state_and_time(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft())
    runs = []
    for _ in range(3):
        runs.append(await idle.service.run_now(created.job_id))
        idle.clock.ahead_s += 1
    first = await idle.service.runs_of_job(created.job_id, limit=2)
    second = await idle.service.runs_of_job(created.job_id, limit=2, cursor=first.next_cursor)
    assert [run.run_id for run in (*first.items, *second.items)] == [run.run_id for run in reversed(runs)]
    assert (await idle.service.runs_of_job(created.job_id, states=(RunState.DEAD,))).items == []
    middle = await idle.service.runs_of_job(created.job_id, from_ms=runs[1].due_ms, to_ms=runs[2].due_ms)
    assert [run.run_id for run in middle.items] == [runs[1].run_id]
    with pytest.raises(NotFound):
        await idle.service.runs_of_job("01JDAAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(NotFound):
        await idle.service.run("nonsense")


async def test_a_local_read_needs_no_majority_and_says_how_old_it_may_be(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft())
    await idle.service.job(created.job_id)
    idle.log.cut = log_errors.OutcomeUnknown()
    view, read = await idle.service.job(created.job_id, consistency="local")
    assert view.job.name == "a"
    assert 0 < read.stale_s < 60
    with pytest.raises(Unavailable):
        await idle.service.job(created.job_id)


async def test_a_log_is_looked_for_where_the_majority_stands(idle: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node may have answered with a run that this one has not applied yet: a barrier is where it catches up."""
    barrier, asked_s = idle.log.read_barrier, []

    async def noted(*, timeout_s: float = 5.0) -> int:
        asked_s.append(timeout_s)
        return await barrier(timeout_s=timeout_s)

    monkeypatch.setattr(idle.log, "read_barrier", noted)
    with pytest.raises(NotFound):
        await idle.service.run_log("000000000000-01JDAAAAAAAAAAAAAAAAAAAAAA")
    assert len(asked_s) == 1


async def test_a_log_is_shown_without_a_majority_too(idle: LiveNode, tmp_path: Path) -> None:
    created = await idle.service.create_job(draft())
    run = await idle.service.run_now(created.job_id)
    LogFolder(tmp_path / "logs", bytes_max=10**9).keep(run.run_id, 1, KeptLog(head=b"hello"))
    idle.log.cut = log_errors.OutcomeUnknown()
    assert (await idle.service.run_log(run.run_id, attempt=1)).output == b"hello"


async def test_the_log_of_an_attempt_without_output_is_empty_unless_it_is_elsewhere_or_never_was(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await idle.service.create_job(draft())
    run = await idle.service.run_now(created.job_id)
    with pytest.raises(NotFound, match="no attempt 1"):
        await idle.service.run_log(run.run_id)
    ended = [Attempt(attempt=number + 1, node=f"n{number}", outcome=AttemptOutcome.FAILED) for number in (1, 2)]
    later = msgspec.structs.replace(run, node="n1", attempt=4, attempts=tuple(ended))
    read = (await idle.service.run(run.run_id))[1]

    async def known(run_id: str, **_: object) -> tuple[Run, Read]:
        return later, read

    monkeypatch.setattr(idle.service, "run", known)
    for attempt in (2, 4):
        assert await idle.service.run_log(run.run_id, attempt=attempt) == RunLog(attempt=attempt, output=b"")
    for asked in (None, 3):
        with pytest.raises(LogElsewhere, match=r"attempt 3 .* n2 ran it") as elsewhere:
            await idle.service.run_log(run.run_id, attempt=asked)
        assert elsewhere.value.node == "n2"
    with pytest.raises(NotFound, match="no attempt 1"):
        await idle.service.run_log(run.run_id, attempt=1)


@pytest.mark.parametrize(
    ("raised", "expected", "definite"),
    [
        (log_errors.OutcomeUnknown(), OutcomeUnknown, False),
        (log_errors.CommandTooLarge(), TooLarge, True),
        (log_errors.LogOverloaded(), Overloaded, True),
        (log_errors.DiskFull("the disks of n1 are nearly full"), DiskFull, True),
        (log_errors.LogClosed(), Unavailable, True),
    ],
)
async def test_a_failed_write_says_whether_it_may_have_happened(
    idle: LiveNode, raised: log_errors.LogError, expected: type[Exception], definite: bool
) -> None:
    idle.log.cut = raised
    with pytest.raises(expected) as caught:
        await idle.service.create_job(draft())
    assert getattr(caught.value, "definite", None) is definite


@pytest.mark.parametrize("change", ["delete", "run now"])
async def test_a_change_that_stands_is_never_called_undone_because_it_cannot_be_read(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The majority goes between the commit and the look at what came of it."""
    job_id = (await idle.service.create_job(draft())).job_id

    async def no_majority(*, timeout_s: float = 5.0) -> int:
        raise log_errors.NoQuorum

    monkeypatch.setattr(idle.log, "read_barrier", no_majority)
    with pytest.raises(OutcomeUnknown) as told:
        await (idle.service.delete_job(job_id) if change == "delete" else idle.service.run_now(job_id))
    assert not told.value.definite


async def test_the_cluster_view_shows_members_without_a_session_too(idle: LiveNode) -> None:
    view = await idle.service.cluster()
    (node,) = view.nodes
    assert (node.node, node.live, node.raft, node.role) == ("n1", False, "127.0.0.1:7101", "leader")
    assert node.applied_index == view.applied_index == 0
    assert idle.service.node_addresses() == {}


async def test_a_preview_takes_hash_fields_and_jitter_from_the_job(idle: LiveNode) -> None:
    created = await idle.service.create_job(draft(schedule="H * * * *", jitter_s=600, tz="UTC"))
    shown = await idle.service.preview(schedule=("H * * * *",), tz="UTC", count=2, job_id=created.job_id)
    assert shown.ticks_ms[0] == created.next_run_ms
    assert 0 < shown.jitter_ms <= 600_000
    plain = await idle.service.preview(schedule=("0 2 * * *",), tz="Europe/Berlin", from_ms=0, count=3)
    assert list(plain.ticks_ms) == [3_600_000 + day * 86_400_000 for day in range(3)]
    assert "02:00" in plain.description
    assert (await idle.service.preview(schedule=("30 2 * * *",), tz="Europe/Berlin")).special != []
    with pytest.raises(Invalid) as caught:
        await idle.service.preview(schedule=("0 25 * * *",), tz="UTC")
    assert caught.value.errors[0].path == "schedule"
    with pytest.raises(NotFound):
        await idle.service.preview(schedule=(), tz="UTC", job_id="01JDAAAAAAAAAAAAAAAAAAAAAA")


async def test_metrics_have_the_names_of_the_contract(idle: LiveNode) -> None:
    await idle.service.create_job(draft())
    body, content_type = idle.service.metrics_text()
    assert content_type.startswith("text/plain")
    text = body.decode()
    for name in (
        'horae_runs_total{outcome="succeeded"} 0.0',
        'horae_queue_depth{priority="5"} 0.0',
        "horae_jobs 1.0",
        "horae_notifications_pending 0.0",
        "horae_notifications_sent_total 0.0",
        "horae_notifications_failed_total 0.0",
        "horae_due_not_queued 0.0",
        "horae_fenced_writes_total 0.0",
        "horae_lease_expired_total 0.0",
        "horae_raft_leader 1.0",
        "horae_lmdb_map_bytes 6.8719476736e+10",
        "horae_raft_applied_index 1.0",
        "# TYPE horae_run_start_delay_seconds histogram",
        'horae_running{kind="noop"} 0.0',
        'horae_executor_up{kind="http"} 1.0',
    ):
        assert name in text


async def test_a_node_that_does_not_work_yet_is_not_ready(idle: LiveNode) -> None:
    assert "majority" in (idle.service.ready() or "")
    await idle.service.jobs()
    assert "session" in (idle.service.ready() or "")


async def test_the_leader_hands_over_or_says_that_it_goes_on(idle: LiveNode) -> None:
    assert await idle.service.transfer_leadership(to="n1") == "n1"
    assert idle.log.transfers == [], "naming the leader changes nothing"
    with pytest.raises(Unavailable, match="goes on leading"):
        await idle.service.transfer_leadership()
    assert idle.log.transfers == [0]
    with pytest.raises(Invalid) as refused:
        await idle.service.transfer_leadership(to="n9")
    assert [error.path for error in refused.value.errors] == ["to"]
    idle.log.cut = log_errors.LogClosed()
    with pytest.raises(Unavailable):
        await idle.service.transfer_leadership()


async def test_on_a_disk_that_is_nearly_full_only_what_makes_room_is_done(idle: LiveNode) -> None:
    kept = (await idle.service.create_job(draft("kept"))).job_id
    idle.log.disk_low = True
    with pytest.raises(DiskFull, match=r"low\. Deleting still works"):
        await idle.service.create_job(draft("new"))
    with pytest.raises(DiskFull):
        await idle.service.run_now(kept)
    await idle.service.delete_job(kept)
    assert (await idle.service.cluster()).nodes[0].disk_low
    assert b"horae_disk_low 1.0" in idle.service.metrics_text()[0]
    idle.log.disk_low = False
    await idle.service.create_job(draft("new"))
    assert not (await idle.service.cluster()).nodes[0].disk_low
    text = idle.service.metrics_text()[0]
    assert b"horae_disk_low 0.0" in text
    assert b"horae_disk_free_bytes 5.24288e+06" in text


async def test_a_node_whose_disk_is_nearly_full_is_not_ready(live: LiveNode) -> None:
    await live.wait_for_session()
    assert live.service.ready() is None
    live.log.disk_low = True
    assert live.service.ready() == "the disk of this node is nearly full (5 MiB free)"


async def test_a_delete_waits_for_every_claim_however_long_the_history(
    idle: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node holds the oldest run of the job and has not said that it will not start it."""
    monkeypatch.setattr("statemachine.snapshot.RUNS_SCAN_MAX", 2)
    now_ms = idle.clock.wall_ms()
    idle.log.apply([encode_command(session_of("n2", now_ms))])
    job_id = (await idle.service.create_job(draft())).job_id
    held, *_ = [await idle.service.run_now(job_id) for _ in range(6)]
    assert (await idle.service.run(held.run_id))[0].state is RunState.CLAIMED
    delete = asyncio.create_task(idle.service.delete_job(job_id))
    done, _ = await asyncio.wait({delete}, timeout=0.1)
    assert not done
    idle.log.apply([encode_command(ExpireSession(now_ms=now_ms, node="n2", incarnation=1, renewal=0))])
    await asyncio.wait_for(delete, 5)


def session_of(node: str, now_ms: int) -> OpenSession:
    """With room for one run, and nobody behind it."""
    rest = {"http": "127.0.0.1:1", "raft": "127.0.0.1:2", "slots": 1, "ahead": 0, "version": "0", "tzdata": "2026a"}
    return OpenSession(now_ms=now_ms, node=node, incarnation=1, **rest)  # type: ignore[arg-type]
