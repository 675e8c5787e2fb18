"""What to write instead of one field, or of one item of its list, that was refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from node.schedule_fields import HOUR, MINUTE, WEEKDAY, FieldKind, Refused, parse_field, parse_item

_NUMBER = r"\d{1,9}"
_SPAN = re.compile(rf"(\*|{_NUMBER}|[a-z]{{3}})(?:-({_NUMBER}|[a-z]{{3}}))?(?:/({_NUMBER}))?")
_SLIPS = [
    (re.compile(r"\.\d*|_"), ""),
    (re.compile(r"^(\d+)(?:st|nd|rd|th)$"), r"\1"),
    (re.compile(r"(?<=[0-9a-z*])[^-0-9a-z*?,/#()~]+(?=[0-9a-z*])"), ","),  # 1;2 is two values and never 12
    (re.compile(r"[^-0-9a-z*?,/#()~]"), ""),
    (re.compile(r"/{2,}"), "/"),
    (re.compile(r"/-"), "/"),
    (re.compile(r"(/\d+)\D.*$"), r"\1"),
    (re.compile(r"/[a-z].*$"), ""),
    (re.compile(r"-{2,}"), "-"),
    (re.compile(r"^([^-]+)-.*-([^-]+)$"), r"\1-\2"),
    (re.compile(r"^-|[-/]$"), ""),
    (re.compile(r"\*{2,}"), "*"),
    (re.compile(r"^[/?]"), "*/"),
]
_SPELLINGS = [
    (re.compile(r"^r(?=$|[/(])"), "h"),
    (re.compile(r"^w(\d+)$"), r"\1w"),
    (re.compile(r"^wl$"), "lw"),
    (re.compile(r"^l(\d)$"), r"\1l"),
    (re.compile(r"^l(\d+)$"), r"l-\1"),
    (re.compile(r"^(l(?:-\d+)?)[^-\d].*$"), r"\1"),
    (re.compile(r"^l-\d+$"), "l"),
    (re.compile(r"^(\d+)w.+$"), r"\1w"),
    (re.compile(r"^(\w+)#0*$"), r"\1#1"),
    (re.compile(r"^(\w+)#.*$"), r"\1l"),
    (re.compile(r"^(?:.*-)?l$"), "6l"),
    (re.compile(r"^(.+)-l$"), r"\1-31"),
    (re.compile(r"^h.*$|^.*~.*$"), "h"),
    (re.compile(r"^\?.*$"), "*"),
]


def mended_field(kind: FieldKind, text: str) -> str:
    """A text that this field accepts: the given one if it is right, else one like it, else a plain value."""
    if _accepted(kind, text):
        return text
    items = dict.fromkeys(_mended_item(kind, item) for item in text.split(","))
    mended = ",".join(item for item in items if item)
    if mended and _accepted(kind, mended):
        return mended
    return "0" if kind in (MINUTE, HOUR) else "*"


def _mended_item(kind: FieldKind, text: str) -> str:
    """An item of one or more values, or nothing when it cannot be told what was meant."""
    for guess in _item_guesses(kind, text):
        if guess and all(_reads(kind, item) for item in guess.split(",")):
            return _as_written(guess)
    return ""


def _item_guesses(kind: FieldKind, text: str) -> Iterator[str]:
    yield text
    plain = text.lower()
    for slip, right in _SLIPS:
        plain = slip.sub(right, plain)
    plain = re.sub(r"[a-z]{4,}", lambda word: word[0][:3] if word[0][:3] in kind.names else word[0], plain)
    yield plain
    yield _weekdays_of_month(kind, plain)
    yield from _hashed(kind, plain)
    for spelling, right in _SPELLINGS:
        if spelling.search(plain):
            yield spelling.sub(right, plain)
    yield _span(kind, plain)


def _hashed(kind: FieldKind, text: str) -> Iterator[str]:
    """`a~b` of cronie is a random value of a range, `a~b/n` a random start; `H(a-b)` and `H(a-b)/n` are stable ones."""
    ends = re.fullmatch(r"(\w*)~(\w*)(/\d+)?(?:/.*)?", text)
    if ends is None:
        return
    span = f"({ends[1] or kind.first}-{ends[2] or kind.last})" if ends[1] or ends[2] else ""
    yield f"h{span}{ends[3] or ''}"
    yield f"h{span}"


def _weekdays_of_month(kind: FieldKind, text: str) -> str:
    """`1-3#2`: each weekday of the range needs its own `#`."""
    found = re.fullmatch(r"(.*-.*)#(\d)", text)
    if kind is not WEEKDAY or found is None:
        return ""
    days = _numbers(kind, _span(kind, found[1]))
    return ",".join(f"{day}#{found[2]}" for day in days)


def _numbers(kind: FieldKind, text: str) -> list[int]:
    span = re.fullmatch(r"(\d)-(\d)", text)
    return list(range(int(span[1]), int(span[2]) + 1)) if span else []


def _span(kind: FieldKind, text: str) -> str:
    """A value, range or step whose numbers were wrong, with numbers that are right."""
    found = _SPAN.fullmatch(text)
    if found is None or not all(_known(kind, end) for end in found.groups()[:2]):
        return ""
    if found[1] == "*":
        return _stepped(kind, kind.first, kind.last, found[3], bare="*")
    first = _number(kind, found[1], alone=found[2] is None)
    last = _number(kind, found[2] or found[1], alone=found[2] is None)
    if found[2] is None and found[3] is not None:
        last = kind.last
    if kind is WEEKDAY and last == 0 and first > 0:
        last = 7
    if last < first:
        return _wrapped(kind, first, last, int(found[3] or 1) or 1)
    return _stepped(kind, first, last, found[3], bare=str(first) if first == last else f"{first}-{last}")


def _stepped(kind: FieldKind, first: int, last: int, step: str | None, *, bare: str) -> str:
    if step is None or int(step) == 0:
        return bare
    # A step beyond the range leaves its first value: that is what crons do which accept it.
    return f"{bare}/{int(step)}" if int(step) <= last - first else str(first)


def _wrapped(kind: FieldKind, first: int, last: int, step: int) -> str:
    """A range that runs over the end of its field, as the two ranges or the values that it means."""
    end = 6 if kind is WEEKDAY else kind.last
    if step == 1:
        return f"{_range(first, end)},{_range(kind.first, last)}" if first <= end else _range(kind.first, last)
    size = end - kind.first + 1
    values = {(value - kind.first) % size + kind.first for value in range(first, last + size + 1, step)}
    return ",".join(map(str, sorted(values)))


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _known(kind: FieldKind, text: str | None) -> bool:
    return text is None or text == "*" or text.isdigit() or text in kind.names


def _number(kind: FieldKind, text: str, *, alone: bool) -> int:
    if text in kind.names:
        return kind.names[text]
    number = int(text)
    if alone and number == kind.last + 1 and kind in (MINUTE, HOUR):
        return 0  # 24 o'clock, minute 60
    return min(max(number, kind.first), kind.last)


def _as_written(text: str) -> str:
    """Letters that are no names in the case in which they are usually written: 15W, L, 5L, friL, H/15."""
    text = re.sub(r"^([a-z]{3})l$", r"\1L", text)
    return re.sub(r"(?<![a-z])[hlw]+(?![a-z])", lambda letters: letters[0].upper(), text)


def _reads(kind: FieldKind, item: str) -> bool:
    try:
        parse_item(kind, item)
    except Refused:
        return False
    return True


def _accepted(kind: FieldKind, text: str) -> bool:
    try:
        parse_field(kind, text)
    except Refused:
        return False
    return True
