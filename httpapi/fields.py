"""Plain JSON values → typed structs, naming every field that is wrong.

msgspec stops at the first fault and lets unknown fields of some structs pass; people mend a request faster when they
see all faults at once, and a typo must not become a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from node.interface import FieldError, Invalid

T = TypeVar("T", bound=msgspec.Struct)

ERRORS_MAX = 32
"""Faults that one answer names."""
KINDS_KEPT_MAX = 64
"""Kinds of bodies whose fields are remembered; there are a handful."""
SHOWN_LENGTH_MAX = 64
"""Characters of a client's own text that a message repeats."""

OTHER_NAMES = {
    "cron": "schedule",
    "timezone": "tz",
    "time_zone": "tz",
    "retries": "max_retries",
    "timeout": "timeout_s",
    "url": "target.url",
    "command": "target",
    "image": "target",
}
"""What people call these fields elsewhere, where the spelling alone would not lead there."""

NOT_YET: Mapping[str, frozenset[str]] = {}
"""Values by path ('' and 'target': field names) that later versions know: the refusal says so."""

_JSON_TYPES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false"} | {
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_EXPECTED = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")


def build(kind: type[T], value: Any) -> T:
    """`value` as a `kind`. Raises Invalid with an error for each wrong, missing or unknown field."""
    if not isinstance(value, dict):
        raise Invalid("The body must be a JSON object.", [FieldError(path="", message="must be an object")])
    values, errors = _convert_fields(kind, value)
    if errors:
        raise Invalid(errors=errors[:ERRORS_MAX])
    return kind(**values)


@lru_cache(maxsize=KINDS_KEPT_MAX)
def _shape(kind: type[msgspec.Struct]) -> tuple[inspect.StructType, dict[str, Any]]:
    """What a kind's fields are. Asking took half of a node's time under a load of creates."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return info, {field.name: field.type for field in msgspec.structs.fields(kind)}


def _convert_fields(kind: type[msgspec.Struct], value: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    values: dict[str, Any] = {}
    info, annotations = _shape(kind)
    errors = unknown_names(value, [field.encode_name for field in info.fields], "")
    for field in info.fields:
        if field.encode_name in value:
            found = _field_errors(field, annotations[field.name], value[field.encode_name])
            if found:
                errors += found
            else:
                values[field.name] = msgspec.convert(value[field.encode_name], annotations[field.name])
        elif field.required:
            errors.append(FieldError(path=field.encode_name, message="is required"))
    return values, errors


def _field_errors(field: inspect.Field, annotation: Any, value: Any) -> list[FieldError]:
    """What is wrong with one field: its kind, its unknown members, its type."""
    path = field.encode_name
    variants = _tagged_variants(field.type)
    if isinstance(value, dict) and (plain := _plain_struct(field.type)) is not None:
        unknown = unknown_names(value, [one.encode_name for one in plain.fields], path)
        if unknown:
            return unknown
    if variants and isinstance(value, dict):
        tag_field = next(iter(variants.values())).tag_field or "type"
        tag = value.get(tag_field)
        if not isinstance(tag, str) or tag not in variants:
            return [_wrong_kind(f"{path}.{tag_field}", tag, list(variants))]
        chosen = variants[tag]
        unknown = unknown_names(value, [tag_field, *(one.encode_name for one in chosen.fields)], path)
        if unknown:
            return unknown
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as fault:
        return [_as_field_error(path, str(fault), value, _literals(field.type))]
    return []


def _tagged_variants(kind: inspect.Type) -> dict[str, inspect.StructType]:
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return {str(one.tag): one for one in members if isinstance(one, inspect.StructType) and one.tag is not None}


def _plain_struct(kind: inspect.Type) -> inspect.StructType | None:
    """An object without kinds, perhaps beside null."""
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next((one for one in members if isinstance(one, inspect.StructType) and one.tag is None), None)


def _literals(kind: inspect.Type) -> list[str]:
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [str(value) for one in members if isinstance(one, inspect.LiteralType) for value in one.values]


def _wrong_kind(path: str, found: Any, known: Sequence[str]) -> FieldError:
    choice = f"one of {', '.join(known)}"
    if found is None:
        return FieldError(path=path, message=f"is required: {choice}")
    return FieldError(path=path, message=wrong_choice(path, found, known))


def wrong_choice(path: str, found: Any, known: Sequence[str]) -> str:
    """The message for a value that is none of `known`."""
    if isinstance(found, str) and found in NOT_YET.get(path, ()):
        return f"{found} is not supported yet; use {' or '.join(known)}"
    hint = did_you_mean(found, known) if isinstance(found, str) else ""
    return f"must be one of {', '.join(known)}{hint}"


def unknown_names(value: Mapping[str, Any], known: Sequence[str], path: str) -> list[FieldError]:
    """An error for each key of `value` that is not in `known`, with the name that was probably meant."""
    prefix = f"{path}." if path else ""
    later = NOT_YET.get(path, frozenset())
    return [
        FieldError(
            path=f"{prefix}{shorten(name)}",
            message="is not supported yet" if name in later else f"unknown field{did_you_mean(name, known)}",
        )
        for name in value
        if name not in known
    ]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """'; did you mean "max_retries"?', or '' when nothing is near."""
    other = OTHER_NAMES.get(name.lower())
    if other is not None and other.partition(".")[0] in known:
        return f'; did you mean "{other}"?'
    near = get_close_matches(name[:SHOWN_LENGTH_MAX].lower(), known, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def shorten(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"


def _as_field_error(path: str, fault: str, value: Any, literals: Sequence[str]) -> FieldError:
    """msgspec's sentence as ours: the path without its '$', JSON's names for types."""
    message, _, where = fault.partition(" - at `$")
    where = _with_key(value, where.rstrip("`"))
    missing = _MISSING.fullmatch(message)
    if missing is not None:
        return FieldError(path=f"{path}{where}.{missing[1]}", message="is required")
    if path == "priority":
        message = "must be an integer from 0 to 9, or one of " + ", ".join(literals)
    elif literals and not where:
        message = wrong_choice(path, value, literals)
    else:
        message = _in_json_words(message)
    return FieldError(path=f"{path}{where}", message=message)


def _with_key(value: Any, where: str) -> str:
    """msgspec writes '[...]' for any key of a mapping. Ours map text to text: the culprit is the first that is not."""
    before, dots, after = where.partition("[...]")
    if not dots:
        return where
    for step in before.split(".")[1:]:
        value = value[step]
    key = next((key for key, member in value.items() if not isinstance(member, str)), "...")
    return f"{before}.{shorten(key)}{after}"


def _in_json_words(message: str) -> str:
    expected = _EXPECTED.match(message)
    if expected is None:
        return message[0].lower() + message[1:]
    wanted = " or ".join(_JSON_TYPES.get(one, one) for one in expected[1].split(" | "))
    return f"must be {wanted}, not {_JSON_TYPES.get(expected[2], expected[2])}"
