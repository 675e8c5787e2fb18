"""The wall clocks of the nodes, compared by their renewals."""

from __future__ import annotations

import pytest

from node.interface import JobDraft, NoopTarget, RunState
from node.skew import HEARD_FOR_S, HEARD_KEPT, TRUSTED_MS, ClockSkews, SteadyClock
from tests.node.conftest import LiveNode

EPOCH_MS = 1_796_004_000_000
MINUTE, HOUR, YEAR = 60_000, 3_600_000, 365 * 24 * 3_600_000
JUMPS_MS = [sign * by_ms for by_ms in (1000, MINUTE, HOUR, YEAR) for sign in (1, -1)]


class SetClock:
    """A machine whose wall clock somebody sets: `off_ms` from the right time."""

    def __init__(self) -> None:
        self.passed_ms = 0
        self.off_ms = 0

    def right_ms(self) -> int:
        return EPOCH_MS + self.passed_ms

    def wall_ms(self) -> int:
        return self.right_ms() + self.off_ms

    def boottime(self) -> float:
        return 77.0 + self.passed_ms / 1000

    monotonic = boottime


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def skews(clock: SetClock) -> ClockSkews:
    return ClockSkews(clock, "n1")


def renew(skews: ClockSkews, clock: SetClock, delay_ms: int = 0, **off_ms: int) -> None:
    """These nodes renew, each after a second, with clocks that are so far off."""
    for node, off in off_ms.items():
        clock.passed_ms += 1000
        sent_ms = clock.right_ms() + off
        clock.passed_ms += delay_ms
        skews.heard(node, sent_ms, clock.right_ms() - 1000)


def test_a_wrong_clock_shows_against_the_median(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, n1=-5, n2=59_993, n3=-3)
    assert skews.skews_s(["n1", "n2", "n3"]) == {"n1": -0.002, "n2": 59.996, "n3": 0.0}


def test_the_delay_of_the_log_cancels_out(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, 40, n1=0, n2=0, n3=0)
    assert set(skews.skews_s(["n1", "n2", "n3"]).values()) == {0.0}


def test_only_live_nodes_that_were_heard_are_compared(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, n1=0, n2=-1_000_000)
    assert skews.skews_s(["n1", "n3"]) == {"n1": 0.0}
    assert skews.skews_s([]) == {}


# --- the time that a node goes by


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_a_node_goes_by_the_others_clocks_when_its_own_jumps(clock: SetClock, skews: ClockSkews, jump_ms: int) -> None:
    """At once, not at its next renewal; and until it is right again."""
    steady = SteadyClock(clock, skews)
    renew(skews, clock, n1=0, n2=0, n3=0)
    clock.off_ms = jump_ms
    followed = abs(jump_ms) <= TRUSTED_MS
    for _ in range(40):
        assert steady.wall_ms() - clock.right_ms() == (jump_ms if followed else 0)
        renew(skews, clock, n1=jump_ms, n2=0, n3=0)
    clock.off_ms = 0
    assert steady.wall_ms() == clock.right_ms()


@pytest.mark.parametrize("jump_ms", JUMPS_MS)
def test_another_nodes_jump_is_nothing_to_a_right_clock(clock: SetClock, skews: ClockSkews, jump_ms: int) -> None:
    renew(skews, clock, n1=0, n2=0, n3=0)
    for _ in range(20):
        renew(skews, clock, n1=0, n2=jump_ms, n3=0)
        assert skews.time_ms() == clock.wall_ms()


@pytest.mark.parametrize("jump_ms", [jump_ms for jump_ms in JUMPS_MS if abs(jump_ms) > TRUSTED_MS])
def test_of_two_clocks_the_one_that_the_cluster_had_is_right(clock: SetClock, skews: ClockSkews, jump_ms: int) -> None:
    renew(skews, clock, n1=0, n2=0)
    clock.off_ms = jump_ms
    assert skews.time_ms() == clock.right_ms()
    clock.off_ms = 0
    for _ in range(HEARD_KEPT):
        renew(skews, clock, n1=0, n2=jump_ms)
        assert skews.time_ms() == clock.right_ms()


def test_a_slow_log_does_not_make_a_right_clock_wrong(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, 20, n1=0, n2=0, n3=0)
    renew(skews, clock, 5000, n1=0, n2=0, n3=0)
    assert skews.time_ms() == clock.wall_ms()


def test_a_majority_that_is_set_is_followed(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, n1=0, n2=0, n3=0)
    for jump_ms in (HOUR, -HOUR):
        renew(skews, clock, n1=0, n2=jump_ms, n3=jump_ms)
        assert skews.time_ms() == clock.right_ms() + jump_ms


