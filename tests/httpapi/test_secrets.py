"""A target's signing secret goes in and never comes out again."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from node.interface import HttpTarget
from tests.httpapi.twin import Twin

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TARGET = {"type": "http", "url": "https://a.example/hook", "signing_secret": SECRET}


def draft(**target: Any) -> dict[str, Any]:
    return {"name": "a", "schedule": "@every 5s", "target": TARGET | target}


async def test_no_answer_shows_it(api: TestClient) -> None:
    created = await api.post("/v1/jobs", json=draft())
    assert created.status == 201, await created.text()
    job_id = (await created.json())["job_id"]
    made = await (await api.post(f"/v1/jobs/{job_id}:run")).json()
    paths = ["/v1/jobs", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/runs", f"/v1/runs/{made['run_id']}", "/v1/cluster"]
    texts = [await (await api.get(path)).text() for path in (*paths, "/metrics")] + [await created.text()]
    assert not [text for text in texts if SECRET.removeprefix("whsec_") in text]
    job = await (await api.get(f"/v1/jobs/{job_id}")).json()
    assert job["target"]["signing_secret"] == "whsec_********"
    again = await api.post("/v1/jobs", json=draft(url="https://b.example"))
    assert again.status == 409
    assert SECRET not in await again.text()


async def test_a_target_without_one_says_so(api: TestClient) -> None:
    job_id = (await (await api.post("/v1/jobs", json=draft(signing_secret=None))).json())["job_id"]
    assert (await (await api.get(f"/v1/jobs/{job_id}")).json())["target"]["signing_secret"] is None


async def test_a_patch_of_something_else_keeps_it(twin: Twin, twin_api: TestClient) -> None:
    job_id = (await (await twin_api.post("/v1/jobs", json=draft())).json())["job_id"]
    for patch in ({"priority": 9}, {"target": {"url": "https://b.example"}}):
        changed = await twin_api.patch(f"/v1/jobs/{job_id}", json=patch)
        assert changed.status == 200, await changed.text()
        assert (await changed.json())["target"]["signing_secret"] == "whsec_********"
        target = twin.jobs_by_id[job_id].target
        assert isinstance(target, HttpTarget) and target.signing_secret == SECRET
    removed = await twin_api.patch(f"/v1/jobs/{job_id}", json={"target": {"signing_secret": None}})
    assert (await removed.json())["target"]["signing_secret"] is None


@pytest.mark.parametrize("secret", ["whsec_!s3cret", "s3cret", 7, ["s3cret"], "whsec_********"])
async def test_no_refusal_repeats_it(api_of: Any, secret: Any) -> None:
    api = await api_of("service")
    answer = await api.post("/v1/jobs", json=draft(signing_secret=secret))
    assert answer.status == 422
    assert (await answer.json())["errors"][0]["path"] == "target.signing_secret"
    assert "s3cret" not in await answer.text()
