"""Output comes out of its frames as it went in, however the stream is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.engine_frames import Frames, NotFrames

written = st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.binary(max_size=40)), max_size=8)


def framed(pieces: list[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4) + data for stream, data in pieces)


@given(pieces=written, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_of_the_stream_gives_the_same_bytes(pieces: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = framed(pieces)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = Frames()
    out = [piece for start, end in pairwise(edges) for piece in frames.feed(stream[start:end])]
    assert b"".join(out) == b"".join(data for _, data in pieces)


def test_a_frame_is_handed_out_as_it_arrives() -> None:
    """A frame may be long: nothing waits for its end."""
    frames = Frames()
    assert list(frames.feed(b"\1\0\0\0\0\0\0\5abc")) == [b"abc"]
    assert list(frames.feed(b"de\2\0\0\0\0\0\0\1f")) == [b"de", b"f"]


@pytest.mark.parametrize("head", [b"hello wo", b"\4\0\0\0\0\0\0\1", b"\1\0\1\0\0\0\0\1"])
def test_what_is_in_no_frames_is_refused(head: bytes) -> None:
    with pytest.raises(NotFrames):
        list(Frames().feed(head))
