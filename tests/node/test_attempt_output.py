"""What is kept of an attempt's output: its first part and its last, whatever the pieces it comes in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.attempt_output import HEAD_BYTES_MAX, TAIL_BYTES_MAX, AttemptOutput, cut_line

KEPT_BYTES_MAX = HEAD_BYTES_MAX + TAIL_BYTES_MAX
PIECE = bytes(range(256)) * 256


def test_all_of_a_usual_output_is_kept() -> None:
    output = AttemptOutput()
    for piece in (b"one\n", b"", b"two\n"):
        output.write(piece)
    assert (output.kept(), output.total_bytes, output.cut_bytes) == (b"one\ntwo\n", 8, 0)


@given(sizes=st.lists(st.integers(0, KEPT_BYTES_MAX), min_size=1, max_size=6))
def test_beginning_and_end_are_kept_and_what_is_missing_is_counted(sizes: list[int]) -> None:
    output, whole = AttemptOutput(), b""
    for number, size in enumerate(sizes):
        piece = (PIECE[number:] * (size // len(PIECE) + 2))[:size]
        output.write(piece)
        whole += piece
    cut_bytes = max(len(whole) - KEPT_BYTES_MAX, 0)
    assert (output.total_bytes, output.cut_bytes) == (len(whole), cut_bytes)
    if not cut_bytes:
        assert output.kept() == whole
    else:
        assert output.kept() == whole[:HEAD_BYTES_MAX] + cut_line(cut_bytes) + whole[-TAIL_BYTES_MAX:]


def test_a_gigabyte_in_one_go_costs_what_is_kept() -> None:
    output = AttemptOutput()
    output.write(b"the beginning")
    for _ in range(16):
        output.write(bytes(64 * 1024 * 1024))
    output.write(b"the end")
    kept = output.kept()
    assert kept.startswith(b"the beginning") and kept.endswith(b"the end")
    assert len(kept) == KEPT_BYTES_MAX + len(cut_line(output.cut_bytes))
    assert output.cut_bytes == 13 + 1024**3 + 7 - KEPT_BYTES_MAX
