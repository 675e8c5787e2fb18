"""Which HTTP statuses count as success: a list of codes, ranges and classes, such as "2xx", "200,204" or
"200-299,304"."""

from __future__ import annotations

import re
from functools import lru_cache

SUCCESS_CODES_CHARS_MAX = 200
STATUS_MIN, STATUS_MAX = 100, 599

_CLASS = re.compile(r"([1-5])xx", re.IGNORECASE)
_CODE = re.compile(r"\d{3}")
_RANGE = re.compile(r"(\d{3})\s*-\s*(\d{3})")
_FORMS = "write codes (200), ranges (200-299) or classes (2xx), separated by commas"


@lru_cache(maxsize=1024)
def parse_success_codes(text: str) -> frozenset[int]:
    """The statuses that `text` names. Raises ValueError, its message saying what to write instead."""
    if len(text) > SUCCESS_CODES_CHARS_MAX:
        raise ValueError(f"is longer than {SUCCESS_CODES_CHARS_MAX} characters")
    if not text.strip():
        raise ValueError(f"is empty; {_FORMS}")
    return frozenset(code for item in text.split(",") for code in _parse_item(item.strip()))


def _parse_item(item: str) -> range:
    if match := _CLASS.fullmatch(item):
        first = int(match[1]) * 100
        return range(first, first + 100)
    if _CODE.fullmatch(item):
        return _checked(int(item), int(item), item)
    if match := _RANGE.fullmatch(item):
        return _checked(int(match[1]), int(match[2]), item)
    raise ValueError(f"{item!r} is not understood; {_FORMS}")


def _checked(first: int, last: int, item: str) -> range:
    if not STATUS_MIN <= first <= STATUS_MAX or not STATUS_MIN <= last <= STATUS_MAX:
        raise ValueError(f"{item!r} is outside of {STATUS_MIN}-{STATUS_MAX}")
    if first > last:
        raise ValueError(f"{item!r} is backwards; write {last}-{first}")
    return range(first, last + 1)
