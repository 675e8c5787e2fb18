"""Query parameters → values. Every fault is named, an unknown one too: a typo must not become 'no filter'."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import cast

from aiohttp import web

from httpapi.fields import ERRORS_MAX, did_you_mean, shorten, wrong_choice
from node.interface import (
    CURSOR_LENGTH_MAX,
    LIST_LIMIT_DEFAULT,
    LIST_LIMIT_MAX,
    Consistency,
    FieldError,
    Malformed,
    RunState,
)

TEXT_LENGTH_MAX = 1024
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.]\d{1,9})?)?(?P<offset>[Zz]|(?P<sign>[+ -])\d\d:?\d\d)?", re.ASCII
)


class Query:
    """The query of one request. Read the parameters, then call `done`, which raises Malformed with all faults at once.

    Each reader takes the parameter's name and answers a harmless default where the value is wrong."""

    def __init__(self, request: web.Request, known: Sequence[str]) -> None:
        self._values = request.query
        self._errors = [
            FieldError(path=shorten(name), message=f"unknown parameter{did_you_mean(name, known)}")
            for name in dict.fromkeys(request.query)
            if name not in known
        ]

    def done(self) -> None:
        if self._errors:
            raise Malformed("Some query parameters cannot be accepted.", self._errors[:ERRORS_MAX])

    def refuse(self, name: str, message: str) -> None:
        self._errors.append(FieldError(path=name, message=message))

    def text(self, name: str, *, length_max: int = TEXT_LENGTH_MAX) -> str | None:
        """The one value of a parameter; None when it is not there."""
        values = self._values.getall(name, [])
        if not values:
            return None
        if len(values) > 1:
            self.refuse(name, "is given more than once")
        elif not values[0]:
            self.refuse(name, "is empty; leave it out or give a value")
        elif len(values[0]) > length_max:
            self.refuse(name, f"is longer than {length_max} characters")
        return values[0]

    def texts(self, name: str, *, count_max: int) -> list[str]:
        """All values of a parameter that may be repeated."""
        values = self._values.getall(name, [])
        if len(values) > count_max:
            self.refuse(name, f"is given more than {count_max} times")
        if any(len(value) > TEXT_LENGTH_MAX for value in values):
            self.refuse(name, f"is longer than {TEXT_LENGTH_MAX} characters")
        return list(values)

    def integer(self, name: str, *, least: int, most: int, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        if re.fullmatch(r"[0-9]{1,9}", text) and least <= int(text) <= most:
            return int(text)
        self.refuse(name, f"must be an integer from {least} to {most}")
        return default

    def limit(self) -> int:
        return self.integer("limit", least=1, most=LIST_LIMIT_MAX, default=LIST_LIMIT_DEFAULT)

    def cursor(self) -> str | None:
        return self.text("cursor", length_max=CURSOR_LENGTH_MAX)

    def consistency(self) -> Consistency:
        text = self.text("consistency") or "linearizable"
        if text not in ("linearizable", "local"):
            self.refuse("consistency", wrong_choice("consistency", text, ["linearizable", "local"]))
        return cast(Consistency, text)

    def states(self) -> tuple[RunState, ...]:
        """`state`, repeated or as a list with commas."""
        known = [state.value for state in RunState]
        words = [word for value in self.texts("state", count_max=len(known)) for word in value.split(",")]
        wrong = next((word for word in words if word not in known), None)
        if wrong is not None:
            self.refuse("state", wrong_choice("state", wrong, known))
            return ()
        return tuple(RunState(word) for word in dict.fromkeys(words))

    def instant_ms(self, name: str) -> int | None:
        """RFC 3339 with any offset, as unix milliseconds."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse_instant_ms(text)
        except ValueError as fault:
            self.refuse(name, str(fault))
            return None


def parse_instant_ms(text: str) -> int:
    """RFC 3339 with an offset as unix milliseconds. Raises ValueError with a sentence for the client."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError("must be a time such as 2026-11-30T01:00:00Z")
    if match["offset"] is None:
        raise ValueError("must say its offset: end it with Z, or with one such as +02:00")
    if match["sign"] == " ":
        # In a query '+' means a blank unless it is written %2B; nothing else can stand here.
        text = text[: match.start("sign")] + "+" + text[match.end("sign") :]
    try:
        moment = datetime.datetime.fromisoformat(text.upper())
        return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("is not a time that exists; write it such as 2026-11-30T01:00:00Z") from None
