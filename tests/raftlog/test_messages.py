"""Every message of ours passes; anything that is not exactly one is refused, and with no other error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import MessageRefused
from raftlog.messages import INTEGER_MAX, SHAPES, check_message
from raftlog.wire import pack, unpack

EXAMPLES: dict[str, dict[str, Any]] = {
    "append_entries": {
        "term": 3,
        "commit_index": 7,
        "prevLogIdx": 7,
        "prevLogTerm": 2,
        "entries": [[b"\0payload", 8, 3], [b"\1", 9, 3]],
        "seq": 40,
        "last_index": 9,
    },
    "next_node_idx": {"term": 3, "next_node_idx": 10, "reset": False, "success": True, "seq": 40},
    "request_vote": {"term": 4, "last_log_index": 9, "last_log_term": 3},
    "response_vote": {"term": 4},
    "propose": {"envelope": b"x"},
    "result": {"incarnation": 1, "seq": 2, "replies": [b"", b"ok"]},
    "barrier": {"id": 5},
    "barrier_result": {"id": 5, "index": 9},
}


def example(kind: str, **changed: Any) -> dict[str, Any]:
    return {"type": kind, **EXAMPLES[kind], **changed}


def test_there_is_an_example_of_every_type() -> None:
    assert set(EXAMPLES) == set(SHAPES)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_message_passes_as_it_was_made_and_as_it_arrives(kind: str) -> None:
    check_message(example(kind))
    check_message(unpack(pack(example(kind))))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_missing_or_an_additional_field_is_refused(kind: str) -> None:
    for name in EXAMPLES[kind]:
        message = example(kind)
        del message[name]
        with pytest.raises(MessageRefused):
            check_message(message)
        with pytest.raises(MessageRefused):
            check_message({**message, "other": 1})
    with pytest.raises(MessageRefused):
        check_message(example(kind, other=1))


FIELDS = [(kind, name) for kind, fields in EXAMPLES.items() for name in fields]
WRONG = [None, "1", 1.0, -1, INTEGER_MAX + 1, {}, [1], [[1]], "text"]


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_field_of_another_type_or_range_is_refused(kind: str, name: str) -> None:
    for value in WRONG:
        with pytest.raises(MessageRefused):
            check_message(example(kind, **{name: value}))
    if type(EXAMPLES[kind][name]) is int:
        with pytest.raises(MessageRefused):
            check_message(example(kind, **{name: True}))


@pytest.mark.parametrize(
    "entry",
    [[b"\0x", 8], [b"\0x", 8, 3, 4], [b"", 8, 3], ["\0x", 8, 3], [b"\0x", -8, 3], [b"\0x", 8, None], b"\0x", 8],
)
def test_an_entry_that_is_none_is_refused(entry: Any) -> None:
    with pytest.raises(MessageRefused):
        check_message(example("append_entries", entries=[[b"\0fine", 7, 3], entry]))


@pytest.mark.parametrize(
    "kind", ["add", "set_version", "status", "apply_command", "pickle", None, 1, b"barrier", ["a"]]
)
def test_an_unknown_type_is_refused(kind: Any) -> None:
    """Among them the library's own verbs: membership changes, code versions, its pickled commands (hole S16)."""
    with pytest.raises(MessageRefused):
        check_message({"type": kind, "id": 5})


@pytest.mark.parametrize("unwanted", ["serialized", "transmission", "data"])
def test_the_librarys_snapshot_and_pickle_fields_are_refused(unwanted: str) -> None:
    with pytest.raises(MessageRefused):
        check_message(example("append_entries", **{unwanted: b"x"}))


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=8)


@given(values | st.dictionaries(st.text(max_size=5) | st.binary(max_size=5), values))
def test_anything_else_is_refused_without_another_error(message: Any) -> None:
    with pytest.raises(MessageRefused):
        check_message(message)


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_mutated_message_is_refused_or_has_good_fields(kind: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(EXAMPLES[kind])))
    message = example(kind, **{name: data.draw(values)})
    try:
        check_message(message)
    except MessageRefused:
        return
    assert type(message[name]) in (type(EXAMPLES[kind][name]), tuple)