def test_clocks_that_are_wrong_one_after_another_are_no_majority(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, n1=0, n2=MINUTE, n3=0)
    renew(skews, clock, n1=0, n2=0, n3=MINUTE)
    assert skews.time_ms() == clock.right_ms()


@pytest.mark.parametrize(("before_ms", "jump_ms"), [(MINUTE, YEAR), (HOUR, 450_000), (-HOUR, -YEAR), (10_000, HOUR)])
def test_a_clock_that_came_right_unheard_is_no_witness_for_the_next_wrong_one(
    clock: SetClock, skews: ClockSkews, monkeypatch: pytest.MonkeyPatch, before_ms: int, jump_ms: int
) -> None:
    """n2 was wrong when it was heard last, and this node's clock is set before n2's next renewal: all three differ,
    and the median, which counts without the guard, is one of the wrong ones."""
    renew(skews, clock, n1=0, n2=before_ms, n3=0)
    clock.off_ms = jump_ms
    assert skews.time_ms() == clock.right_ms()
    monkeypatch.setattr("node.skew.NEAR_MS", YEAR * 9)
    assert skews.time_ms() == clock.right_ms() + min(before_ms, jump_ms, key=abs)


@pytest.mark.parametrize("jump_ms", [10_000, -10_000])
def test_who_has_heard_nobody_yet_goes_by_what_the_state_says(clock: SetClock, skews: ClockSkews, jump_ms: int) -> None:
    """A node with a wrong clock restarts: its first claims come before the others' next renewals."""
    clock.off_ms = jump_ms
    assert skews.time_ms() == clock.wall_ms()
    skews.caught_up(clock.right_ms() - 1500)
    assert skews.time_ms() == clock.right_ms() - 1500
    clock.off_ms = 0
    assert skews.time_ms() == clock.wall_ms()
    skews.caught_up(None)
    assert skews.time_ms() == clock.wall_ms()


def test_what_the_state_says_is_not_believed_after_an_outage(clock: SetClock, skews: ClockSkews) -> None:
    """Nor does it matter if the clock is wrong: the state machine gives such a session no work."""
    skews.caught_up(clock.right_ms() - MINUTE)
    assert skews.time_ms() == clock.wall_ms()


def test_who_is_alone_has_only_its_own_clock(clock: SetClock, skews: ClockSkews) -> None:
    clock.off_ms = YEAR
    assert skews.time_ms() == clock.wall_ms()
    renew(skews, clock, n1=YEAR)
    assert skews.time_ms() == clock.wall_ms()


def test_a_node_that_is_gone_has_no_vote(clock: SetClock, skews: ClockSkews) -> None:
    renew(skews, clock, n2=HOUR, n3=HOUR, n1=0)
    clock.passed_ms += round(HEARD_FOR_S * 1000)
    renew(skews, clock, n1=0)
    assert skews.time_ms() == clock.wall_ms()


def test_a_wrong_clock_is_told_once_and_when_it_is_right_again(
    clock: SetClock, skews: ClockSkews, caplog: pytest.LogCaptureFixture
) -> None:
    for off_ms in (0, MINUTE, MINUTE, 0, 0):
        clock.off_ms = off_ms
        renew(skews, clock, n1=off_ms, n2=0, n3=0)
    assert [record.getMessage() for record in caplog.records] == [
        "the clock of this node is 60.0 s ahead of the others': set it; until then this node goes by theirs",
        "the clock of this node is right again",
    ]


async def test_a_node_shows_its_skew_and_where_its_state_stands(live: LiveNode) -> None:
    """The answer of GET /v1/cluster has numbers for both, of every node."""

    def renewed() -> int | None:
        with live.snapshot() as snapshot:
            session = snapshot.session("n1")
        return session.applied_index if session is not None and session.applied_index > 0 else None

    assert await live.wait_until(renewed) > 0
    (node,) = (await live.service.cluster()).nodes
    assert node.skew_s == 0.0
    assert b"horae_clock_skew_seconds 0.0" in live.service.metrics_text()[0]


async def test_a_claim_ahead_of_its_time_is_not_shown_as_running(live: LiveNode) -> None:
    draft = JobDraft(name="later", schedule="@every 1s", target=NoopTarget())
    job_id = (await live.service.create_job(draft)).job_id
    await live.wait_for_runs(job_id, (RunState.SUCCEEDED,), 1)

    def held_and_renewed() -> tuple[int, int] | None:
        with live.snapshot() as snapshot:
            session = snapshot.session("n1")
        if session is None or session.renewal == 0 or session.held_ahead == 0:
            return None
        return session.running, session.held_ahead

    running, held = await live.wait_until(held_and_renewed)
    assert running == 0 < held
