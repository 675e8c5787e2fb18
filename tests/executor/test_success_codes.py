"""The grammar of success_codes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.success_codes import SUCCESS_CODES_CHARS_MAX, parse_success_codes


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("2xx", set(range(200, 300))),
        ("2XX", set(range(200, 300))),
        ("200", {200}),
        ("200,204", {200, 204}),
        (" 200 , 204 ", {200, 204}),
        ("200-202", {200, 201, 202}),
        ("200 - 201,304", {200, 201, 304}),
        ("1xx,599", {*range(100, 200), 599}),
    ],
)
def test_what_is_named_is_a_success(text: str, codes: set[int]) -> None:
    assert parse_success_codes(text) == codes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; write codes"),
        ("  ", "is empty"),
        ("ok", "'ok' is not understood; write codes"),
        ("200,", "'' is not understood"),
        ("6xx", "'6xx' is not understood"),
        ("20x", "'20x' is not understood"),
        ("600", "'600' is outside of 100-599"),
        ("099", "'099' is outside of 100-599"),
        ("200-700", "outside of 100-599"),
        ("299-200", "'299-200' is backwards; write 200-299"),
        ("200;204", "not understood"),
        ("²00", "not understood"),
        ("2xx," * 60, f"longer than {SUCCESS_CODES_CHARS_MAX}"),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        parse_success_codes(text)


@given(st.text(max_size=12))
def test_any_text_is_a_set_of_statuses_or_a_value_error(text: str) -> None:
    try:
        codes = parse_success_codes(text)
    except ValueError:
        return
    assert codes
    assert all(100 <= code <= 599 for code in codes)


@given(st.integers(100, 599), st.integers(100, 599))
def test_a_range_is_its_codes_one_by_one(first: int, last: int) -> None:
    low, high = sorted((first, last))
    assert parse_success_codes(f"{low}-{high}") == set(range(low, high + 1))
