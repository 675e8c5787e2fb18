"""Retry-After, and lines for a person."""

from math import inf

import aiohttp
import pytest

from executor.http_detail import describe_error, retry_after_s
from executor.text import DETAIL_CHARS_MAX, one_line

DATE = "Mon, 30 Nov 2026 01:00:00 GMT"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": " 120 "}, 120.0),
        ({"Retry-After": "9" * 30}, 1e30),
        ({"Retry-After": "9" * 999}, inf),
        ({"Retry-After": "Mon, 30 Nov 2026 01:00:30 GMT", "Date": DATE}, 30.0),
        ({"Retry-After": "Mon, 30 Nov 2026 00:00:00 GMT", "Date": DATE}, 0.0),
        ({"Retry-After": "Wed, 30 Nov 2033 01:00:00 GMT", "Date": DATE}, 2557 * 24 * 3600),
        ({"Retry-After": "Mon, 30 Nov 2026 01:00:30 GMT"}, None),
        ({"Retry-After": "soon", "Date": DATE}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_in_both_forms(status: int, headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(status, headers) == wait_s


@pytest.mark.parametrize("status", [200, 404, 500])
def test_retry_after_counts_for_429_and_503_only(status: int) -> None:
    assert retry_after_s(status, {"Retry-After": "5"}) is None


def test_a_detail_is_one_bounded_printable_line() -> None:
    assert one_line("a\r\n b\t\x1b[31mred\x00") == "a b [31mred"
    assert len(one_line("x" * 10_000)) == DETAIL_CHARS_MAX


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (aiohttp.ConnectionTimeoutError("http://x/?token=s3cret"), "cannot connect: the host does not answer"),
        (RuntimeError("http://x/?token=s3cret"), "the attempt broke off: RuntimeError"),
    ],
)
def test_an_error_is_told_without_the_url(error: Exception, detail: str) -> None:
    assert describe_error(error) == detail
