"""The session keeper: renews, fences, kills, and never trusts an acknowledgement more than it may."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.config import ClusterSettings
from node.sessions import (
    RENEWALS_IN_FLIGHT_MAX,
    Drain,
    Ended,
    KillAll,
    Open,
    Opened,
    OpenFailed,
    Renew,
    Renewed,
    RenewFailed,
    SessionKeeper,
)

CLUSTER = ClusterSettings()


def opened(keeper: SessionKeeper, now_s: float, incarnation: int = 1) -> None:
    """Open a session that was asked for and answered at once."""
    (action,) = keeper.step(now_s)
    assert isinstance(action, Open)
    keeper.step(now_s, [Opened(opening=action.opening, incarnation=incarnation, code="ok")])
    assert keeper.incarnation == incarnation


def test_it_opens_at_once_and_renews_every_renewal_interval() -> None:
    """(apscheduler#864)"""
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 100.0)
    assert keeper.step(100.0 + CLUSTER.renew_every_s - 0.01) == []
    assert keeper.step(100.0 + CLUSTER.renew_every_s) == [Renew(incarnation=1, renewal=1, draining=False)]
    assert keeper.next_step_s(101.5) == 103.0


def test_it_starts_nothing_after_the_fence_and_kills_at_the_kill_instant() -> None:
    """(M17)"""
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    assert keeper.may_start(CLUSTER.fence_s - 0.01)
    assert not keeper.may_start(CLUSTER.fence_s)
    assert not any(isinstance(action, KillAll) for action in keeper.step(CLUSTER.kill_s - 0.01))
    actions = keeper.step(CLUSTER.kill_s)
    assert KillAll(incarnation=1, why="no renewal was acknowledged in time") in actions
    assert keeper.incarnation is None
    assert not keeper.may_start(0.0)


def test_it_opens_the_next_session_only_when_the_killing_is_over() -> None:
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    assert not any(isinstance(action, Open) for action in keeper.step(CLUSTER.kill_s))
    over_s = CLUSTER.kill_s + CLUSTER.kill_time_s
    assert keeper.next_step_s(CLUSTER.kill_s) == over_s
    assert keeper.step(over_s - 0.01) == []
    assert isinstance(keeper.step(over_s)[0], Open)


def test_the_lease_counts_from_the_send_of_the_renewal_not_from_its_answer() -> None:
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    keeper.step(1.5)
    keeper.step(4.0, [Renewed(incarnation=1, renewal=1, code="ok")])
    assert keeper.may_start(1.5 + CLUSTER.fence_s - 0.01)
    assert not keeper.may_start(1.5 + CLUSTER.fence_s)


def test_an_answer_that_comes_after_a_long_pause_does_not_revive_the_session() -> None:
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    keeper.step(1.5)
    actions = keeper.step(31.5, [Renewed(incarnation=1, renewal=1, code="ok")])
    assert isinstance(actions[0], KillAll)
    assert keeper.incarnation is None


def test_an_opening_is_a_lease_from_its_send_too() -> None:
    keeper = SessionKeeper(CLUSTER)
    (action,) = keeper.step(0.0)
    assert isinstance(action, Open)
    keeper.step(30.0, [Opened(opening=action.opening, incarnation=4, code="ok")])
    assert keeper.incarnation is None, "it was open, and lapsed in the same step"


def test_a_refused_renewal_and_an_ended_session_kill_at_once() -> None:
    for event in (Renewed(incarnation=1, renewal=1, code="unknown_session"), Ended(incarnation=1)):
        keeper = SessionKeeper(CLUSTER)
        opened(keeper, 0.0)
        keeper.step(1.5)
        assert isinstance(keeper.step(2.0, [event])[0], KillAll)


def test_what_concerns_an_older_incarnation_is_ignored() -> None:
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0, incarnation=2)
    events = [Ended(incarnation=1), Renewed(incarnation=1, renewal=1, code="unknown_session")]
    assert keeper.step(0.1, events) == []
    assert keeper.incarnation == 2


def test_a_failed_opening_is_tried_again_a_little_later() -> None:
    keeper = SessionKeeper(CLUSTER)
    (first,) = keeper.step(0.0)
    assert isinstance(first, Open)
    assert keeper.step(1.0, [OpenFailed(opening=first.opening)]) == []
    again = keeper.next_step_s(1.0)
    (second,) = keeper.step(again)
    assert isinstance(second, Open) and second.opening != first.opening
    refused = Opened(opening=second.opening, incarnation=3, code="stale_incarnation")
    assert keeper.step(again, [refused]) == []
    assert keeper.incarnation is None
    assert isinstance(keeper.step(again + 1.0)[0], Open)


def test_the_answer_to_an_earlier_opening_opens_nothing() -> None:
    keeper = SessionKeeper(CLUSTER)
    (first,) = keeper.step(0.0)
    assert isinstance(first, Open)
    keeper.step(0.1, [OpenFailed(opening=first.opening)])
    keeper.step(5.0)
    keeper.step(5.1, [Opened(opening=first.opening, incarnation=9, code="ok")])
    assert keeper.incarnation is None


def test_draining_is_said_at_once_and_no_new_session_is_opened_afterwards() -> None:
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    assert keeper.step(0.2, [Drain()]) == [Renew(incarnation=1, renewal=1, draining=True)]
    assert keeper.step(0.3) == []
    assert isinstance(keeper.step(CLUSTER.kill_s)[0], KillAll)
    assert keeper.step(CLUSTER.kill_s + 5) == []


