"""Apply never raises on what a proposal holds: bytes at random, commands bent at random, numbers at their edges."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands as c
from statemachine.codec import decode_reply, encode_command
from statemachine.records import AttemptOutcome, Job, Team
from tests.statemachine import invariants
from tests.statemachine.driver import Driver, Proposal
from tests.statemachine.test_codec import COMMANDS
from tests.statemachine.test_model import SLOW, scratch_driver

pytestmark = pytest.mark.slow

EDGES = st.sampled_from(
    [0, 1, -1, 9, 10, 255, 2**31, 2**47 - 1, 2**47, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
)
TEXTS = st.one_of(
    st.sampled_from(["", "\0", "n1", "A", "ok", "superseded", "overlap: x", "000000001388-A", "x" * 600, "ä" * 64]),
    st.text(max_size=8),
)
SCALARS = st.one_of(st.none(), st.booleans(), EDGES, TEXTS, st.floats(), st.binary(max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def apply_all(driver: Driver, *data: bytes) -> None:
    """One proposal after another; each answers once a command, and the state stays sound."""
    for command in data:
        driver.seq += 1
        outcome = driver.propose(Proposal(seq=driver.seq, acknowledged=driver.seq - 1, commands=[command]))
        assert len(outcome.replies) == 1
    invariants.check(driver)


def begun(driver: Driver) -> None:
    driver.open()
    driver.own_all()
    driver.put("A", first_due_ms=5000)


@settings(SLOW, max_examples=40)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=10))
def test_bytes_at_random(data: list[bytes]) -> None:
    with scratch_driver() as driver:
        begun(driver)
        apply_all(driver, *data, *(b"\x01" + text for text in data))


@st.composite
def bent_commands(draw: st.DrawFn) -> bytes:
    """A sample command with one value, at any depth, replaced or bytes flipped."""
    data = encode_command(draw(st.sampled_from(COMMANDS)))
    if draw(st.booleans()):
        place = draw(st.integers(1, len(data) - 1))
        return data[:place] + bytes((draw(st.integers(0, 255)),)) + data[place + 1 :]
    return b"\x01" + msgspec.msgpack.encode(_bent(msgspec.msgpack.decode(data[1:]), draw))


def _bent(value: Any, draw: st.DrawFn) -> Any:
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _bent(value[place], draw), *value[place + 1 :]]
    return draw(VALUES)


@settings(SLOW, max_examples=150)
@given(st.lists(bent_commands(), min_size=1, max_size=8))
def test_commands_bent_at_random(data: list[bytes]) -> None:
    with scratch_driver() as driver:
        begun(driver)
        apply_all(driver, *data)


TIMES = st.one_of(st.integers(0, 2**47 - 1), st.sampled_from([0, 4999, 5000, 5001, 6000, 2**47 - 1]))
ANY_INT = st.one_of(EDGES, st.integers(-3, 10_000))
JOBS = st.builds(
    Job,
    job_id=st.one_of(st.just("A"), TEXTS),
    name=TEXTS,
    team=TEXTS,
    expressions=st.lists(TEXTS, max_size=17).map(tuple),
    run_at_ms=st.one_of(st.none(), EDGES),
    tz=TEXTS,
    target=st.sampled_from([command.job.target for command in COMMANDS if isinstance(command, c.PutJob)]),
    args=st.binary(max_size=8),
    timeout_s=st.floats(),
    max_retries=st.one_of(st.integers(0, 3), EDGES),
    backoff_base_s=st.floats(),
    backoff_multiplier=st.floats(),
    backoff_max_s=st.floats(),
    backoff_jitter=st.floats(),
    priority=st.one_of(st.integers(0, 9), EDGES),
    overlap_policy=st.sampled_from(["allow", "skip"]),
    misfire_grace_s=st.floats(),
    jitter_s=st.floats(),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
    version=st.one_of(st.integers(1, 3), EDGES),
    created_ms=ANY_INT,
    updated_ms=ANY_INT,
    first_due_ms=st.one_of(st.none(), TIMES, EDGES),
)
ITEMS = st.builds(
    c.FireItem,
    job_id=st.one_of(st.just("A"), TEXTS),
    expected_ms=st.one_of(st.just(5000), ANY_INT),
    version=st.integers(1, 2),
    epoch=st.just(1),
    runs=st.lists(st.builds(c.FireRun, due_ms=st.one_of(st.just(5000), ANY_INT), release_ms=ANY_INT), max_size=3).map(
        tuple
    ),
    skips=st.lists(
        st.builds(c.FireSkip, from_ms=ANY_INT, until_ms=ANY_INT, count=ANY_INT, reason=TEXTS), max_size=2
    ).map(tuple),
    next_ms=st.one_of(st.none(), ANY_INT),
)
RUN_IDS = st.one_of(st.just("000000001388-A"), TEXTS)
EDGY: st.SearchStrategy[c.Command] = st.one_of(
    st.builds(c.PutJob, now_ms=TIMES, job=JOBS, expected_version=st.integers(0, 2), idempotency_key=TEXTS),
    st.builds(c.DeleteJob, now_ms=TIMES, job_id=TEXTS),
    st.builds(c.RunNow, now_ms=TIMES, job_id=st.one_of(st.just("A"), TEXTS), nonce=TEXTS),
    st.builds(c.Fire, now_ms=TIMES, node=st.just("n1"), items=st.lists(ITEMS, max_size=4).map(tuple)),
    st.builds(c.Release, now_ms=TIMES, run_id=RUN_IDS, token=EDGES),
    st.builds(c.Start, now_ms=TIMES, run_id=RUN_IDS, token=EDGES, started_ms=EDGES),
    st.builds(
        c.Finish,
        now_ms=TIMES,
        run_id=RUN_IDS,
        token=EDGES,
        outcome=st.sampled_from(AttemptOutcome),
        detail=st.one_of(st.none(), st.just("x" * 3000)),
        started_ms=TIMES,
        finished_ms=TIMES,
        retry_at_ms=st.one_of(st.none(), EDGES),
    ),
    st.builds(c.Deadline, now_ms=TIMES, run_id=RUN_IDS, at_ms=TIMES),
    st.builds(c.Redrive, now_ms=TIMES, run_id=RUN_IDS),
    st.builds(c.CancelRun, now_ms=TIMES, run_id=RUN_IDS, reason=st.one_of(st.none(), TEXTS)),
    st.builds(c.Withdraw, now_ms=TIMES, run_id=RUN_IDS, token=EDGES, reason=st.one_of(st.none(), TEXTS)),
    st.builds(c.ExpireSession, now_ms=TIMES, node=TEXTS, incarnation=EDGES, renewal=EDGES),
    st.builds(c.RenewSession, now_ms=TIMES, node=TEXTS, incarnation=EDGES, renewal=EDGES),
    st.builds(
        c.PutTeam,
        now_ms=TIMES,
        team=st.builds(Team, team=TEXTS, max_concurrent=EDGES, weight=EDGES, max_jobs=EDGES, version=EDGES),
    ),
    st.builds(c.DeleteTeam, now_ms=TIMES, team=TEXTS),
    st.builds(
        c.AssignBuckets,
        now_ms=TIMES,
        moves=st.lists(
            st.builds(c.BucketMove, bucket=EDGES, expected_epoch=EDGES, node=st.one_of(st.none(), TEXTS)), max_size=3
        ).map(tuple),
    ),
)


@settings(SLOW, max_examples=150)
@given(st.lists(EDGY, min_size=1, max_size=12))
def test_numbers_and_texts_at_their_edges(commands: list[c.Command]) -> None:
    with scratch_driver() as driver:
        begun(driver)
        apply_all(driver, *map(encode_command, commands))


@given(
    node=TEXTS, incarnation=EDGES, seq=EDGES, acknowledged=EDGES, commands=st.lists(st.binary(max_size=4), max_size=3)
)
@settings(SLOW, max_examples=100)
def test_proposals_named_at_random(**fields: Any) -> None:
    with scratch_driver() as driver:
        for _ in range(2):
            outcome = driver.propose(Proposal(**fields))
            assert len(outcome.replies) == len(fields["commands"])


def test_replies_never_hold_the_words_of_a_library() -> None:
    """They are part of the state, so they must not differ between versions of one."""
    with scratch_driver() as driver:
        outcome = driver.propose(Proposal(seq=1, commands=[b"\x01\xff", b""]))
        details = {reply.detail for reply in outcome.replies}
    assert details == {c.REFUSALS["malformed"]}
    assert decode_reply(b"\x01\x91\xa5plain").code == "ok"
