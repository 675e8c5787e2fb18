"""The leadership is handed over by the node that has it, whichever node was asked."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient

from httpapi.forwarding import FORWARDED_HEADER
from tests.httpapi.conftest import Pair


@pytest.mark.parametrize("asked", ["n1", "n2"])
@pytest.mark.parametrize("body", [None, {}, {"to": "n2"}])
async def test_any_node_passes_the_wish_on_to_the_leader(pair: Pair, asked: str, body: object) -> None:
    pair.twins["n2"].leader = "n1"
    answer = await pair.clients[asked].post("/v1/cluster:transfer", json=body)
    assert (answer.status, await answer.json()) == (200, {"leader": "n2"})
    assert pair.twins["n1"].leader == "n2"


async def test_a_wish_that_was_passed_on_once_goes_no_further(pair: Pair) -> None:
    """Each believes that the other one leads, as for a moment after an election."""
    pair.twins["n1"].leader, pair.twins["n2"].leader = "n2", "n1"
    answer = await pair.clients["n1"].post("/v1/cluster:transfer")
    assert (answer.status, (await answer.json())["outcome"]) == (503, "definite")
    direct = await pair.clients["n1"].post("/v1/cluster:transfer", headers={FORWARDED_HEADER: "n2"})
    assert direct.status == 503


async def test_a_leader_that_has_gone_is_named_and_nothing_happens(pair: Pair) -> None:
    pair.twins["n2"].leader = "n1"
    del pair.twins["n2"].addresses["n1"]
    answer = await pair.clients["n2"].post("/v1/cluster:transfer")
    assert (answer.status, (await answer.json())["outcome"]) == (503, "definite")


async def test_whoever_is_no_member_cannot_lead(api: TestClient) -> None:
    answer = await api.post("/v1/cluster:transfer", json={"to": "n9"})
    assert answer.status == 422
    (error,) = (await answer.json())["errors"]
    assert error["path"] == "to" and "member" in error["message"]
