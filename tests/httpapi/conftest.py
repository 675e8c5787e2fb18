"""Nodes that answer HTTP in the test's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from httpapi.app import build_app
from tests.httpapi.twin import Twin


@pytest.fixture
def twin() -> Twin:
    return Twin()


@pytest.fixture
async def twin_api(twin: Twin) -> AsyncIterator[TestClient]:
    """A client of a node whose scheduler is the `twin` fixture."""
    async with TestClient(TestServer(build_app(twin, node=twin.node))) as client:
        yield client


@pytest.fixture(params=["twin"])
async def api(twin_api: TestClient) -> TestClient:
    """A client of any scheduler that keeps the contract; its time stands at tests.httpapi.twin.NOW_MS."""
    return twin_api