def test_renewals_without_answers_are_bounded_and_their_failure_makes_room() -> None:
    keeper = SessionKeeper(ClusterSettings(session_ttl_s=60.0))
    opened(keeper, 0.0)
    sent = [action for step in range(1, 12) for action in keeper.step(step * 1.5) if isinstance(action, Renew)]
    assert len(sent) == RENEWALS_IN_FLIGHT_MAX
    keeper.step(18.0, [RenewFailed(incarnation=1, renewal=1)])
    assert keeper.renewal == RENEWALS_IN_FLIGHT_MAX + 1


def test_a_node_that_leaves_without_a_session_waits_for_nothing() -> None:
    """The simulator found it (seed 104): a drain while no session is held made the worker's loop spin until its end."""
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    keeper.step(1.0, [Ended(incarnation=1), Drain()])
    keeper.step(5.0)
    assert keeper.next_step_s(5.0) == float("inf")


@given(
    st.lists(
        st.tuples(
            st.floats(0.001, 4.0),
            st.sampled_from(["nothing", "open ok", "open refused", "open failed", "renew ok", "renew failed", "ended"]),
        ),
        max_size=25,
    ),
    st.integers(0, 25),
)
def test_a_step_leaves_nothing_to_do_now(turns: list[tuple[float, str]], drain_at: int) -> None:
    """Otherwise the loop that it belongs to would not sleep."""
    keeper, now_s, opening = SessionKeeper(CLUSTER), 0.0, 0
    for number, (wait_s, what) in enumerate(turns):
        now_s += wait_s
        incarnation = keeper.incarnation or 0
        happened = {
            "open ok": [Opened(opening=opening, incarnation=number + 1, code="ok")],
            "open refused": [Opened(opening=opening, incarnation=number + 1, code="stale_incarnation")],
            "open failed": [OpenFailed(opening=opening)],
            "renew ok": [Renewed(incarnation=incarnation, renewal=keeper.renewal, code="ok")],
            "renew failed": [RenewFailed(incarnation=incarnation, renewal=keeper.renewal)],
            "ended": [Ended(incarnation=incarnation)],
        }
        for action in keeper.step(now_s, [*happened.get(what, []), *([Drain()] if number == drain_at else [])]):
            opening = action.opening if isinstance(action, Open) else opening
        assert keeper.next_step_s(now_s) > now_s


# --- the promise: whatever is delayed, lost or paused, the node has stopped before the leader expires its session ----


@dataclass
class Leader:
    """Applies renewals when they arrive, and expires a TTL (on a clock that runs up to 1 % faster) after the last."""

    seen_s: float
    drift: float
    expired: bool = False

    def may_expire(self, now_s: float) -> bool:
        return (now_s - self.seen_s) * (1 + self.drift) >= CLUSTER.session_ttl_s


@dataclass(order=True)
class Delivery:
    at_s: float
    renewal: int = field(compare=False)
    is_answer: bool = field(compare=False)


delays = st.floats(0.0, 8.0)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.floats(0.01, 3.0), min_size=5, max_size=30),
    there=st.lists(delays, min_size=30, max_size=30),
    back=st.lists(delays, min_size=30, max_size=30),
    lost=st.lists(st.booleans(), min_size=30, max_size=30),
    drift=st.floats(0.0, 0.01),
)
def test_it_never_may_start_once_the_leader_may_have_expired_it(
    steps: list[float], there: list[float], back: list[float], lost: list[bool], drift: float
) -> None:
    keeper = SessionKeeper(CLUSTER)
    opened(keeper, 0.0)
    leader = Leader(seen_s=0.0, drift=drift)
    network: list[Delivery] = []
    now_s = 0.0
    for step_s in steps:
        now_s += step_s
        answers: list[Renewed] = []
        while network and network[0].at_s <= now_s:
            delivery = heapq.heappop(network)
            if delivery.is_answer:
                answers.append(Renewed(incarnation=1, renewal=delivery.renewal, code="ok"))
            elif not leader.may_expire(delivery.at_s):
                leader.seen_s = delivery.at_s
                answer = Delivery(delivery.at_s + back[delivery.renewal], delivery.renewal, is_answer=True)
                heapq.heappush(network, answer)
        # Asked before the step: a start is decided by the clock alone, whatever waits to be taken in.
        if leader.may_expire(now_s):
            assert not keeper.may_start(now_s)
        for action in keeper.step(now_s, answers):
            if isinstance(action, Renew) and not lost[action.renewal]:
                heapq.heappush(network, Delivery(now_s + there[action.renewal], action.renewal, is_answer=False))
        if keeper.incarnation is None:
            return
        assert not (leader.may_expire(now_s) and keeper.may_start(now_s))


@pytest.mark.parametrize(
    "change",
    [
        {"kill_fraction": 1.05},
        {"fence_fraction": 0.95},
        {"renew_every_s": 2.5, "suspect_after_s": 3.0},
        {"suspect_after_s": 1.0},
        {"suspect_after_s": 7.0, "look_ahead_s": 8.0},
        {"look_ahead_s": 1.9},
        {"grant_after_stall_s": 2.5},
        {"look_ahead_max_s": 1.0},
        {"fires_per_s": 0},
    ],
)
def test_settings_that_break_a_relation_are_named(change: dict[str, float]) -> None:
    faults = ClusterSettings(**change).faults()  # type: ignore[arg-type]
    assert faults
    assert any(name in " ".join(faults) for name in change)


def test_the_defaults_hold_every_relation() -> None:
    assert CLUSTER.faults() == []
