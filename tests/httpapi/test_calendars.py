"""Calendars over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from httpapi.client import Client, Refused
from tests.httpapi.test_jobs import NOOP, create

DAYS = {"days": ["2026-12-31/2027-01-01", "2026-12-25"], "tz": "Europe/Berlin"}


async def put(api: TestClient, name: str = "x", **changes: Any) -> dict[str, Any]:
    answer = await api.put(f"/v1/calendars/{name}", json=DAYS | changes)
    assert answer.status == 200, await answer.text()
    body: dict[str, Any] = await answer.json()
    return body


async def test_a_calendar_is_set_and_shown(api: TestClient) -> None:
    answer = await api.put("/v1/calendars/x", json=DAYS, headers={"If-Match": '"0"'})
    body = await answer.json()
    assert (answer.status, answer.headers["ETag"]) == (200, '"1"')
    assert body == {
        "name": "x",
        "tz": "Europe/Berlin",
        "days": ["2026-12-25", "2026-12-31/2027-01-01"],
        "version": 1,
        "updated_at": "2026-11-30T01:00:00.000Z",
    }
    shown = await api.get("/v1/calendars/x")
    assert (await shown.json(), shown.headers["ETag"]) == (body, '"1"')
    assert (await api.put("/v1/calendars/x", json=DAYS, headers={"If-Match": '"0"'})).status == 412
    assert (await put(api, days=[]))["version"] == 2


async def test_calendars_are_listed_page_by_page(api: TestClient) -> None:
    for name in "bca":
        await put(api, name)
    first = await (await api.get("/v1/calendars?limit=2")).json()
    assert [one["name"] for one in first["items"]] == ["a", "b"]
    rest = await (await api.get("/v1/calendars", params={"cursor": first["next_cursor"]})).json()
    assert [one["name"] for one in rest["items"]] == ["c"] and rest["next_cursor"] is None


async def test_a_calendar_is_deleted_once_no_job_names_it(api: TestClient) -> None:
    await put(api)
    job_id = (await create(api, exclude_calendars=["x"]))["job_id"]
    assert (await (await api.get(f"/v1/jobs/{job_id}")).json())["exclude_calendars"] == ["x"]
    assert (await api.delete("/v1/calendars/x")).status == 409
    assert (await api.patch(f"/v1/jobs/{job_id}", json={"exclude_calendars": None})).status == 200
    assert (await api.delete("/v1/calendars/x", headers={"If-Match": '"7"'})).status == 412
    assert (await api.delete("/v1/calendars/x")).status == 204
    for method in ("GET", "DELETE"):
        for name in ("x", "y" * 300):
            assert (await api.request(method, f"/v1/calendars/{name}")).status == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "days"),
        ({"days": ["soon"]}, "days[0]"),
        ({"days": [], "tz": "Mars"}, "tz"),
        ({"days": [], "zone": "UTC"}, "zone"),
    ],
)
async def test_what_is_no_calendar_is_refused(api: TestClient, body: dict[str, Any], path: str) -> None:
    answer = await api.put("/v1/calendars/x", json=body)
    assert (answer.status, [error["path"] for error in (await answer.json())["errors"]]) == (422, [path])


async def test_a_job_cannot_name_what_does_not_exist(api: TestClient) -> None:
    answer = await api.post("/v1/jobs", json=NOOP | {"exclude_calendars": ["x"]})
    assert (answer.status, (await answer.json())["errors"][0]["path"]) == (422, "exclude_calendars")


async def test_the_client_knows_calendars(api: TestClient) -> None:
    async with Client(str(api.make_url("/"))) as client:
        made = await client.put_calendar("x", ["2026-12-25"], tz="UTC", version=0)
        assert await client.calendar("x") == made
        assert [one["name"] async for one in client.all_calendars()] == ["x"]
        with pytest.raises(Refused):
            await client.delete_calendar("x", version=9)
        await client.delete_calendar("x", version=1)
