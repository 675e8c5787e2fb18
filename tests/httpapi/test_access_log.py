"""The access log: off unless asked for, and structured."""

from __future__ import annotations

import logging

import pytest
from aiohttp.test_utils import TestClient, TestServer

from httpapi.app import build_app
from tests.httpapi.twin import Twin


async def test_requests_are_logged_with_their_values_as_fields(twin: Twin, caplog: pytest.LogCaptureFixture) -> None:
    app = build_app(twin, access_log=True)
    with caplog.at_level(logging.INFO, logger="horae.http.access"):
        async with TestClient(TestServer(app)) as client:
            await client.get("/v1/jobs")
            await client.get("/nowhere")
    records = [record.__dict__ for record in caplog.records if record.name == "horae.http.access"]
    assert [(record["method"], record["path"], record["status"]) for record in records] == [
        ("GET", "/v1/jobs", 200),
        ("GET", "/nowhere", 404),
    ]
    assert all(record["duration_ms"] >= 0 for record in records)


async def test_nothing_is_logged_by_default(twin_api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="horae"):
        await twin_api.get("/v1/jobs")
    assert [record for record in caplog.records if record.name.startswith("horae")] == []
