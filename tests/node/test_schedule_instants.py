"""Instants as text: RFC 3339 in, and wall times of a zone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.schedule import InvalidSchedule, instant_text, parse_run_at
from node.zones import FIRST_S, LAST_S


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-07-01T12:00:00Z", "2026-07-01T12:00:00Z"),
        ("2026-07-01t12:00:00z", "2026-07-01T12:00:00Z"),
        ("2026-07-01 12:00:00+02:00", "2026-07-01T10:00:00Z"),
        ("2026-07-01T12:00:00-03:30", "2026-07-01T15:30:00Z"),
        ("2026-07-01T12:00:00-00:00", "2026-07-01T12:00:00Z"),
        ("2026-07-01T12:00:00", "2026-07-01T10:00:00Z"),
        ("2026-01-01T12:00:00", "2026-01-01T11:00:00Z"),
        ("2026-03-29T02:30:00", "2026-03-29T01:00:00Z"),
        ("2026-03-29T02:59:59.999", "2026-03-29T01:00:00.999Z"),
        ("2026-03-29T03:00:00", "2026-03-29T01:00:00Z"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
        ("2026-10-25T03:00:00", "2026-10-25T02:00:00Z"),
        ("2026-07-01T12:00:00.5Z", "2026-07-01T12:00:00.500Z"),
        ("2026-07-01T12:00:00.0019Z", "2026-07-01T12:00:00.001Z"),
        ("2026-07-01T12:00:00.0019999999999999999Z", "2026-07-01T12:00:00.001Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2017-01-01T00:59:60+01:00", "2017-01-01T00:00:00Z"),
        ("2017-01-01T00:59:60", "2017-01-01T00:00:00Z"),
        ("2015-06-30T23:59:60.5Z", "2015-07-01T00:00:00.500Z"),
        ("1969-12-31T23:59:59.250Z", "1969-12-31T23:59:59.250Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("9999-12-31T23:59:59", "9999-12-31T22:59:59Z"),
    ],
)
def test_a_time_without_an_offset_is_a_wall_time_of_the_zone(text: str, instant: str) -> None:
    assert instant_text(parse_run_at(text, "Europe/Berlin")) == instant


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("2026-07-01", "2026-07-01T00:00:00"),
        ("20260701", "2026-07-01T00:00:00"),
        ("2026-07-01T12:30", "2026-07-01T12:30:00"),
        ("2026-07-01T12:30Z", "2026-07-01T12:30:00Z"),
        ("20260701T123015Z", "2026-07-01T12:30:15Z"),
        ("2026/7/1 9:05", "2026-07-01T09:05:00"),
        ("2026-07-01T12:00:15,5-03:30", "2026-07-01T12:00:15-03:30"),
        ("2026-07-01 12:00:00 UTC", "2026-07-01T12:00:00Z"),
        ("2026-07-01T12:00:00Z[Europe/Berlin]", "2026-07-01T12:00:00Z"),
        ("2026-07-01T12:00:00\u221202:00", "2026-07-01T12:00:00-02:00"),
        ("2026-02-30T00:00:00Z", "2026-02-28T00:00:00Z"),
        ("2026-07-31T24:00:00Z", "2026-08-01T00:00:00Z"),
        ("2026-07-01T23:59:60Z", "2026-07-01T23:59:59Z"),
        ("2026-06-30T23:58:60Z", "2026-06-30T23:58:59Z"),
        ("2026-06-30T23:59:61Z", "2026-06-30T23:59:59Z"),
        ("2026-07-01T00:00:60", "2026-07-01T00:00:59"),
        ("9999-12-31T23:59:60Z", "9000-12-31T23:59:59Z"),
        ("2026-07-01T12:00:00+0200", "2026-07-01T12:00:00+02:00"),
        ("2026-07-01T12:00:00+02", "2026-07-01T12:00:00+02:00"),
        ("2026-07-01T12:00:00+24:00", "2026-07-01T12:00:00"),
        ("2026-07-01T12:00:00+02:60", "2026-07-01T12:00:00"),
        ("0000-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-01:00", "9000-12-31T23:59:59-01:00"),
        ("10000-01-01T00:00:00Z", "2030-01-31T09:00:00Z"),
        ("1782907200", "2026-07-01T12:00:00Z"),
        ("1782907200123", "2026-07-01T12:00:00Z"),
        ("tomorrow", "2030-01-31T09:00:00Z"),
        ("", "2030-01-31T09:00:00Z"),
        ("\uff12\uff10\uff12\uff16-07-01T12:00:00Z", "2030-01-31T09:00:00Z"),
        ("2026-07-01T12:00:00Z" + " " * 99, "2026-07-01T12:00:00Z"),
    ],
)
def test_any_other_time_is_refused_with_one_that_works(text: str, remedy: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_run_at(text, "Europe/Berlin")
    assert (refused.value.field, refused.value.remedy) == ("run_at", remedy)
    parse_run_at(remedy, "Europe/Berlin")


def test_the_caller_names_the_field() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_run_at("soon", "UTC", field="starts_at")
    assert refused.value.field == "starts_at"


@pytest.mark.parametrize("text", ["2026-07-01T12:00:00Z", "2026-07-01T12:00:00"])
def test_an_unknown_zone_is_refused_even_if_the_time_needs_none(text: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse_run_at(text, "Europe/Atlantis")
    assert refused.value.field == "tz"


@given(st.integers(FIRST_S * 1000, LAST_S * 1000))
def test_what_is_written_is_read_back(at_ms: int) -> None:
    text = instant_text(at_ms)
    assert parse_run_at(text, "America/St_Johns") == at_ms
    assert len(text) in (20, 24)
