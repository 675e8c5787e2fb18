"""The log of an attempt: from this node, from another one, and never round in circles."""

from __future__ import annotations

import socket

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from node.interface import RunLog
from tests.httpapi.conftest import Pair


@pytest.mark.parametrize("asked", ["n1", "n2"])
async def test_any_node_shows_the_log(pair: Pair, asked: str) -> None:
    run = await pair.run_on("n2")
    pair.twins["n2"].logs[run.run_id, 1] = RunLog(attempt=1, output="grüße\n".encode(), cut_bytes=7)
    for query in ("", "?attempt=1"):
        answer = await pair.clients[asked].get(f"/v1/runs/{run.run_id}/log{query}")
        assert (answer.status, await answer.text()) == (200, "grüße\n")
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["Horae-Attempt"] == "1"
        assert answer.headers["Horae-Log-Truncated"] == "true"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_output_that_is_no_text_is_passed_as_it_is(pair: Pair) -> None:
    run = await pair.run_on("n2")
    output = bytes(range(256)) * 256
    pair.twins["n2"].logs[run.run_id, 1] = RunLog(attempt=1, output=output)
    assert await (await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log")).read() == output


@pytest.mark.parametrize("asked", ["n1", "n2"])
async def test_an_attempt_without_output_has_an_empty_log(pair: Pair, asked: str) -> None:
    run = await pair.run_on("n2")
    for query in ("", "?attempt=1"):
        answer = await pair.clients[asked].get(f"/v1/runs/{run.run_id}/log{query}")
        assert (answer.status, answer.content_type, await answer.read()) == (200, "text/plain", b"")
        assert (answer.headers["Horae-Attempt"], answer.headers["Horae-Log-Truncated"]) == ("1", "false")


@pytest.mark.parametrize("asked", ["n1", "n2"])
async def test_only_what_never_was_is_not_found(pair: Pair, asked: str) -> None:
    run = await pair.run_on("n2")
    for path in (f"/v1/runs/{run.run_id}/log?attempt=9", "/v1/runs/0193f2c00000-01JDAAAAAAAAAAAAAAAAAAAAAA/log"):
        answer = await pair.clients[asked].get(path)
        assert (answer.status, answer.content_type) == (404, "application/problem+json")
        assert "attempt 9" in (await answer.json())["detail"] or "run" in (await answer.json())["detail"]


async def test_the_log_of_an_attempt_under_way_is_asked_of_its_node(pair: Pair) -> None:
    run = await pair.run_on("n2")
    for twin in pair.twins.values():
        twin.put_run(msgspec.structs.replace(run, attempts=()))
    answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log?attempt=1")
    assert (answer.status, await answer.read()) == (200, b"")


async def test_two_nodes_that_point_at_each_other_do_not_loop(pair: Pair) -> None:
    run = await pair.run_on("n2")
    # n2 believes that n1 has it, as after a botched restore.
    pair.twins["n2"].put_run(
        msgspec.structs.replace(run, attempts=(msgspec.structs.replace(run.attempts[0], node="n1"),))
    )
    answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log")
    assert answer.status == 404


async def test_a_node_that_has_gone_is_named(pair: Pair) -> None:
    run = await pair.run_on("n2")
    del pair.twins["n1"].addresses["n2"]
    answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log")
    assert answer.status == 502
    assert "n2" in (await answer.json())["detail"]


async def test_a_node_that_does_not_answer_is_named(pair: Pair) -> None:
    run = await pair.run_on("n2")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        pair.twins["n1"].addresses["n2"] = f"127.0.0.1:{closed.getsockname()[1]}"
    answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log")
    assert answer.status == 502
    assert "n2" in (await answer.json())["detail"]


async def test_an_endless_answer_of_a_node_is_cut_off(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("httpapi.forwarding.PEER_BYTES_MAX", 1000)
    run = await pair.run_on("n2")
    app = web.Application()

    async def flood(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 2000)

    app.router.add_get("/{path:.*}", flood)
    async with TestServer(app) as server:
        pair.twins["n1"].addresses["n2"] = f"127.0.0.1:{server.port}"
        answer = await pair.clients["n1"].get(f"/v1/runs/{run.run_id}/log")
        assert answer.status == 502
