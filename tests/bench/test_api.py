"""The bench's client: another node when one cannot say, and no repeat of what was refused."""

import asyncio

import pytest
from aiohttp import web

from bench.api import Api, Refused, spread


async def serve(handler: object) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_a_call_goes_on_until_a_node_can_say() -> None:
    asked: list[str] = []

    async def unavailable(request: web.Request) -> web.Response:
        asked.append("a")
        return web.json_response({}, status=503)

    async def fine(request: web.Request) -> web.Response:
        asked.append("b")
        return web.json_response(await request.json(), status=201)

    (one, url_a), (two, url_b) = await serve(unavailable), await serve(fine)
    async with Api({"a": url_a, "b": url_b, "gone": "http://127.0.0.1:1"}) as api:
        assert await api.call("POST", "/v1/jobs", json={"x": 1}) == {"x": 1}
        assert asked == ["a", "b"]
        with pytest.raises(TimeoutError):
            await api.call("GET", "/", node="a", retry_for_s=0.05)
    await asyncio.gather(one.cleanup(), two.cleanup())


async def test_what_is_refused_is_not_asked_again() -> None:
    asked = 0

    async def refuse(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"title": "no"}, status=422)

    runner, url = await serve(refuse)
    async with Api({"a": url}) as api:
        with pytest.raises(Refused, match=r"422.*no"):
            await api.call("POST", "/v1/jobs", json={})
    await runner.cleanup()
    assert asked == 1


async def test_pages_are_followed_to_the_end() -> None:
    async def page(request: web.Request) -> web.Response:
        start = int(request.query.get("cursor", "0"))
        return web.json_response({"items": [{"n": start}], "next_cursor": str(start + 1) if start < 2 else None})

    runner, url = await serve(page)
    async with Api({"a": url}) as api:
        assert await api.pages("/v1/jobs?limit=1") == [{"n": 0}, {"n": 1}, {"n": 2}]
    await runner.cleanup()


async def test_spread_keeps_the_order_and_the_limit() -> None:
    under_way = most = 0

    async def work(item: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return item * 2

    assert await spread(range(50), work, at_once=4) == [item * 2 for item in range(50)]
    assert most == 4
    assert await spread([], work) == []
