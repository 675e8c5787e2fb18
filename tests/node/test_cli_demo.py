"""The parts of the demo: what it counts and shows, its jobs and the server they reach."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from rich.console import Console

from httpapi.fields import build
from node.cli_demo_jobs import Sink, sample_jobs
from node.cli_demo_nodes import DemoNode
from node.cli_demo_view import RUNS_KEPT, RUNS_REMEMBERED, Feed, delay_ms, line, remark, screen
from node.interface import JobDraft
from tests.httpapi.twin import Twin


def run_of(number: int = 1, **changes: Any) -> dict[str, Any]:
    attempt = {
        "attempt": 1,
        "node": "n2",
        "outcome": "succeeded",
        "status": 200,
        "started_at": "2026-11-30T01:00:02.007Z",
        "finished_at": "2026-11-30T01:00:02.050Z",
    }
    return {
        "run_id": f"r{number}",
        "job_id": "j1",
        "state": "succeeded",
        "due_at": f"2026-11-30T01:00:{number % 60:02d}.000Z",
        "release_at": "2026-11-30T01:00:02.000Z",
        "finished_at": "2026-11-30T01:00:02.050Z",
        "attempt": 1,
        "node": "n2",
        "reason": None,
        "attempts": [attempt],
    } | changes


@pytest.fixture
def feed() -> Feed:
    feed = Feed()
    feed.add_job("j1", "hello")
    return feed


def test_a_run_is_reported_once_for_each_move(feed: Feed) -> None:
    waiting = run_of(state="retrying", attempt=2, finished_at=None)
    assert feed.take([run_of(2, state="claimed"), waiting]) == [waiting]
    assert feed.take([waiting]) == []
    done = run_of(attempt=2)
    assert feed.take([done]) == [done]
    assert feed.latest == [done]
    assert feed.counts["hello"] == {"succeeded": 1, "retries": 1}


def test_skipped_ticks_are_counted_by_the_range(feed: Feed) -> None:
    feed.take([run_of(state="skipped", reason="misfire", count=12), run_of(2, state="skipped", reason="overlap")])
    assert feed.counts["hello"]["skipped"] == 13


def test_what_is_remembered_is_bounded(feed: Feed) -> None:
    for number in range(RUNS_KEPT + 100):
        feed.take([run_of(number)])
    assert len(feed._seen) == RUNS_KEPT
    assert len(feed.latest) == RUNS_REMEMBERED
    for number in range(50):
        feed.add_note(str(number))
    assert feed.notes[-1] == "49"
    assert len(feed.notes) < 10


def test_a_line_says_when_what_and_how(feed: Feed) -> None:
    assert line(feed, run_of(2)) == "01:00:02  hello         succeeded  on n2, +7 ms"
    failed = run_of(state="retrying", attempt=2)
    failed["attempts"][0] |= {"outcome": "failed", "detail": "status 500"}
    assert remark(failed) == "on n2, attempt 2, +7 ms, status 500"
    assert remark(run_of(state="skipped", node=None, attempts=[], reason="overlap: r1")) == "overlap: r1"


def test_a_delay_may_cross_a_second() -> None:
    assert delay_ms("2026-11-30T01:00:00.900Z", "2026-11-30T01:00:01.100Z") == 200


def test_the_screen_shows_nodes_jobs_and_runs(feed: Feed) -> None:
    feed.take([run_of(2)])
    feed.add_note("n3 killed by SIGKILL")
    nodes = [
        DemoNode(node="n1", http="127.0.0.1:8101", raft="", log=Path("n1.log")),
        DemoNode(node="n3", http="127.0.0.1:8103", raft="", log=Path("n3.log"), ending="killed by SIGKILL"),
    ]
    cluster = {"nodes": [{"node": "n1", "role": "leader", "buckets": 512, "applied_index": 77}]}
    console = Console(file=io.StringIO(), width=120)
    console.print(screen(feed, nodes, cluster, hint="kill -9 42", height=24))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for part in ("http://127.0.0.1:8101", "leader", "512", "killed by SIGKILL", "hello", "+7 ms", "kill -9 42"):
        assert part in text
    console.print(screen(feed, nodes, None, hint="", height=24))


@pytest.mark.parametrize("height", [24, 30, 60])
def test_the_screen_fits_into_the_terminal(feed: Feed, height: int) -> None:
    for number in range(6):
        feed.add_job(f"other{number}", f"other{number}")
    for number in range(60):
        feed.take([run_of(number)])
        feed.add_note(str(number))
    nodes = [DemoNode(node=f"n{number}", http="h", raft="", log=Path("log")) for number in range(3)]
    console = Console(file=io.StringIO(), width=100)
    console.print(screen(feed, nodes, None, hint="hint", height=height))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) < height
    assert any(line.startswith("01:00:59") for line in lines)


async def test_the_sample_jobs_are_accepted_and_are_of_several_kinds() -> None:
    twin = Twin()
    drafts = sample_jobs("http://127.0.0.1:9")
    for draft in drafts:
        assert (await twin.create_job(build(JobDraft, draft))).next_run_ms is not None
    assert {draft["target"]["type"] for draft in drafts} == {"http", "noop"}
    assert any(draft["schedule"] == "@every 2s" for draft in drafts)


async def test_the_flaky_callback_fails_now_and_then() -> None:
    async with TestClient(TestServer(Sink(random.Random(7)).application())) as client:
        statuses = {(await client.post("/flaky", json=None)).status for _ in range(20)}
        assert statuses == {200, 500}
        hello = await client.post("/hello", json=None, headers={"Horae-Run-Id": "r1", "Horae-Attempt": "2"})
        assert await hello.text() == "hello, run r1, attempt 2\n"
