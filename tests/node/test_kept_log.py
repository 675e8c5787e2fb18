"""A log at rest: a gzip file, and what it says about what is missing."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.kept_log import HEAD_BYTES_MAX, TAIL_BYTES_MAX, DamagedLog, KeptLog, cut_line, packed, unpacked

CUT = KeptLog(head=b"first\n", tail=b"\xff\x00last", cut_bytes=12)


@given(head=st.binary(max_size=300), tail=st.binary(max_size=300), cut_bytes=st.integers(0, 2**40))
def test_what_was_packed_is_unpacked(head: bytes, tail: bytes, cut_bytes: int) -> None:
    log = KeptLog(head=head, tail=tail, cut_bytes=cut_bytes)
    assert unpacked(packed(log)) == log
    assert gzip.decompress(packed(log)) == log.text()


def test_where_something_is_missing_the_text_says_how_much() -> None:
    assert CUT.text() == b"first\n\n[horae: 12 bytes are not kept]\n\xff\x00last"
    assert cut_line(0) == b""


def test_the_longest_log_fits() -> None:
    longest = KeptLog(head=b"h" * HEAD_BYTES_MAX, tail=b"t" * TAIL_BYTES_MAX, cut_bytes=10**14)
    assert unpacked(packed(longest)) == longest


@pytest.mark.parametrize(
    ("offset", "read"),
    [
        (0, (0, b"first\n")),
        (4, (4, b"t\n")),
        (6, (18, b"\xff\x00last")),
        (17, (18, b"\xff\x00last")),
        (20, (20, b"last")),
        (24, (24, b"")),
        (999, (999, b"")),
    ],
)
def test_it_is_read_from_any_place_of_what_was_put_out(offset: int, read: tuple[int, bytes]) -> None:
    assert CUT.read(offset) == read
    assert (CUT.total_bytes, CUT.kept_bytes) == (24, 12)


BOMB = packed(KeptLog(head=b"x" * (4 * HEAD_BYTES_MAX)))


@pytest.mark.parametrize(
    "data",
    [b"", b"x", gzip.compress(b"not ours", mtime=0), packed(CUT)[:-3], packed(CUT)[:-8] + b"\0" * 8, BOMB],
    ids=["empty", "short", "of others", "cut off", "wrong sum", "too large"],
)
def test_what_is_damaged_or_no_log_at_all_is_said_so_and_never_fills_the_memory(data: bytes) -> None:
    with pytest.raises(DamagedLog):
        unpacked(data)
