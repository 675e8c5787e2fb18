"""Changes of a job over HTTP: replace, patch, pause, resume, and what each answers."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from httpapi.app import build_app
from httpapi.merge_patch import merge
from httpapi.routes_job_changes import PATCH_TRIES_MAX
from node.interface import JobChanged, JobDraft, PreconditionFailed
from tests.httpapi.test_jobs import EXAMPLE, NOOP, create
from tests.httpapi.twin import Twin


async def shown(api: TestClient, job_id: str) -> dict[str, Any]:
    body: dict[str, Any] = await (await api.get(f"/v1/jobs/{job_id}")).json()
    return body


async def test_a_put_replaces_the_definition_whole(api: TestClient) -> None:
    job_id = (await create(api, labels={"a": "b"}))["job_id"]
    answer = await api.put(f"/v1/jobs/{job_id}", json=NOOP | {"args": 1}, headers={"If-Match": '"1"'})
    body = await answer.json()
    assert (answer.status, answer.headers["ETag"]) == (200, '"2"')
    assert (body["args"], body["labels"], body["version"], body["effective"]) == (1, {}, 2, True)
    del body["effective"]
    assert body == await shown(api, job_id)
    again = await api.put(f"/v1/jobs/{job_id}", json=NOOP | {"args": 1})
    assert (again.status, again.headers["ETag"]) == (200, '"2"'), "the same definition is no change"
    stale = await api.put(f"/v1/jobs/{job_id}", json=NOOP, headers={"If-Match": '"1"'})
    assert stale.status == 412


async def test_what_is_shown_of_a_job_can_be_put_back(api: TestClient) -> None:
    """Edit what GET answered, and PUT it: the fields of a definition are the body."""
    created = await (await api.post("/v1/jobs", json=EXAMPLE)).json()
    body = await shown(api, created["job_id"])
    names = set(JobDraft.__struct_fields__) - {"idempotency_key"}
    draft = {name: value for name, value in body.items() if name in names and value is not None}
    answer = await api.put(f"/v1/jobs/{created['job_id']}", json=draft)
    assert (answer.status, answer.headers["ETag"]) == (200, '"1"')


async def test_a_put_is_checked_as_a_create_is(api: TestClient) -> None:
    job_id = (await create(api))["job_id"]
    await create(api, name="other")
    for body, status, path in (
        (NOOP | {"nmae": "x"}, 422, "nmae"),
        (NOOP | {"team": "red"}, 422, "team"),
        (NOOP | {"idempotency_key": "k"}, 422, "idempotency_key"),
        (NOOP | {"priority": 11}, 422, "priority"),
        (NOOP | {"name": "other"}, 409, "name"),
    ):
        answer = await api.put(f"/v1/jobs/{job_id}", json=body)
        problem = await answer.json()
        assert (answer.status, [error["path"] for error in problem["errors"]]) == (status, [path])
        assert problem["outcome"] == "definite"
    assert (await api.put("/v1/jobs/nothing", json=NOOP)).status == 404


async def test_a_patch_changes_some_fields_and_takes_others_back(api: TestClient) -> None:
    created = await (await api.post("/v1/jobs", json=EXAMPLE)).json()
    path = f"/v1/jobs/{created['job_id']}"
    patch = {"timeout_s": 5, "max_retries": None, "target": {"headers": {"X-Env": None, "X-B": "c"}}, "args": {"x": 1}}
    answer = await api.patch(path, json=patch, headers={"Content-Type": "application/merge-patch+json"})
    body = await answer.json()
    assert answer.status == 200, body
    assert (body["timeout_s"], body["max_retries"], body["tz"]) == (5, 3, "Europe/Berlin")
    assert body["target"]["headers"] == {"X-B": "c"}
    assert body["args"] == {"kind": "daily", "x": 1}
    assert (body["version"], body["effective"]) == (2, True)
    assert (await api.patch(path, json={"timeout_s": 6}, headers={"If-Match": '"1"'})).status == 412
    assert (await api.patch(path, json={"timeout_s": 6}, headers={"If-Match": '"2"'})).status == 200


async def test_a_patch_may_name_another_kind_of_target(api: TestClient) -> None:
    created = await (await api.post("/v1/jobs", json=EXAMPLE)).json()
    answer = await api.patch(f"/v1/jobs/{created['job_id']}", json={"target": {"type": "noop"}})
    assert (answer.status, (await answer.json())["target"]) == (200, {"type": "noop"})


@pytest.mark.parametrize(
    ("patch", "path"),
    [([], ""), ({"nmae": "x"}, "nmae"), ({"name": None}, "name"), ({"idempotency_key": "k"}, "idempotency_key")],
)
async def test_a_patch_that_means_nothing_is_refused(api: TestClient, patch: Any, path: str) -> None:
    job_id = (await create(api))["job_id"]
    answer = await api.patch(f"/v1/jobs/{job_id}", json=patch)
    assert answer.status == 422
    assert [error["path"] for error in (await answer.json())["errors"]] == [path]
    assert (await shown(api, job_id))["version"] == 1


class Restless(Twin):
    """Somebody else changes the job just before each update."""

    changes = 0

    async def update_job(self, job_id: str, draft: JobDraft, *, expected_version: int | None = None) -> JobChanged:
        if self.changes:
            self.changes -= 1
            raise PreconditionFailed
        return await super().update_job(job_id, draft, expected_version=expected_version)


async def test_a_patch_without_a_version_is_merged_anew_if_the_job_changed_meanwhile() -> None:
    twin = Restless()
    async with TestClient(TestServer(build_app(twin, node="n1"))) as api:
        path = f"/v1/jobs/{(await create(api))['job_id']}"
        for changes, status in ((1, 200), (PATCH_TRIES_MAX, 503)):
            twin.changes = changes
            assert (await api.patch(path, json={"args": changes})).status == status
        twin.changes = 1
        assert (await api.patch(path, json={"args": 7}, headers={"If-Match": '"2"'})).status == 412


def test_merging_is_that_of_the_rfc() -> None:
    """The examples of RFC 7396, appendix A, whose target and patch are objects."""
    for target, patch, result in (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ):
        assert merge(target, patch) == result


async def test_a_job_is_paused_and_resumed(api: TestClient) -> None:
    """(M4)"""
    created = await create(api)
    path = f"/v1/jobs/{created['job_id']}"
    before = await shown(api, created["job_id"])
    assert (before["state"], before["paused_at"], before["pause_reason"]) == ("active", None, None)
    answer = await api.post(f"{path}:pause", json={"reason": "flood"})
    body = await answer.json()
    assert (answer.status, answer.headers["ETag"], body["effective"]) == (200, '"2"', True)
    assert (body["state"], body["paused_at"], body["pause_reason"]) == ("paused", "2026-11-30T01:00:00.000Z", "flood")
    assert body["next_run_at"] is None
    again = await (await api.post(f"{path}:pause")).json()
    assert again == body, "a paused job stays as it is"
    resumed = await (await api.post(f"{path}:resume", json={"from": "paused_at"})).json()
    assert (resumed["state"], resumed["next_run_at"]) == ("active", created["next_run_at"])
    assert (await (await api.post(f"{path}:resume")).json())["version"] == resumed["version"] == 3


async def test_an_update_leaves_a_job_paused(api: TestClient) -> None:
    path = f"/v1/jobs/{(await create(api))['job_id']}"
    await api.post(f"{path}:pause", json={"reason": "x"})
    body = await (await api.patch(path, json={"args": 1})).json()
    assert (body["state"], body["pause_reason"], body["next_run_at"]) == ("paused", "x", None)


async def test_the_same_key_pauses_once(api: TestClient) -> None:
    path, key = f"/v1/jobs/{(await create(api))['job_id']}", {"Idempotency-Key": "k"}
    await api.post(f"{path}:pause", headers=key)
    await api.post(f"{path}:resume")
    late = await api.post(f"{path}:pause", headers=key)
    assert (late.status, (await late.json())["state"]) == (200, "active")
    assert (await api.post(f"{path}:pause", json={"reason": "other"}, headers=key)).status == 409


@pytest.mark.parametrize(
    ("verb", "body", "path"),
    [
        (":pause", {"reason": "x" * 501}, "reason"),
        (":pause", {"reason": "a\nb"}, "reason"),
        (":pause", {"why": "x"}, "why"),
        (":resume", {"from": "then"}, "from"),
        (":resume", {"since": "now"}, "since"),
    ],
)
async def test_what_a_pause_or_resume_cannot_mean_is_refused(
    api: TestClient, verb: str, body: dict[str, str], path: str
) -> None:
    job = f"/v1/jobs/{(await create(api))['job_id']}"
    answer = await api.post(job + verb, json=body)
    assert (answer.status, [error["path"] for error in (await answer.json())["errors"]]) == (422, [path])
    stale = await api.post(job + verb, headers={"If-Match": '"9"'})
    assert (stale.status, (await api.post("/v1/jobs/nothing" + verb)).status) == (412, 404)


async def test_a_change_that_is_not_effective_yet_says_so(twin: Twin, twin_api: TestClient) -> None:
    twin.effective = False
    path = f"/v1/jobs/{(await create(twin_api))['job_id']}"
    assert (await (await twin_api.put(path, json=NOOP | {"args": 1})).json())["effective"] is False
    assert (await (await twin_api.post(f"{path}:pause")).json())["effective"] is False
    assert (await (await twin_api.delete(path)).json())["effective"] is False
