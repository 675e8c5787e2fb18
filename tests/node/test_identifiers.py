"""ULIDs: sorted by time, rising within a process whatever its clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.identifiers import ALPHABET, ULID_LENGTH, UlidSource, encode_ulid
from statemachine.keys import parse_run_id


def test_the_text_is_that_of_the_specification() -> None:
    assert encode_ulid(1_469_918_176_385, 0) == "01ARYZ6S410000000000000000"
    assert encode_ulid(2**48 - 1, 2**80 - 1) == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.binary(min_size=10, max_size=10))
def test_they_rise_strictly_even_when_the_clock_stands_or_steps_back(times: list[int], same: bytes) -> None:
    clock = iter(times)
    source = UlidSource(wall_ms=lambda: next(clock), random_bytes=lambda count: same)
    made = [source() for _ in times]
    assert made == sorted(set(made))
    assert all(len(one) == ULID_LENGTH and set(one) <= set(ALPHABET) for one in made)


def test_the_randomness_running_out_moves_on_to_the_next_millisecond() -> None:
    source = UlidSource(wall_ms=lambda: 5, random_bytes=lambda count: b"\xff" * count)
    assert [source(), source()] == [encode_ulid(5, 2**80 - 1), encode_ulid(6, 0)]


def test_one_is_fit_to_be_a_job_id_in_a_run_id() -> None:
    assert parse_run_id(f"{5:012x}-{encode_ulid(5, 7)}") is not None
