"""Webhook messages: taken or not, in bounded time, and to no address that is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from executor.webhook import WebhookSender
from tests.executor.servers import Recorder, serving


@contextlib.asynccontextmanager
async def sender(**fields: float) -> AsyncIterator[WebhookSender]:
    sender = WebhookSender(**fields)  # type: ignore[arg-type]
    yield sender
    await sender.close()


async def test_a_message_arrives_with_its_headers_and_is_taken() -> None:
    recorder = Recorder()
    async with sender() as webhooks, serving(recorder.record) as url:
        headers = {"webhook-id": "1", "Content-Type": "application/json"}
        assert await webhooks.send(f"{url}/hook", b"{}", headers) is None
    [(request, body)] = recorder.requests
    assert (request.method, request.path, body) == ("POST", "/hook", b"{}")
    assert request.headers["webhook-id"] == "1"


@pytest.mark.parametrize(("status", "told"), [(500, "HTTP 500"), (302, "not followed"), (410, "HTTP 410")])
async def test_whatever_is_not_a_success_is_told(status: int, told: str) -> None:
    seen = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        return web.Response(status=status, headers={"Location": "/other"})

    async with sender() as webhooks, serving(answer) as url:
        assert told in str(await webhooks.send(url, b"", {}))
    assert seen == 1


async def test_a_receiver_that_does_not_answer_is_given_up_after_a_while() -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with sender(timeout_s=0.1) as webhooks, serving(hang) as url:
        assert await webhooks.send(url, b"", {}) == "no answer within 0.1 s"


async def test_neither_a_dead_receiver_nor_a_wrong_address_raises() -> None:
    async with sender() as webhooks:
        assert "onnect" in str(await webhooks.send("http://127.0.0.1:1/", b"", {}))
        assert await webhooks.send("http://[", b"", {}) is not None


async def test_link_local_addresses_are_refused_however_the_job_came_by_them() -> None:
    """xxl-job#3375: the scheduler must not be used to call internal addresses."""
    async with sender() as webhooks:
        assert "link-local" in str(await webhooks.send("http://169.254.169.254/", b"", {}))


async def test_closing_what_was_never_used_is_nothing() -> None:
    await WebhookSender().close()
