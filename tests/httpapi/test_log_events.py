"""Pieces of output as events, and back: nothing is lost or torn, whatever bytes and pieces there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from httpapi.log_events import (
    HEARTBEAT,
    Event,
    PieceEncoder,
    Position,
    encoded,
    parse_position,
    piece_of,
    read_events,
)
from node.interface import LogPiece

TEXT = "grüße, 世界 🌍\n".encode()


def events_of(pieces: list[LogPiece], *, offset: int = 0) -> list[Event]:
    encoder = PieceEncoder(1, offset)
    return [event for piece in pieces for event in encoder.events(piece)] + list(encoder.flush())


def cut_into(output: bytes, places: list[int]) -> list[LogPiece]:
    edges = sorted({0, len(output), *(place % (len(output) + 1) for place in places)})
    return [LogPiece(offset=begin, data=output[begin:end]) for begin, end in pairwise(edges)]


async def decoded(stream: bytes, chunk: int = 7) -> list[Event | None]:
    async def chunks() -> AsyncIterator[bytes]:
        for begin in range(0, len(stream), chunk):
            yield stream[begin : begin + chunk]

    return [event async for event in read_events(chunks())]


@given(output=st.one_of(st.binary(max_size=60), st.text(max_size=30).map(str.encode)), places=st.lists(st.integers(0)))
@example(output=TEXT, places=list(range(len(TEXT))))
@example(output=b"\xf0\x9f", places=[1])
def test_nothing_is_lost_on_the_way(output: bytes, places: list[int]) -> None:
    sent = events_of(cut_into(output, places))
    received = asyncio.run(decoded(b"".join(encoded(event) for event in sent)))
    assert received == sent
    pieces = [piece_of(event) for event in received if event is not None]
    assert b"".join(piece.data for piece in pieces) == output
    for piece, event in zip(pieces, sent, strict=True):
        assert event.id == f"1:{piece.offset + len(piece.data)}"


@given(places=st.lists(st.integers(0, len(TEXT))))
def test_text_stays_text_wherever_it_is_cut(places: list[int]) -> None:
    assert "".join(event.data["text"] for event in events_of(cut_into(TEXT, places))) == TEXT.decode()


def test_what_is_no_text_comes_as_base64_and_a_gap_is_counted() -> None:
    told = events_of([LogPiece(offset=10, data=b"a\xff"), LogPiece(offset=20, data=b"b\xc3")], offset=10)
    assert [event.data for event in told] == [
        {"attempt": 1, "offset": 10, "base64": "Yf8="},
        {"attempt": 1, "offset": 20, "text": "b", "cut_bytes": 8},
        {"attempt": 1, "offset": 21, "base64": "ww=="},
    ]


@pytest.mark.parametrize("text", ["", "x", "-1", "1:", ":1", "1:2:3", "1:-2", "9" * 16, "1\n"])
def test_what_is_no_position_is_none(text: str) -> None:
    assert parse_position(text) is None


def test_a_position_names_an_attempt_or_not() -> None:
    assert parse_position("2:70") == Position(attempt=2, offset=70)
    assert parse_position("70") == Position(offset=70)


async def test_heartbeats_are_told_as_nothing() -> None:
    end = Event(name="end", data={"a": 1})
    assert await decoded(HEARTBEAT + encoded(end)) == [None, end]


@pytest.mark.parametrize("stream", [b"event: log\ndata: {\n\n", b"\xff\n\n", b"x" * 2_000_000])
async def test_what_is_no_stream_of_ours_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError):
        await decoded(stream, chunk=100_000)


@pytest.mark.parametrize(
    "data", [None, [], {}, {"offset": 0}, {"offset": "x", "text": "a"}, {"offset": 0, "base64": "!"}]
)
def test_an_event_without_output_is_refused(data: object) -> None:
    with pytest.raises(ValueError):
        piece_of(Event(name="log", data=data))
