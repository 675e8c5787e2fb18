"""The client: every call, and what it does when nodes refuse, fall silent or are gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler

from httpapi.app import build_app
from httpapi.client import BadAddress, Client, NoQuorum, Refused, Unreachable
from httpapi.transport import parse_addresses
from node.interface import JobDraft, NoopTarget, Unavailable
from tests.httpapi.twin import NOW_MS, Twin

DRAFT: dict[str, Any] = {"name": "beat", "schedule": "@every 5s", "target": {"type": "noop"}}


@pytest.fixture
async def client(api: TestClient) -> AsyncIterator[Client]:
    async with Client(str(api.make_url("/"))) as client:
        yield client


@pytest.fixture
def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@asynccontextmanager
async def node(twin: Twin) -> AsyncIterator[str]:
    async with TestServer(build_app(twin, node=twin.node)) as server:
        yield f"127.0.0.1:{server.port}"


@asynccontextmanager
async def foreign(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """Something else that speaks HTTP."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        yield f"127.0.0.1:{server.port}"


async def test_a_job_from_its_creation_to_its_end(client: Client) -> None:
    created = await client.create_job(DRAFT)
    job = await client.job(created["job_id"])
    assert (job["name"], job["version"]) == ("beat", 1)
    assert [one["job_id"] async for one in client.all_jobs(team="default", q="beat")] == [created["job_id"]]
    run = await client.run_job(created["job_id"], args={"day": 1})
    assert (await client.run(run["run_id"]))["kind"] == "manual"
    assert [one["run_id"] async for one in client.all_runs(created["job_id"])] == [run["run_id"]]
    assert (await client.cancel_run(run["run_id"], reason="typo"))["reason"] == "cancelled: typo"
    changed = await client.update_job(created["job_id"], DRAFT | {"args": [1]}, version=1)
    assert (changed["args"], changed["version"], changed["effective"]) == ([1], 2, True)
    assert (await client.patch_job(created["job_id"], {"args": [2]}))["args"] == [2]
    assert (await client.pause_job(created["job_id"], reason="why", version=3))["pause_reason"] == "why"
    assert (await client.resume_job(created["job_id"], from_="paused_at"))["state"] == "active"
    assert await client.delete_job(created["job_id"], version=5) == {"job_id": created["job_id"], "effective": True}
    with pytest.raises(Refused) as refusal:
        await client.job(created["job_id"])
    assert (refusal.value.status, refusal.value.definite) == (404, True)


async def test_the_cluster_and_previews(client: Client) -> None:
    cluster = await client.cluster(consistency="local")
    assert cluster["nodes"][0]["node"] == cluster["node"]
    preview = await client.preview(schedule=["0 2 * * *"], tz="UTC", from_="2026-12-01T00:00:00+01:00", n=1)
    assert preview["ticks"] == ["2026-12-01T02:00:00.000Z"]


async def test_ready_returns_or_says_why_not(twin: Twin) -> None:
    async with node(twin) as address, Client(address) as client:
        await client.ready()
        twin.unready = "scheduling has stalled"
        with pytest.raises(NoQuorum, match="scheduling has stalled"):
            await client.ready()


async def test_runs_are_filtered_and_paged(twin: Twin, twin_api: TestClient) -> None:
    async with Client(str(twin_api.make_url("/"))) as client:
        job_id = (await client.create_job(DRAFT))["job_id"]
        runs = [twin.fire(job_id, NOW_MS + number * 1000).run_id for number in range(3)]
        twin.finish(runs[1], output=b"done\n")
        page = await client.runs(job_id, states=["succeeded", "dead"], from_="2026-11-30T02:00:00+01:00", limit=5)
        assert [run["run_id"] for run in page["items"]] == [runs[1]]
        assert (await client.runs(job_id, to="2026-11-30T01:00:00Z"))["items"] == []
        assert await client.run_log(runs[1], attempt=1) == b"done\n"


async def test_all_pages_are_followed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("httpapi.client.LIST_LIMIT_MAX", 2)
    for name in "abcde":
        await client.create_job(DRAFT | {"name": name})
    assert sorted([job["name"] async for job in client.all_jobs()]) == list("abcde")


async def test_a_refusal_carries_the_problem(client: Client) -> None:
    with pytest.raises(Refused) as refusal:
        await client.create_job(DRAFT | {"timeout": 3})
    assert refusal.value.status == 422
    assert refusal.value.errors[0]["path"] == "timeout"
    assert refusal.value.problem["outcome"] == "definite"


async def test_the_callers_key_is_kept(client: Client) -> None:
    first = await client.create_job(DRAFT, idempotency_key="k")
    assert await client.create_job(DRAFT | {"idempotency_key": "k"}) == first


