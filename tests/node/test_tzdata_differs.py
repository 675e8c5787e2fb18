"""Nodes that compute ticks from different time zone data say so."""

from __future__ import annotations

import logging

import pytest

from statemachine.codec import encode_command
from statemachine.commands import OpenSession, RenewSession
from tests.node.conftest import LiveNode


def opening(node: str, tzdata: str, now_ms: int) -> bytes:
    command = OpenSession(
        now_ms=now_ms,
        node=node,
        incarnation=1,
        http="127.0.0.1:1",
        raft="127.0.0.1:2",
        slots=0,
        ahead=0,
        version="0",
        tzdata=tzdata,
    )
    return encode_command(command)


async def test_a_node_warns_once_of_other_data(live: LiveNode, caplog: pytest.LogCaptureFixture) -> None:
    await live.wait_for_session()
    with caplog.at_level(logging.WARNING, logger="node.runtime"):
        await live.log.propose(opening("n2", "2019c", live.clock.wall_ms()))
        for renewal in (1, 2):
            renew = RenewSession(now_ms=live.clock.wall_ms(), node="n2", incarnation=1, renewal=renewal)
            await live.log.propose(encode_command(renew))
        await live.log.propose(opening("n3", "t", live.clock.wall_ms()))
    assert [record.getMessage() for record in caplog.records] == [
        "node n2 computes ticks with tzdata 2019c, this one with t: install the same on all"
    ]
