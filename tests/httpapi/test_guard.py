"""What a web page in the browser of the node's owner can not do."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer

from httpapi.app import build_app
from tests.httpapi.twin import Twin

JOB = {"name": "a", "schedule": "@every 5s", "target": {"type": "noop"}}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8101", "127.0.0.1.evil.example", "10.0.0.8", "[", ""])
@pytest.mark.parametrize("path", ["/v1/jobs", "/metrics", "/nowhere"])
async def test_a_rebound_name_is_refused(api: TestClient, host: str, path: str) -> None:
    answer = await api.get(path, headers={"Host": host})
    assert (answer.status, answer.content_type) == (403, "application/problem+json")


@pytest.mark.parametrize("host", ["127.0.0.1:8101", "localhost:9000", "LOCALHOST", "[::1]:8101", "127.8.9.1"])
async def test_loopback_names_are_accepted_at_any_port(api: TestClient, host: str) -> None:
    assert (await api.get("/v1/jobs", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [("10.0.0.8:8101", "horae.example", 200), ("0.0.0.0:8101", "x", 200), ("localhost:8101", "x", 403)],
)
async def test_only_a_node_on_loopback_judges_the_host(twin: Twin, address: str, host: str, status: int) -> None:
    async with TestClient(TestServer(build_app(twin, address=address))) as client:
        assert (await client.get("/v1/jobs", headers={"Host": host})).status == status


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "http://["]
)
async def test_a_write_from_another_origin_is_refused(api: TestClient, origin: str) -> None:
    headers = {"Origin": origin}
    for answer in (
        await api.post("/v1/jobs", json=JOB, headers=headers),
        await api.post("/v1/jobs/a:run", headers=headers),
        await api.delete("/v1/jobs/a", headers=headers),
    ):
        assert answer.status == 403
        assert (await answer.json())["outcome"] == "definite"
    assert (await (await api.get("/v1/jobs")).json())["items"] == []


async def test_a_write_from_the_nodes_own_origin_is_accepted(api: TestClient) -> None:
    origin = str(api.make_url("/").origin())
    assert (await api.post("/v1/jobs", json=JOB, headers={"Origin": origin})).status == 201


async def test_a_read_from_another_origin_gets_no_permission_to_be_seen(api: TestClient) -> None:
    answer = await api.get("/v1/jobs", headers={"Origin": "https://evil.example"})
    assert answer.status == 200
    assert not any(name.lower().startswith("access-control") for name in answer.headers)
