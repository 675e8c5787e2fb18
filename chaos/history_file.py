"""A history on disk: one JSON line an event, `{"kind": ..., "value": ...}`, what there is once in a last line. What
never ended is `Infinity`, as Python's json writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

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
"""The fields of a History that are lists of events, and what is in them: each has a line, in this order."""
ONCE = "History"
_KINDS = {kind.__name__: (field, kind) for field, kinds in EVENTS.items() for kind in kinds}


class NoHistory(Exception):
    """The file is not a whole history of this version."""


def write_history(path: Path, history: h.History) -> None:
    with path.open("w", encoding="utf-8") as file:
        for kind, value in _lines(history):
            file.write(json.dumps({"kind": kind, "value": msgspec.to_builtins(value)}) + "\n")


def read_history(path: Path) -> h.History:
    """Raises OSError or NoHistory."""
    try:
        return _read(path)
    except (ValueError, KeyError, msgspec.ValidationError) as error:
        raise NoHistory(f"{path} is no history: {type(error).__name__}: {error}") from error


def _read(path: Path) -> h.History:
    lists: dict[str, list[Any]] = {field: [] for field in EVENTS}
    with path.open(encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            if line["kind"] == ONCE:
                return h.History(**{**lists, **_once(line["value"])})
            field, kind = _KINDS[line["kind"]]
            lists[field].append(msgspec.convert(line["value"], kind))
    raise NoHistory(f"{path} has no line of kind {ONCE}: it was cut off")


def _once(values: Mapping[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(h.History)
    return {name: msgspec.convert(value, hints[name]) for name, value in values.items() if name not in EVENTS}


def _lines(history: h.History) -> Iterator[tuple[str, object]]:
    for field in EVENTS:
        for value in getattr(history, field):
            yield type(value).__name__, value
    nothing: dict[str, Sequence[object]] = {field.name: () for field in fields(history) if field.name in EVENTS}
    yield ONCE, replace(history, **nothing)  # type: ignore[arg-type]  # each takes a sequence
