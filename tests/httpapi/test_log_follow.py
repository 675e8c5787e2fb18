"""Following the log of a run: live, through retries and nodes, with readers that come back or never read (M4, M20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient

from httpapi import event_stream, log_follower
from httpapi.client import Client, LogEvent, Refused
from httpapi.log_events import Event, read_events
from node.interface import Attempt, AttemptOutcome, HttpTarget, JobDraft, RunLog, RunState
from tests.httpapi.conftest import Pair
from tests.httpapi.twin import NOW_MS, Twin

WAIT_S = 10.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "POLL_S", 0.01)
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(event_stream, "FIRST_EVENT_S", 0.02)


class Reader:
    """Reads the events of one answer, heartbeats left out."""

    def __init__(self, answer: ClientResponse) -> None:
        self._events = read_events(answer.content.iter_any())

    async def next(self) -> Event:
        async with asyncio.timeout(WAIT_S):
            while (event := await anext(self._events)) is None:
                pass
        return event

    async def until(self, name: str) -> list[Event]:
        told = [await self.next()]
        while told[-1].name != name:
            told.append(await self.next())
        return told


async def follow(client: TestClient, run_id: str, query: str = "", **headers: str) -> Reader:
    answer = await client.get(f"/v1/runs/{run_id}/log?follow=1{query}", headers=headers)
    assert (answer.status, answer.content_type) == (200, "text/event-stream"), await answer.text()
    return Reader(answer)


def text_of(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.name == "log")


def names_of(events: list[Event]) -> list[str]:
    return [event.name for event in events]


async def started(pair: Pair, node: str) -> Any:
    """A run that runs on that node, as both know."""
    run = await pair.run_on(node)
    for twin in pair.twins.values():
        twin.put_run(msgspec.structs.replace(run, attempts=()))
    live = pair.twins[node].start(run.run_id)
    other = pair.twins["n1" if node == "n2" else "n2"]
    other.put_run(pair.twins[node].runs_by_id[run.run_id])
    return run.run_id, live


async def finish(pair: Pair, run_id: str, node: str) -> None:
    done = pair.twins[node].finish(run_id)
    for twin in pair.twins.values():
        twin.put_run(done)


@pytest.mark.parametrize("asked", ["n1", "n2"])
async def test_any_node_follows_from_the_beginning_then_live_until_the_end(pair: Pair, asked: str) -> None:
    run_id, live = await started(pair, "n2")
    live.write("grüße\n".encode())
    reader = await follow(pair.clients[asked], run_id)
    assert await reader.next() == Event(name="attempt", data={"attempt": 1, "node": "n2"})
    first = await reader.next()
    assert (first.data, first.id) == ({"attempt": 1, "offset": 0, "text": "grüße\n"}, "1:8")
    live.write(b"more")
    assert (await reader.next()).data == {"attempt": 1, "offset": 8, "text": "more"}
    live.write(b"", ended=True)
    await finish(pair, run_id, "n2")
    assert await reader.until("end") == [
        Event(name="end", data={"state": "succeeded", "attempt": 1, "outcome": "succeeded", "reason": None})
    ]


@pytest.mark.parametrize("asked", ["n1", "n2"])
async def test_the_log_of_a_run_that_is_over_is_told_at_once(pair: Pair, asked: str) -> None:
    run = await pair.run_on("n2")
    pair.twins["n2"].logs[run.run_id, 1] = RunLog(attempt=1, output=b"\xff\x00 done")
    await finish(pair, run.run_id, "n2")
    pair.twins["n2"].logs[run.run_id, 1] = RunLog(attempt=1, output=b"\xff\x00 done")
    told = await (await follow(pair.clients[asked], run.run_id)).until("end")
    assert names_of(told) == ["attempt", "log", "end"]
    assert told[1].data["base64"] == "/wAgZG9uZQ=="


async def test_a_run_that_has_not_begun_is_waited_for_with_heartbeats(twin: Twin, twin_api: TestClient) -> None:
    run_id = await queued(twin)
    answer = await twin_api.get(f"/v1/runs/{run_id}/log?follow=1")
    async with asyncio.timeout(WAIT_S):
        assert await answer.content.readuntil(b"\n\n") == b": still here\n\n"
    twin.start(run_id).write(b"hello", ended=True)
    twin.finish(run_id)
    told = await Reader(answer).until("end")
    assert (names_of(told), text_of(told)) == (["attempt", "log", "end"], "hello")


async def test_following_a_run_goes_on_through_its_retries(twin: Twin, twin_api: TestClient) -> None:
    run_id = await queued(twin)
    twin.start(run_id).write(b"first")
    reader = await follow(twin_api, run_id)
    assert text_of(await reader.until("log")) == "first"
    twin.fail(run_id)
    twin.start(run_id).write(b"second", ended=True)
    twin.finish(run_id)
    told = await reader.until("end")
    assert [event.data["attempt"] for event in told] == [2, 2, 2]
    assert text_of(told) == "second"


async def test_following_an_attempt_ends_with_it(twin: Twin, twin_api: TestClient) -> None:
    run_id = await queued(twin)
    twin.start(run_id).write(b"first")
    twin.fail(run_id)
    told = await (await follow(twin_api, run_id, "&attempt=1")).until("end")
    assert text_of(told) == "first"
    assert told[-1].data == {"state": "queued", "attempt": 1, "outcome": "failed", "reason": None}


async def test_a_skipped_run_has_an_end_and_no_output(twin: Twin, twin_api: TestClient) -> None:
    run_id = await queued(twin)
    run = twin.runs_by_id[run_id]
    twin.put_run(msgspec.structs.replace(run, state=RunState.SKIPPED, reason="overlap"))
    told = await (await follow(twin_api, run_id)).until("end")
    assert [event.data for event in told] == [{"state": "skipped", "attempt": 1, "outcome": None, "reason": "overlap"}]


@pytest.mark.parametrize(("query", "position"), [("", "1:3"), ("&attempt=1", "3"), ("&attempt=1", "1:3")])
async def test_a_reader_that_was_cut_off_goes_on_where_it_was(
    twin: Twin, twin_api: TestClient, query: str, position: str
) -> None:
    run_id = await queued(twin)
    twin.start(run_id).write(b"abcdef", ended=True)
    twin.finish(run_id)
    reader = await follow(twin_api, run_id, query, **{"Last-Event-ID": position})
    assert text_of(await reader.until("end")) == "def"


@pytest.mark.parametrize("offset", [6, 7, 10**14])
async def test_beyond_the_end_there_is_nothing_but_the_end(twin: Twin, twin_api: TestClient, offset: int) -> None:
    run_id = await queued(twin)
    twin.start(run_id).write(b"abcdef", ended=True)
    twin.finish(run_id)
    reader = await follow(twin_api, run_id, **{"Last-Event-ID": f"1:{offset}"})
    assert names_of(await reader.until("end")) == ["end"]


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("follow=2", {}, 400),
        ("follow=1&attempt=0", {}, 400),
        ("follow=1&attempt=2", {}, 404),
        ("follow=1&attempt=1000001", {}, 400),
        ("follow=1", {"Last-Event-ID": "x"}, 400),
        ("follow=1", {"Last-Event-ID": "7"}, 400),
        ("follow=1", {"Last-Event-ID": "0:7"}, 400),
        ("follow=1", {"Last-Event-ID": "2:7"}, 404),
        ("follow=1", {"Horae-Forwarded-By": "n2"}, 400),
    ],
)
async def test_what_cannot_be_followed_is_refused_before_anything_is_told(
    twin: Twin, twin_api: TestClient, query: str, headers: dict[str, str], status: int
) -> None:
    run_id = await queued(twin)
    answer = await twin_api.get(f"/v1/runs/{run_id}/log?{query}", headers=headers)
    assert (answer.status, answer.content_type) == (status, "application/problem+json")


@pytest.mark.parametrize("run_id", ["0193f2c00000-01JDAAAAAAAAAAAAAAAAAAAAAA", "..%2F..%2Fetc%2Fpasswd"])
async def test_what_is_no_run_is_not_found(twin_api: TestClient, run_id: str) -> None:
    answer = await twin_api.get(f"/v1/runs/{run_id}/log?follow=1")
    assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_a_node_that_has_gone_is_named(pair: Pair) -> None:
    run = await pair.run_on("n2")
    await finish(pair, run.run_id, "n2")
    del pair.twins["n1"].addresses["n2"]
    answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log?follow=1")
    assert answer.status == 502
    assert "n2" in (await answer.json())["detail"]


@pytest.mark.parametrize("query", ["", "&attempt=1"])
async def test_what_a_node_had_that_has_gone_is_told_by_the_log_store(pair: Pair, query: str) -> None:
    run = await pair.run_on("n2")
    await finish(pair, run.run_id, "n2")
    del pair.twins["n1"].addresses["n2"]
    pair.twins["n1"].stored_logs[run.run_id, 1] = RunLog(attempt=1, output=b"stored")
    told = await (await follow(pair.clients["n1"], run.run_id, query)).until("end")
    assert (names_of(told), text_of(told)) == (["attempt", "log", "end"], "stored")
    answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log?{query}")
    assert (answer.status, await answer.read()) == (200, b"stored")


async def test_a_node_that_dies_while_it_is_followed_is_told_and_the_next_attempt_is_followed_elsewhere(
    pair: Pair,
) -> None:
    run_id, live = await started(pair, "n2")
    live.write(b"before")
    reader = await follow(pair.clients["n1"], run_id)
    assert text_of(await reader.until("log")) == "before"
    await pair.clients["n2"].server.close()
    assert "n2" in (await reader.until("notice"))[-1].data["detail"]
    run = pair.twins["n1"].runs_by_id[run_id]
    lost = Attempt(attempt=1, node="n2", outcome=AttemptOutcome.LOST)
    again = msgspec.structs.replace(run, state=RunState.QUEUED, attempt=2, node=None, attempts=(lost,))
    pair.twins["n1"].put_run(again)
    pair.twins["n1"].start(run_id).write(b"after", ended=True)
    pair.twins["n1"].finish(run_id)
    told = await reader.until("end")
    assert (text_of(told), told[-1].data["attempt"]) == ("after", 2)


async def test_a_reader_that_does_not_read_costs_no_memory_and_is_cut_off(
    twin: Twin, twin_api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "WRITE_S", 0.1)
    taken = 0
    closed = asyncio.Event()

    async def endless(*_: Any, **__: Any) -> AsyncIterator[Any]:
        nonlocal taken
        try:
            while True:
                taken += 1
                yield log_follower.LogPiece(offset=taken * 65_536, data=b"x" * 65_536)
        finally:
            closed.set()

    monkeypatch.setattr(twin, "follow_log", endless)
    run_id = await queued(twin)
    twin.start(run_id)
    answer = await twin_api.get(f"/v1/runs/{run_id}/log?follow=1")
    await asyncio.wait_for(closed.wait(), WAIT_S)
    assert taken < 1_000
    answer.close()


async def test_there_are_no_more_streams_than_a_node_can_bear(
    twin: Twin, twin_api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "STREAMS_MAX", 1)
    run_id = await queued(twin)
    first = await twin_api.get(f"/v1/runs/{run_id}/log?follow=1")
    assert (await twin_api.get(f"/v1/runs/{run_id}/log?follow=1")).status == 429
    first.close()
    async with asyncio.timeout(WAIT_S):  # it is noticed with the next heartbeat that the first has gone
        while (again := await twin_api.get(f"/v1/runs/{run_id}/log?follow=1")).status != 200:
            again.close()
    again.close()


async def test_the_client_takes_a_broken_stream_up_again_at_another_node(pair: Pair) -> None:
    run_id, live = await started(pair, "n2")
    live.write(b"one ")
    urls = ",".join(str(pair.clients[node].make_url("")) for node in ("n1", "n2"))
    async with Client(urls) as client:
        events = client.follow_log(run_id)
        told = [await anext(events), await anext(events)]
        await pair.clients["n1"].server.close()
        live.write(b"two", ended=True)
        await finish(pair, run_id, "n2")
        told += [event async for event in events]
    assert b"".join(event.piece.data for event in told if event.piece is not None) == b"one two"
    assert isinstance(told[-1], LogEvent) and told[-1].data["state"] == "succeeded"


async def test_the_client_says_what_was_refused(pair: Pair) -> None:
    async with Client(str(pair.clients["n1"].make_url(""))) as client:
        with pytest.raises(Refused) as refused:
            await anext(client.follow_log("0193f2c00000-01JDAAAAAAAAAAAAAAAAAAAAAA"))
    assert refused.value.status == 404


async def queued(twin: Twin) -> str:
    draft = JobDraft(name="a", schedule="@every 5s", target=HttpTarget(url="https://a.example"))
    return twin.fire((await twin.create_job(draft)).job_id, NOW_MS).run_id
