"""A history on disk: one JSON line an event, `{"kind": ..., "value": ...}`, what there is once in a last line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgspec

from chaos import history as h

EVENTS: Mapping[str, tuple[type, ...]] = {
    "operations": (h.Operation,),
    "truth": get_args(h.Truth),
    "effects": (h.Effect,),
    "effect_ends": (h.EffectEnd,),
    "faults": (h.Fault,),
    "states": (h.FinalState,),
    "absences": (h.Absence,),
    "leaders": (h.LeaderSeen,),
    "samples": (h.Sample,),
}
"""The fields of a History that are lists, and what is in them: in the file each value has a line, in this order."""
ONCE = "History"
_KINDS = {kind.__name__: (field, kind) for field, kinds in EVENTS.items() for kind in kinds}


class Line(msgspec.Struct, frozen=True):
    kind: str
    value: msgspec.Raw


def write_history(path: Path, history: h.History) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for kind, value in _lines(history):
            file.write(encoder.encode(Line(kind, msgspec.Raw(encoder.encode(value)))) + b"\n")


def read_history(path: Path) -> h.History:
    """Raises msgspec.DecodeError (or KeyError) for what is no history."""
    lists: dict[str, list[Any]] = {field: [] for field in EVENTS}
    once: h.History | None = None
    decoder = msgspec.json.Decoder(Line)
    with path.open("rb") as file:
        for text in file:
            line = decoder.decode(text)
            if line.kind == ONCE:
                once = msgspec.json.decode(line.value, type=h.History)
            else:
                field, kind = _KINDS[line.kind]
                lists[field].append(msgspec.json.decode(line.value, type=kind))
    if once is None:
        raise msgspec.DecodeError(f"{path} has no line of kind {ONCE}: it was cut off")
    return _with(once, lists)


def _lines(history: h.History) -> Iterator[tuple[str, object]]:
    for field in EVENTS:
        for value in getattr(history, field):
            yield type(value).__name__, value
    yield ONCE, _with(history, dict.fromkeys(EVENTS, ()))


def _with(history: h.History, lists: Mapping[str, Sequence[Any]]) -> h.History:
    values = {field.name: getattr(history, field.name) for field in fields(h.History)}
    return h.History(**{**values, **lists})