async def test_the_callers_key_of_a_run_is_kept(twin: Twin) -> None:
    async with node(twin) as address, Client(address) as client:
        job_id = (await client.create_job(DRAFT))["job_id"]
        run = await client.run_job(job_id, idempotency_key="r")
        assert (await client.run_job(job_id, idempotency_key="r"))["run_id"] == run["run_id"]


async def test_a_dead_address_is_passed_over_and_then_left_alone(twin: Twin, closed_address: str) -> None:
    async with node(twin) as address, Client(f"{closed_address},{address}") as client:
        await client.create_job(DRAFT)
        assert client.address == f"http://{address}"


async def test_a_node_without_a_quorum_is_passed_over(twin: Twin) -> None:
    cut_off = Twin(node="n2")
    cut_off.broken = Unavailable()
    async with node(cut_off) as first, node(twin) as second, Client(f"{first},{second}") as client:
        assert (await client.create_job(DRAFT))["version"] == 1


async def test_no_quorum_anywhere_is_one_error(twin: Twin, closed_address: str) -> None:
    twin.broken = Unavailable()
    async with node(twin) as address, Client(f"{closed_address},{address}") as client:
        with pytest.raises(NoQuorum) as refusal:
            await client.create_job(DRAFT)
        assert refusal.value.definite
        assert str(refusal.value) == Unavailable.__doc__


async def test_nobody_there_is_definite(closed_address: str) -> None:
    async with Client(closed_address) as client:
        with pytest.raises(Unreachable) as silence:
            await client.create_job(DRAFT)
    assert silence.value.definite
    assert closed_address in str(silence.value)


async def test_a_lost_answer_is_asked_again_under_the_same_key(twin: Twin) -> None:
    async with node(twin) as real:

        async def lose_the_answer(request: web.Request) -> web.StreamResponse:
            async with Client(real) as inner:
                await inner.create_job(await request.json(), idempotency_key=request.headers["Idempotency-Key"])
            assert request.transport is not None
            request.transport.close()
            return web.Response()

        async with foreign(lose_the_answer) as lossy, Client(f"{lossy},{real}") as client:
            created = await client.create_job(DRAFT)
    assert list(twin.jobs_by_id) == [created["job_id"]]


async def test_a_delete_whose_answer_was_lost_is_done(twin: Twin) -> None:
    async with node(twin) as real:
        async with Client(real) as client:
            job_id = (await client.create_job(DRAFT))["job_id"]

        async def lose_the_answer(request: web.Request) -> web.StreamResponse:
            twin.mark_deleted(job_id)
            assert request.transport is not None
            request.transport.close()
            return web.Response()

        async with foreign(lose_the_answer) as lossy, Client(f"{lossy},{real}") as client:
            assert await client.delete_job(job_id) == {"job_id": job_id, "effective": False}
            with pytest.raises(Refused):
                await client.delete_job(job_id)


async def test_a_delete_that_the_library_repeats_is_done(twin: Twin) -> None:
    job_id = (await twin.create_job(JobDraft(name="a", schedule="@daily", target=NoopTarget()))).job_id

    @web.middleware
    async def lose_the_first_answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if request.method == "DELETE" and response.status == 200:
            assert request.transport is not None
            request.transport.close()
        return response

    app = build_app(twin)
    app.middlewares.insert(0, lose_the_first_answer)
    async with TestServer(app) as server, Client(f"127.0.0.1:{server.port}") as client:
        await client.delete_job(job_id)
    assert twin.jobs_by_id[job_id].deleted_ms is not None


@pytest.mark.parametrize(("method", "definite"), [("GET", True), ("POST", False)])
async def test_silence_after_a_write_is_indefinite(method: str, definite: bool) -> None:
    release = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    async with foreign(hang) as address, Client(address, timeout_s=0.05) as client:
        with pytest.raises(Unreachable, match="no answer within") as silence:
            await (client.cluster() if method == "GET" else client.create_job(DRAFT))
        release.set()
    assert silence.value.definite is definite


@pytest.mark.parametrize("status", [200, 302, 404, 502, 503, 599])
async def test_what_is_not_horae_is_an_error_of_ours(status: int) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>hello</html>" * 100, status=status, content_type="text/html")

    async with foreign(page) as address, Client(address) as client:
        with pytest.raises((Refused, Unreachable)) as failure:
            await client.create_job(DRAFT)
    assert len(str(failure.value)) < 300
    assert not failure.value.definite


@pytest.mark.parametrize("text", ["", " , ", "ftp://a", "http://", "http://a:port", "http://a:99999", "http://[x"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_addresses(text)


def test_addresses_are_read_with_and_without_scheme() -> None:
    assert parse_addresses("a:8101, https://b/,http://[::1]:8101") == (
        "http://a:8101",
        "https://b",
        "http://[::1]:8101",
    )
