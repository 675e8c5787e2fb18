"""Times, fields and parameters as values, without a server."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from httpapi.fields import build
from httpapi.parsing import decode_json
from httpapi.problem import problem_type
from httpapi.query import parse_instant_ms
from httpapi.render import instant
from node.interface import HoraeError, Invalid, JobDraft, OutcomeUnknown

YEAR_1_MS = -62_135_596_800_000
YEAR_10000_MS = 253_402_300_800_000


@given(st.integers(YEAR_1_MS, YEAR_10000_MS - 1))
def test_an_instant_survives_its_text(unix_ms: int) -> None:
    text = instant(unix_ms)
    assert parse_instant_ms(text) == unix_ms
    assert len(text) == len("2026-11-30T01:00:00.000Z")
    assert text.endswith("Z")


@given(st.integers(0, 4_000_000_000_000), st.integers(-14 * 60, 14 * 60))
def test_any_offset_means_the_same_instant(unix_ms: int, offset_minutes: int) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=offset_minutes))
    moment = datetime.datetime.fromtimestamp(unix_ms / 1000, zone)
    text = moment.isoformat(timespec="milliseconds")
    assert abs(parse_instant_ms(text) - unix_ms) <= 1
    # A '+' that a client forgot to encode arrives as a blank.
    assert parse_instant_ms(text.replace("+", " ")) == parse_instant_ms(text)


@given(st.text(max_size=40))
def test_any_other_text_is_refused_in_a_sentence(text: str) -> None:
    try:
        parse_instant_ms(text)
    except ValueError as fault:
        assert str(fault).startswith(("must", "is not a time"))


Json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
Bodies = st.dictionaries(st.sampled_from(JobDraft.__struct_fields__) | st.text(max_size=8), Json, max_size=8)


@given(Bodies)
def test_any_json_becomes_a_draft_or_named_faults(body: dict[str, Any]) -> None:
    try:
        draft = build(JobDraft, body)
    except Invalid as refusal:
        assert refusal.errors
        assert all(error.path is not None and error.message for error in refusal.errors)
    else:
        assert msgspec.json.decode(msgspec.json.encode(draft), type=JobDraft) == draft


@given(Bodies)
def test_a_draft_is_accepted_exactly_when_its_strict_decoder_accepts_it(body: dict[str, Any]) -> None:
    # The field-by-field way exists for its messages; what it accepts must be what msgspec accepts in one piece.
    try:
        expected = msgspec.convert(body, JobDraft)
    except msgspec.ValidationError:
        with pytest.raises(Invalid):
            build(JobDraft, body)
    else:
        if set(body.get("target", {})) <= {"type", *_target_fields(expected)}:
            assert build(JobDraft, body) == expected


def _target_fields(draft: JobDraft) -> tuple[str, ...]:
    return type(draft.target).__struct_fields__


@given(st.binary(max_size=64))
def test_any_bytes_are_json_or_malformed(body: bytes) -> None:
    try:
        decode_json(body)
    except HoraeError as refusal:
        assert refusal.status == 400


def test_each_class_of_error_has_a_name_for_programs() -> None:
    assert problem_type(OutcomeUnknown()) == "urn:horae:error:outcome-unknown"
