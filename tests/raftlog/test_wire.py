"""Frames: cut right whatever the pieces, refused when too long, and only plain values come out."""

from __future__ import annotations

import pickle
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.wire import (
    COMPACT_BYTES_MIN,
    HANDSHAKE_FRAME_BYTES_MAX,
    FrameParser,
    FrameTooLarge,
    WireError,
    frame,
    pack,
    unpack,
)

LIMIT_BYTES = 1000
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def frames_of(parser: FrameParser) -> list[bytes]:
    return list(iter(parser.next_frame, None))


@given(st.lists(st.binary(max_size=200)), st.data())
def test_a_stream_cut_anywhere_gives_the_same_frames(contents: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(content, LIMIT_BYTES) for content in contents)
    parser = FrameParser(LIMIT_BYTES)
    seen: list[bytes] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        parser.feed(stream[:cut])
        stream = stream[cut:]
        seen += frames_of(parser)
    assert seen == contents
    assert parser.pending_bytes == 0


@given(st.binary(min_size=1, max_size=300), st.integers(1, 20))
def test_garbage_never_holds_more_than_one_frame_and_what_was_fed(garbage: bytes, piece: int) -> None:
    parser = FrameParser(64)
    try:
        for start in range(0, len(garbage), piece):
            parser.feed(garbage[start : start + piece])
            assert all(len(content) <= 64 for content in frames_of(parser))
            assert parser.pending_bytes < 64 + 4 + piece
    except FrameTooLarge:
        pass


def test_a_frame_over_the_limit_is_refused_at_its_length_already() -> None:
    parser = FrameParser(HANDSHAKE_FRAME_BYTES_MAX)
    parser.feed((HANDSHAKE_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(FrameTooLarge):
        parser.next_frame()


def test_the_limit_may_be_raised_between_two_frames() -> None:
    parser = FrameParser(4)
    parser.feed(frame(b"1234", 4) + frame(b"12345", 5))
    assert parser.next_frame() == b"1234"
    parser.limit_bytes = 5
    assert parser.next_frame() == b"12345"


def test_a_frame_that_the_other_side_must_refuse_is_not_made() -> None:
    with pytest.raises(FrameTooLarge):
        frame(b"12345", 4)


def test_consumed_bytes_are_given_back_while_a_frame_is_incomplete() -> None:
    parser = FrameParser(COMPACT_BYTES_MIN * 2)
    parser.feed(frame(bytes(COMPACT_BYTES_MIN), COMPACT_BYTES_MIN) + b"\0")
    assert len(frames_of(parser)) == 1
    assert len(parser._buffer) == 1


@given(plain_values)
def test_plain_values_survive(value: Any) -> None:
    assert unpack(pack(value)) == value


@given(st.binary(max_size=400))
def test_any_bytes_are_a_plain_value_or_refused(content: bytes) -> None:
    try:
        value = unpack(content)
    except WireError:
        return
    assert_plain(value)


def assert_plain(value: Any) -> None:
    if type(value) is list:
        for item in value:
            assert_plain(item)
    elif type(value) is dict:
        for key, item in value.items():
            assert type(key) in (str, bytes)
            assert_plain(item)
    else:
        assert type(value) in (type(None), bool, int, float, str, bytes)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pack([1])[:-1],
        pack(1) + pack(2),
        msgpack.packb(msgpack.ExtType(5, b"x")),
        msgpack.packb({1: 2}),
        msgpack.packb({"a": 1}).replace(b"\xa1a", b"\x91\x01"),
        b"\x91" * 5000 + b"\xc0",
        b"\xdd\xff\xff\xff\xff",
        b"\xa1\xff",
        pickle.dumps({"type": "x"}),
    ],
    ids=[
        "empty", "truncated", "trailing", "extension", "number as key", "list as key", "deep",
        "huge array", "bad text", "pickle",
    ],
)  # fmt: skip
def test_what_is_not_a_message_is_refused(content: bytes) -> None:
    with pytest.raises(WireError):
        unpack(content)


def test_a_timestamp_is_no_more_than_a_number() -> None:
    assert unpack(msgpack.packb(msgpack.Timestamp(1))) == 1.0
