"""The shape of every message between nodes. What does not have it never reaches the Raft core, which believes its
fields: a hostile or newer peer can get its connection closed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from raftlog.errors import MessageRefused

INTEGER_MAX = 2**63 - 1
ENTRIES_MAX = 1 << 17
"""Entries of one append_entries: 1 MiB of the smallest ones fit."""
REPLIES_MAX = 1 << 16

Check = Callable[[Any], bool]


def check_message(message: Any) -> None:
    """Raises MessageRefused unless the message is of a known type and has exactly its fields, each of its shape."""
    if type(message) is not dict:
        raise MessageRefused("a message must be a map")
    kind = message.get("type")
    shape = SHAPES.get(kind) if type(kind) is str else None
    if shape is None:
        raise MessageRefused(f"unknown message type {str(kind)[:32]!r}")
    if len(message) != len(shape) + 1:
        raise MessageRefused(f"a {kind} message has the fields {', '.join(shape)}")
    for name, is_good in shape.items():
        if name not in message or not is_good(message[name]):
            raise MessageRefused(f"a {kind} message with a bad or missing {name}")


def _integer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INTEGER_MAX


def _boolean(value: Any) -> bool:
    return type(value) is bool


def _binary(value: Any) -> bool:
    return type(value) is bytes


def _entry(value: Any) -> bool:
    """[payload, index, term]. A payload is never empty: its first byte is its kind."""
    if type(value) not in (list, tuple) or len(value) != 3:
        return False
    payload, index, term = value
    return type(payload) is bytes and len(payload) > 0 and _integer(index) and _integer(term)


def _entries(value: Any) -> bool:
    return type(value) in (list, tuple) and len(value) <= ENTRIES_MAX and all(map(_entry, value))


def _replies(value: Any) -> bool:
    return type(value) in (list, tuple) and len(value) <= REPLIES_MAX and all(map(_binary, value))


SHAPES: Final[Mapping[str, Mapping[str, Check]]] = {
    "append_entries": {
        "term": _integer,
        "commit_index": _integer,
        "prevLogIdx": _integer,
        "prevLogTerm": _integer,
        "entries": _entries,
        "seq": _integer,
        "last_index": _integer,
    },
    "next_node_idx": {
        "term": _integer,
        "next_node_idx": _integer,
        "reset": _boolean,
        "success": _boolean,
        "seq": _integer,
    },
    "request_vote": {"term": _integer, "last_log_index": _integer, "last_log_term": _integer},
    "response_vote": {"term": _integer},
    "propose": {"envelope": _binary},
    "result": {"incarnation": _integer, "seq": _integer, "replies": _replies},
    "barrier": {"id": _integer},
    "barrier_result": {"id": _integer, "index": _integer},
}
"""By type, the fields beside `type`; their meaning is told at the head of node.py."""
