"""Teams over HTTP: settings with a version, and a limit on jobs."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from httpapi.client import Client, Refused

NOOP: dict[str, Any] = {"name": "beat", "team": "billing", "schedule": "@every 5s", "target": {"type": "noop"}}


async def put(api: TestClient, settings: Any, *, team: str = "billing", **headers: str) -> Any:
    return await api.put(f"/v1/teams/{team}", json=settings, headers=headers)


async def test_settings_are_put_and_shown(api: TestClient) -> None:
    answer = await put(api, {"max_concurrent": 10, "weight": 3, "max_jobs": 500})
    assert answer.status == 200, await answer.text()
    body = await answer.json()
    assert list(body) == [
        *("team", "max_concurrent", "weight", "max_jobs", "notify", "keep_runs", "keep_days"),
        *("version", "jobs", "claims", "updated_at"),
    ]
    assert body == {
        "team": "billing",
        "max_concurrent": 10,
        "weight": 3,
        "max_jobs": 500,
        "notify": None,
        "keep_runs": None,
        "keep_days": None,
        "version": 1,
        "jobs": 0,
        "claims": 0,
        "updated_at": "2026-11-30T01:00:00.000Z",
    }
    assert answer.headers["ETag"] == '"1"'
    shown = await api.get("/v1/teams/billing")
    assert (await shown.json(), shown.headers["ETag"]) == (body, '"1"')
    assert "Horae-Applied-Index" in shown.headers


async def test_what_is_left_out_goes_back_to_its_default(api: TestClient) -> None:
    await put(api, {"max_concurrent": 10, "weight": 3})
    body = await (await put(api, {"weight": 5})).json()
    assert (body["max_concurrent"], body["weight"], body["version"]) == (None, 5, 2)


async def test_if_match_makes_changes_compare_and_sets(api: TestClient) -> None:
    assert (await put(api, {}, **{"If-Match": '"1"'})).status == 412
    assert (await put(api, {}, **{"If-Match": '"0"'})).status == 200
    assert (await put(api, {}, **{"If-Match": '"0"'})).status == 412
    assert (await api.delete("/v1/teams/billing", headers={"If-Match": '"2"'})).status == 412
    assert (await api.delete("/v1/teams/billing", headers={"If-Match": '"1"'})).status == 204
    assert (await api.delete("/v1/teams/billing")).status == 404


async def test_a_team_with_jobs_alone_has_the_defaults(api: TestClient) -> None:
    assert (await api.get("/v1/teams/billing")).status == 404
    assert (await api.post("/v1/jobs", json=NOOP)).status == 201
    body = await (await api.get("/v1/teams/billing")).json()
    assert (body["jobs"], body["version"], body["weight"], body["updated_at"]) == (1, 0, 1, None)


async def test_teams_are_listed_page_after_page(api: TestClient) -> None:
    await api.post("/v1/jobs", json=NOOP)
    for team in ("analytics", "zoo"):
        await put(api, {}, team=team)
    first = await (await api.get("/v1/teams?limit=2")).json()
    assert [one["team"] for one in first["items"]] == ["analytics", "billing"]
    rest = await (await api.get(f"/v1/teams?limit=2&cursor={first['next_cursor']}")).json()
    assert ([one["team"] for one in rest["items"]], rest["next_cursor"]) == (["zoo"], None)
    assert (await api.get("/v1/teams?cursor=x")).status == 400
    assert (await api.get("/v1/teams?team=a")).status == 400


async def test_max_jobs_refuses_a_create_and_names_the_limit(api: TestClient) -> None:
    """(M9) A repeat of a create that was accepted is still answered."""
    await put(api, {"max_jobs": 1})
    assert (await api.post("/v1/jobs", json=NOOP | {"idempotency_key": "k"})).status == 201
    refused = await api.post("/v1/jobs", json=NOOP | {"name": "second"})
    problem = await refused.json()
    assert (refused.status, problem["errors"][0]["path"], problem["outcome"]) == (409, "team", "definite")
    assert "max_jobs" in problem["detail"] and "may have 1 jobs" in problem["detail"]
    assert (await api.post("/v1/jobs", json=NOOP | {"idempotency_key": "k"})).status == 200
    assert (await api.post("/v1/jobs", json=NOOP | {"team": "other"})).status == 201


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"max_concurrent": -1}, "max_concurrent"),
        ({"max_concurrent": "many"}, "max_concurrent"),
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"max_jobs": -1}, "max_jobs"),
        ({"max_job": 1}, "max_job"),
        ({"keep_runs": 0}, "keep_runs"),
        ({"keep_days": 401}, "keep_days"),
        ({"notify": {"on": ["dead"]}}, "notify.url"),
        ({"notify": {"urls": "http://a"}}, "notify.urls"),
    ],
)
async def test_a_field_that_cannot_be_accepted_is_named(api: TestClient, settings: Any, path: str) -> None:
    answer = await put(api, settings)
    assert (answer.status, (await answer.json())["errors"][0]["path"]) == (422, path)


async def test_what_jobs_do_that_say_nothing_themselves_is_kept_with_the_team(api: TestClient) -> None:
    settings = {"notify": {"url": "https://alerts.example/"}, "keep_runs": 100, "keep_days": 30}
    body = await (await put(api, settings)).json()
    assert body["notify"]["on"] == ["dead", "recovered"]
    assert (body["keep_runs"], body["keep_days"]) == (100, 30)


async def test_a_name_that_no_team_can_have(api: TestClient) -> None:
    answer = await put(api, {}, team="-red")
    assert (answer.status, (await answer.json())["errors"][0]["path"]) == (422, "team")
    for path in ("/v1/teams/%20", f"/v1/teams/{'x' * 300}"):
        assert (await api.get(path)).status == 404
        assert (await api.delete(path)).status == 404


async def test_the_client(api: TestClient) -> None:
    async with Client(str(api.make_url("/"))) as client:
        assert (await client.put_team("red", {"weight": 2}, version=0))["version"] == 1
        await client.put_team("blue", {})
        assert (await client.team("red", consistency="local"))["weight"] == 2
        assert [one["team"] async for one in client.all_teams()] == ["blue", "red"]
        await client.delete_team("red", version=1)
        with pytest.raises(Refused, match="no team red"):
            await client.team("red")
