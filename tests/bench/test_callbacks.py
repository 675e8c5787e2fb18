"""B2: the sink that is called, and what is made of its count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bench.bare_client import send
from bench.callbacks import callback_figures
from bench.sink import ANSWER, Arrivals, SinkConnection
from node.clock import SystemClock

POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnull"


class Wire:
    """A transport that remembers what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


def connected(arrivals: Arrivals) -> tuple[SinkConnection, Wire]:
    connection, wire = SinkConnection(arrivals), Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]
    return connection, wire


@pytest.mark.parametrize("size", [1, 7, len(POST), 1000])
def test_requests_are_counted_however_they_are_cut(size: int) -> None:
    arrivals = Arrivals(SystemClock())
    connection, wire = connected(arrivals)
    stream = POST * 3
    for start in range(0, len(stream), size):
        connection.data_received(stream[start : start + size])
    assert (arrivals.count, wire.written) == (3, [ANSWER] * 3)
    assert 0 < arrivals.first_s <= arrivals.last_s


def test_the_count_can_be_asked_for_and_forgotten() -> None:
    arrivals = Arrivals(SystemClock())
    connection, wire = connected(arrivals)
    connection.data_received(POST + b"GET / HTTP/1.1\r\n\r\n")
    assert json.loads(wire.written[1].partition(b"\r\n\r\n")[2])["count"] == 1
    connection.data_received(b"DELETE / HTTP/1.1\r\n\r\n")
    assert json.loads(arrivals.as_json()) == {"count": 0, "first_s": 0.0, "last_s": 0.0}


@pytest.fixture
async def sink() -> AsyncIterator[tuple[str, Arrivals]]:
    arrivals = Arrivals(SystemClock())
    server = await asyncio.get_running_loop().create_server(lambda: SinkConnection(arrivals), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", arrivals


async def test_the_bare_client_sends_as_many_as_it_is_told(sink: tuple[str, Arrivals]) -> None:
    url, arrivals = sink
    assert await send(url, 300) > 0
    assert arrivals.count == 300


def test_our_rate_counts_from_the_due_second() -> None:
    arrivals = {"count": 1000, "first_s": 100.2, "last_s": 102.0}
    figures = callback_figures(
        {"not succeeded": 0, "jobs created per s": 9}, arrivals, due_s=100.0, jobs=1000, bare_s=0.8
    )
    assert (figures["callbacks per s"], figures["bare client's per s"]) == (500, 1250)
    assert figures["bare client's rate / ours"] == 2.5
    assert (figures["requests beyond one a run"], figures["not succeeded"]) == (0, 0)
    assert "jobs created per s" not in figures
