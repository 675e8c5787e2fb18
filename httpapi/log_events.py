"""The log of a run as server-sent events: what is sent for a piece of output, and how a receiver reads it back.

    id: 2:1042                                   attempt 2, and where to go on in what it put out
    event: log
    data: {"attempt":2,"offset":1030,"text":"twelve bytes"}

Output that is no UTF-8 comes as `base64` instead of `text`, so nothing is lost; a character is never torn apart.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from node.interface import LogPiece

HEARTBEAT = b": still here\n\n"
EVENT_BYTES_MAX = 1024 * 1024
"""The longest event that is read; six times what the longest piece of output becomes."""
_POSITION = re.compile(r"(?:([0-9]{1,9}):)?([0-9]{1,15})\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Where a reader is: in an attempt (None: the one that is asked for), and there after so many bytes."""

    attempt: int | None = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.offset}" if self.attempt is None else f"{self.attempt}:{self.offset}"


START = Position()


def parse_position(text: str) -> Position | None:
    """The id of an event, or a bare offset; None when it is neither."""
    found = _POSITION.match(text)
    if found is None:
        return None
    return Position(attempt=int(found[1]) if found[1] else None, offset=int(found[2]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    name: str
    data: Any
    id: str | None = None


def encoded(event: Event) -> bytes:
    head = f"event: {event.name}\n" if event.id is None else f"id: {event.id}\nevent: {event.name}\n"
    return head.encode() + b"data: " + msgspec.json.encode(event.data) + b"\n\n"


class PieceEncoder:
    """Pieces of one attempt's output, in their order, as `log` events."""

    def __init__(self, attempt: int, offset: int) -> None:
        self._attempt = attempt
        self.offset = offset
        """Up to here all has become events."""
        self._rest = b""
        """The beginning of a character whose other bytes have not come."""

    def events(self, piece: LogPiece) -> Iterator[Event]:
        cut_bytes = piece.offset - self.offset - len(self._rest)
        if cut_bytes > 0:
            yield from self.flush()
        data = self._rest + piece.data
        whole = len(data) - _torn_bytes(data)
        self._rest = data[whole:]
        if whole:
            yield self._event(data[:whole], cut_bytes)

    def flush(self) -> Iterator[Event]:
        """Nothing more comes: the rest is no character."""
        rest, self._rest = self._rest, b""
        if rest:
            yield self._event(rest, 0)

    def _event(self, data: bytes, cut_bytes: int) -> Event:
        offset = self.offset + cut_bytes
        self.offset = offset + len(data)
        body: dict[str, Any] = {"attempt": self._attempt, "offset": offset} | _as_json(data)
        if cut_bytes:
            body["cut_bytes"] = cut_bytes
        return Event(name="log", data=body, id=f"{self._attempt}:{self.offset}")


def _as_json(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _torn_bytes(data: bytes) -> int:
    """How many bytes at the end begin a character of which more must come."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if 0xC0 <= byte <= 0xF4:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if not 0x80 <= byte < 0xC0:
            return 0
    return 0


# --- the receiver's side


def piece_of(event: Event) -> LogPiece:
    """The output that a `log` event carries. Raises ValueError."""
    try:
        text, packed = event.data.get("text"), event.data.get("base64")
        data = base64.b64decode(packed, validate=True) if text is None else text.encode()
        return LogPiece(offset=int(event.data["offset"]), data=data)
    except (AttributeError, TypeError, KeyError, UnicodeEncodeError) as fault:
        raise ValueError("this event carries no output") from fault


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event | None]:
    """The events of a stream; None for a heartbeat. Raises ValueError for what is no stream of ours."""
    buffered = b""
    async for chunk in chunks:
        *blocks, buffered = (buffered + chunk).split(b"\n\n")
        if len(buffered) > EVENT_BYTES_MAX:
            raise ValueError("an event has no end")
        for block in blocks:
            yield _decoded(block)


def _decoded(block: bytes) -> Event | None:
    fields: dict[str, str] = {}
    for line in block.decode().split("\n"):
        name, _, value = line.partition(":")
        fields[name] = value.removeprefix(" ")
    if "event" not in fields:
        return None
    try:
        data = msgspec.json.decode(fields.get("data", "null"))
    except msgspec.DecodeError as fault:
        raise ValueError(f"an event without values: {fault}") from None
    return Event(name=fields["event"], data=data, id=fields.get("id"))
