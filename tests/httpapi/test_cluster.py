"""The cluster's state, previews, probes and metrics."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient

from tests.httpapi.twin import Twin


async def test_the_cluster_has_exactly_the_fields_of_the_example(twin: Twin, twin_api: TestClient) -> None:
    answer = await twin_api.get("/v1/cluster")
    body = await answer.json()
    assert list(body) == ["cluster_id", "node", "leader", "term", "applied_index", "quorum", "tzdata", "nodes"]
    assert list(body["nodes"][0]) == [
        *("node", "http", "raft", "role", "live", "buckets", "running", "slots"),
        *("kind_slots", "tags", "applied_index"),
        *("skew_s", "disk_low", "version"),
    ]
    assert (body["node"], body["term"], body["quorum"]) == ("n1", 7, True)
    assert answer.headers["Horae-Applied-Index"] == str(body["applied_index"])


@pytest.mark.parametrize("consistency", ["linearizable", "local"])
async def test_the_cluster_is_there_in_both_consistencies(api: TestClient, consistency: str) -> None:
    body = await (await api.get("/v1/cluster", params={"consistency": consistency})).json()
    assert body["nodes"][0]["node"] == body["node"]


async def test_a_schedule_is_previewed(api: TestClient) -> None:
    query = {"schedule": "0 2 * * *", "tz": "Europe/Berlin", "from": "2026-12-01T00:00:00Z", "n": "3"}
    body = await (await api.get("/v1/schedules:preview", params=query)).json()
    assert body["ticks"] == ["2026-12-01T01:00:00.000Z", "2026-12-02T01:00:00.000Z", "2026-12-03T01:00:00.000Z"]
    assert (body["schedule"], body["tz"]) == (["0 2 * * *"], "Europe/Berlin")
    assert body["description"]


async def test_a_preview_has_ten_ticks_from_now_in_utc(api: TestClient) -> None:
    body = await (await api.get("/v1/schedules:preview?schedule=@every%205s")).json()
    assert len(body["ticks"]) == 10
    assert body["ticks"][0] == "2026-11-30T01:00:05.000Z"
    assert (body["tz"], body["jitter_s"]) == ("UTC", 0.0)


async def test_several_schedules_are_previewed_as_their_union(api: TestClient) -> None:
    answer = await api.get("/v1/schedules:preview?schedule=0+2+*+*+*&schedule=30+1+*+*+*&n=2&tz=UTC")
    assert (await answer.json())["ticks"] == ["2026-11-30T01:30:00.000Z", "2026-11-30T02:00:00.000Z"]


async def test_the_schedule_of_a_job_is_previewed(api: TestClient) -> None:
    draft = {"name": "a", "schedule": "0 2 * * *", "tz": "Europe/Berlin", "target": {"type": "noop"}}
    job_id = (await (await api.post("/v1/jobs", json=draft)).json())["job_id"]
    body = await (await api.get("/v1/schedules:preview", params={"job_id": job_id, "n": "1"})).json()
    assert body["ticks"] == ["2026-12-01T01:00:00.000Z"]
    assert (body["schedule"], body["tz"]) == (["0 2 * * *"], "Europe/Berlin")
    assert (await api.get("/v1/schedules:preview?job_id=nothere")).status == 404


@pytest.mark.parametrize(
    ("query", "path"),
    [("schedule=nonsense", "schedule"), ("schedule=0+2+*+*+*&tz=Mars/Olympus", "tz")],
)
async def test_a_schedule_that_means_nothing_is_refused_by_field(api: TestClient, query: str, path: str) -> None:
    answer = await api.get(f"/v1/schedules:preview?{query}")
    assert answer.status == 422
    assert (await answer.json())["errors"][0]["path"].startswith(path)


async def test_the_preview_of_a_one_off_is_its_one_tick(api: TestClient) -> None:
    draft = {"name": "a", "run_at": "2027-01-01T00:00:00Z", "target": {"type": "noop"}}
    job_id = (await (await api.post("/v1/jobs", json=draft)).json())["job_id"]
    body = await (await api.get(f"/v1/schedules:preview?job_id={job_id}")).json()
    assert (body["ticks"], body["schedule"]) == (["2027-01-01T00:00:00.000Z"], [])


async def test_a_node_that_lives_says_so(api: TestClient) -> None:
    answer = await api.get("/healthz")
    assert (answer.status, await answer.json()) == (200, {"status": "ok"})


async def test_a_node_is_ready_or_says_why_not(twin: Twin, twin_api: TestClient) -> None:
    answer = await twin_api.get("/readyz")
    assert (answer.status, await answer.json()) == (200, {"status": "ready"})
    twin.unready = "no quorum for 3.2 s"
    answer = await twin_api.get("/readyz")
    assert (answer.status, answer.content_type) == (503, "application/problem+json")
    assert (await answer.json())["detail"] == "no quorum for 3.2 s"


async def test_metrics_are_passed_as_they_are(twin: Twin, twin_api: TestClient) -> None:
    answer = await twin_api.get("/metrics")
    body, content_type = twin.metrics_text()
    assert (await answer.read(), answer.headers["Content-Type"]) == (body, content_type)


async def test_metrics_are_there(api: TestClient) -> None:
    assert (await (await api.get("/metrics")).text()).strip()
