from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.keys import (
    KINDS,
    LANE_AGED,
    LANE_SLOW,
    LANE_TAGGED,
    TAGS_BYTES,
    RunKey,
    bucket_of,
    due_key,
    parse_run_id,
    row_key,
    row_run_id,
    run_id_of,
    session_prefix,
    split_due_key,
    split_session_key,
    split_waiting_key,
    waiting_key,
)
from statemachine.limits import SLOW_BUCKETS, TEAM_LENGTH_MAX, TIME_MS_MAX
from statemachine.records import RunKind

LMDB_KEY_BYTES_MAX = 511

times = st.integers(0, TIME_MS_MAX)
job_ids = st.text("0123456789ABCXYZabcxyz_", min_size=1, max_size=40)
nonces = st.text("0123456789ABCabc_-", min_size=1, max_size=64)
letters = st.characters(exclude_characters="\0", exclude_categories=("Cs",))
teams = st.text(letters, min_size=1, max_size=TEAM_LENGTH_MAX)
run_keys = st.one_of(
    st.builds(RunKey, times, job_ids, st.just(RunKind.SCHEDULED), st.just("")),
    st.builds(RunKey, times, job_ids, st.sampled_from((RunKind.MANUAL, RunKind.BACKFILL)), nonces),
)


def text_of(key: RunKey) -> str:
    return run_id_of(key.job_id, key.due_ms, key.kind, key.nonce)


def test_buckets_are_crc32_modulo_1024() -> None:
    assert bucket_of("123456789") == 0xCBF43926 % 1024  # the check value of CRC-32
    assert [bucket_of(job_id) for job_id in ("A", "01JD0000000000000000000000", "ä")] == [651, 248, 387]


def test_run_ids_read_as_promised() -> None:
    assert run_id_of("01JD", 1_700_000_000_000) == "018bcfe56800-01JD"
    assert run_id_of("01JD", 5000, RunKind.MANUAL, "x-1") == "000000001388-01JD-mx-1"
    assert parse_run_id("000000001388-01JD-bn") == RunKey(5000, "01JD", RunKind.BACKFILL, "n")


@given(run_keys)
def test_a_run_id_gives_its_parts_back(key: RunKey) -> None:
    assert parse_run_id(text_of(key)) == key


@given(run_keys, run_keys)
def test_run_ids_sort_by_due_time(first: RunKey, second: RunKey) -> None:
    if first.due_ms < second.due_ms:
        assert text_of(first).encode() < text_of(second).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "000000001388",
        "000000001388-",
        "00000000138-01JD",
        "0000000013880-01JD",
        "00000000138G-01JD",
        "00000000138A-01JD",
        "000000001388-01JD-",
        "000000001388-01JD-m",
        "000000001388-01JD-sx",
        "000000001388-01JD-mx/y",
        "000000001388-01JD\n",
        "000000001388-01 JD",
        "000000001388-01J\u0661",
        "800000000000-01JD",
        "000000001388-" + "A" * 41,
        "000000001388-A-m" + "x" * 65,
    ],
)
def test_what_cannot_be_a_run_id_is_none(text: str) -> None:
    assert parse_run_id(text) is None


@given(st.text(max_size=60))
def test_any_text_parses_to_none_or_to_itself(text: str) -> None:
    key = parse_run_id(text)
    assert key is None or text_of(key) == text


@given(run_keys)
def test_a_row_names_its_run(key: RunKey) -> None:
    assert row_run_id(key.job_id, row_key(key)) == text_of(key)


@given(times, st.integers(0, 1023), job_ids)
def test_due_keys_split(due_ms: int, bucket: int, job_id: str) -> None:
    assert split_due_key(due_key(due_ms, bucket, job_id)) == (due_ms, bucket, job_id)


def lane(class_: int, kind: int, tags: bytes, group: bytes, aged: int) -> bytes:
    flags = kind | (LANE_TAGGED if tags else 0) | (LANE_SLOW if group else 0) | aged
    return bytes((class_, flags)) + tags + group


lanes = st.builds(
    lane,
    st.integers(0, 9),
    st.integers(0, len(KINDS) - 1),
    st.one_of(st.just(b""), st.binary(min_size=TAGS_BYTES, max_size=TAGS_BYTES)),
    st.one_of(st.just(b""), st.integers(0, SLOW_BUCKETS - 1).map(lambda group: bytes((group,)))),
    st.sampled_from((0, LANE_AGED)),
)


@given(lanes, teams, times, run_keys)
def test_waiting_keys_split_and_fit(lane: bytes, team: str, release_ms: int, key: RunKey) -> None:
    packed = waiting_key(lane, team, release_ms, text_of(key))
    assert split_waiting_key(packed) == (lane, team, release_ms, text_of(key))
    assert len(packed) <= LMDB_KEY_BYTES_MAX


@given(st.lists(st.tuples(lanes, teams, times), min_size=2, max_size=2))
def test_waiting_keys_sort_by_lane_then_team_then_time(entries: list[tuple[bytes, str, int]]) -> None:
    """And a lane by its class first."""
    first, second = (waiting_key(*entry, "r") for entry in entries)
    (lane, team, release_ms), (other_lane, other_team, other_ms) = entries
    assert (first < second) == ((lane, team.encode(), release_ms) < (other_lane, other_team.encode(), other_ms))


@given(lanes, lanes, teams)
def test_one_seek_passes_over_a_need(lane: bytes, other: bytes, team: str) -> None:
    """No key of the lane comes after its end, and every key of a later lane does."""
    end = lane + b"\xff"
    assert waiting_key(lane, team, 0, "r") < end
    assert other <= lane or waiting_key(other, team, 0, "r") > end


@given(st.text("abc._-", min_size=1, max_size=64), st.integers(0, 2**53))
def test_session_keys_split(node: str, incarnation: int) -> None:
    assert split_session_key(session_prefix(node, incarnation)) == (node, incarnation)
