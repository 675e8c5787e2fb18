from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.envelope import EnvelopeMalformed, decode, encode
from raftlog.interface import Proposal

NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)
PROPOSALS = st.builds(
    Proposal,
    node=st.text(max_size=20),
    incarnation=NUMBERS,
    seq=NUMBERS,
    acknowledged=NUMBERS,
    commands=st.lists(st.binary(max_size=50), max_size=5),
)


@given(PROPOSALS)
def test_what_is_encoded_is_decoded(proposal: Proposal) -> None:
    assert decode(encode(proposal)) == proposal


@given(st.binary(max_size=60))
def test_any_bytes_are_a_proposal_or_malformed(envelope: bytes) -> None:
    try:
        proposal = decode(envelope)
    except EnvelopeMalformed:
        return
    assert decode(encode(proposal)) == proposal


@pytest.mark.parametrize(
    "content",
    [
        [2, "n1", 1, 1, 0, []],
        [1, "n1", 1, 1, 0],
        [1, "n1", 1, 1, 0, [], 7],
        [1, b"n1", 1, 1, 0, []],
        [1, "n1", -1, 1, 0, []],
        [1, "n1", 1, True, 0, []],
        [1, "n1", 1, 2**63, 0, []],
        [1, "n1", 1, 1, 0, ["text"]],
        [1, "n1", 1, 1, 0, b"command"],
        {"version": 1},
        7,
    ],
)
def test_what_is_not_an_envelope_is_malformed(content: object) -> None:
    with pytest.raises(EnvelopeMalformed):
        decode(msgpack.packb(content))


def test_bytes_behind_the_envelope_are_malformed() -> None:
    proposal = Proposal(node="n1", incarnation=1, seq=1, acknowledged=0, commands=[b"x"])
    with pytest.raises(EnvelopeMalformed):
        decode(encode(proposal) + b"\x00")
