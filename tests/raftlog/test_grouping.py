"""Group commit: everything is sent once and in order, within the limits, and what is acknowledged is really settled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from raftlog.config import RaftConfig
from raftlog.envelope import encode
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.grouping import Group, Grouping, Waiting
from raftlog.interface import Lane, Proposal

CONFIG = RaftConfig()


def grouping_with(*commands: bytes, config: RaftConfig = CONFIG) -> Grouping:
    grouping = Grouping(config)
    for command in commands:
        grouping.add(command, None)
    return grouping


def next_of(grouping: Grouping) -> Group:
    group = grouping.next_group(0.0)
    assert group is not None
    return group


def test_what_waits_travels_together_in_order() -> None:
    grouping = grouping_with(b"1", b"2", b"3")
    group = next_of(grouping)
    assert (group.seq, group.acknowledged, group.commands) == (1, 0, [b"1", b"2", b"3"])
    assert grouping.next_group(0.0) is None


def test_a_group_ends_at_the_number_of_commands() -> None:
    config = RaftConfig(envelope_commands_max=2)
    grouping = grouping_with(b"1", b"2", b"3", config=config)
    assert [next_of(grouping).commands, next_of(grouping).commands] == [[b"1", b"2"], [b"3"]]


@given(st.lists(st.integers(0, CONFIG.command_bytes_max), min_size=1, max_size=30))
def test_every_group_fits_an_envelope(sizes: list[int]) -> None:
    grouping = grouping_with(*map(bytes, sizes))
    sent: list[int] = []
    while (group := grouping.next_group(0.0)) is not None:
        largest = 2**63 - 1
        proposal = Proposal(
            node="n" * 63, incarnation=largest, seq=largest, acknowledged=largest, commands=group.commands
        )
        assert len(encode(proposal)) <= CONFIG.envelope_bytes_max
        sent += map(len, group.commands)
        grouping.resolve(group.seq, 0.0)
    assert sent == sizes


def test_only_so_many_are_under_way() -> None:
    config = RaftConfig(proposals_in_flight_max=2, envelope_commands_max=1)
    grouping = grouping_with(b"1", b"2", b"3", config=config)
    first = next_of(grouping)
    next_of(grouping)
    assert grouping.next_group(0.0) is None
    grouping.resolve(first.seq, 0.0)
    assert next_of(grouping).commands == [b"3"]


def test_acknowledged_is_what_stands_below_the_oldest_without_a_result() -> None:
    config = RaftConfig(envelope_commands_max=1)
    grouping = grouping_with(b"1", b"2", b"3", b"4", config=config)
    one, two = next_of(grouping), next_of(grouping)
    grouping.resolve(two.seq, 0.0)
    three = next_of(grouping)
    assert three.acknowledged == 0
    grouping.resolve(one.seq, 0.0)
    assert next_of(grouping).acknowledged == 2


def test_a_command_is_refused_beyond_its_limit() -> None:
    grouping = Grouping(CONFIG)
    grouping.add(bytes(CONFIG.command_bytes_max), None)
    with pytest.raises(CommandTooLarge, match=str(CONFIG.command_bytes_max)):
        grouping.add(bytes(CONFIG.command_bytes_max + 1), None)


def test_too_many_or_too_large_a_crowd_is_refused_until_it_has_moved_on() -> None:
    config = RaftConfig(proposals_waiting_max=2)
    grouping = grouping_with(b"1", b"2", config=config)
    with pytest.raises(LogOverloaded):
        grouping.add(b"3", None)
    next_of(grouping)
    grouping.add(b"3", None)

    large = bytes(CONFIG.command_bytes_max)
    crowd = grouping_with(*[large] * (CONFIG.client_waiting_bytes_max // len(large) + 1))
    with pytest.raises(LogOverloaded):
        crowd.add(b"", None)
    next_of(crowd)
    crowd.add(b"", None)


def test_a_given_up_command_that_was_not_sent_never_is() -> None:
    grouping = Grouping(CONFIG)
    first = grouping.add(b"1", None)
    grouping.add(b"2", None)
    assert grouping.give_up(first) is None
    assert grouping.give_up(first) is None
    assert next_of(grouping).commands == [b"2"]


def test_a_proposal_is_cancelled_when_nobody_waits_for_any_of_it() -> None:
    grouping = Grouping(CONFIG)
    first, second = grouping.add(b"1", None), grouping.add(b"2", None)
    group = next_of(grouping)
    assert grouping.give_up(first) is None
    assert grouping.give_up(second) == group.seq
    assert grouping.resolve(group.seq, 0.0) == ()


def test_giving_up_after_the_result_cancels_nothing() -> None:
    grouping = Grouping(CONFIG)
    waiting = grouping.add(b"1", None)
    grouping.resolve(next_of(grouping).seq, 0.0)
    assert grouping.give_up(waiting) is None


def test_at_the_end_the_sent_are_told_from_the_unsent() -> None:
    config = RaftConfig(proposals_in_flight_max=1, envelope_commands_max=1)
    grouping = grouping_with(b"1", b"2", config=config)
    next_of(grouping)
    unsent, sent = grouping.take_all()
    assert [waiting.command for waiting in sent] == [b"1"]
    assert [waiting.command for waiting in unsent] == [b"2"]
    assert len(grouping) == 0


def test_an_urgent_command_waits_for_nobody_elses() -> None:
    grouping = grouping_with(*[bytes(1024)] * 4_000)
    while grouping.next_group(0.0) is not None:
        pass
    for lane in (Lane.CLIENT, Lane.WORK, Lane.URGENT):
        grouping.add(lane.name.encode(), None, lane)
    assert [next_of(grouping).commands for _ in range(2)] == [[b"URGENT"], [b"WORK"]]
    assert grouping.next_group(0.0) is None


def test_a_crowd_in_one_lane_fills_no_other() -> None:
    config = RaftConfig(proposals_waiting_max=2)
    grouping = grouping_with(b"1", b"2", config=config)
    with pytest.raises(LogOverloaded):
        grouping.add(b"3", None)
    grouping.add(b"4", None, Lane.URGENT)


@pytest.mark.parametrize("lane", [Lane.WORK, Lane.CLIENT])
def test_a_slow_log_gets_less_of_a_lane_at_once_and_a_fast_one_more(lane: Lane) -> None:
    grouping, now_s = (
        Grouping(RaftConfig(proposals_waiting_max=100_000, client_waiting_bytes_max=CONFIG.waiting_bytes_max)),
        0.0,
    )

    def under_way(took_s: float) -> int:
        nonlocal now_s
        for _ in range(1_500):
            grouping.add(bytes(1024), None, lane)
        groups = list(iter(lambda: grouping.next_group(now_s), None))
        now_s += took_s
        for group in groups:
            grouping.resolve(group.seq, now_s)
        return sum(group.size for group in groups)

    slow = [under_way(2.0) for _ in range(20)]
    assert slow == sorted(slow, reverse=True)
    assert CONFIG.lane_bytes_min <= slow[-1] < 2 * CONFIG.lane_bytes_min
    fast = [under_way(0.05) for _ in range(5)]
    assert fast == sorted(fast) and fast[-1] > 2 * slow[-1]


def test_a_command_larger_than_the_window_travels_alone() -> None:
    config = RaftConfig(lane_bytes_max=32 * 1024)
    grouping = grouping_with(bytes(200 * 1024), b"1", config=config)
    group = next_of(grouping)
    assert len(group.commands) == 1
    assert grouping.next_group(0.0) is None
    grouping.resolve(group.seq, 0.0)
    assert next_of(grouping).commands == [b"1"]


class GroupingMachine(RuleBasedStateMachine):
    """Any interleaving: each command is sent at most once, in order; nothing unsettled is ever acknowledged."""

    commands = Bundle("commands")

    def __init__(self) -> None:
        super().__init__()
        self.config = RaftConfig(proposals_in_flight_max=3, envelope_commands_max=2, proposals_waiting_max=5)
        self.grouping = Grouping(self.config)
        self.added = 0
        self.sent: list[int] = []
        self.under_way: dict[int, Group] = {}
        self.open: set[Waiting] = set()

    @rule(target=commands)
    def add(self) -> Waiting | None:
        self.added += 1
        try:
            waiting = self.grouping.add(b"%d" % self.added, None)
        except LogOverloaded:
            return None
        self.open.add(waiting)
        return waiting

    @rule()
    def send(self) -> None:
        group = self.grouping.next_group(0.0)
        if group is None:
            return
        assert all(seq > group.acknowledged for seq in self.under_way)
        assert group.acknowledged == min([*self.under_way, group.seq]) - 1
        self.sent += map(int, group.commands)
        self.under_way[group.seq] = group

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def resolve(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.under_way)))
        group = self.under_way.pop(seq)
        assert self.grouping.resolve(seq, 0.0) == group.members
        self.open -= set(group.members)

    @rule(waiting=commands)
    def give_up(self, waiting: Waiting | None) -> None:
        if waiting is None or waiting not in self.open:
            return
        self.open.discard(waiting)
        cancelled = self.grouping.give_up(waiting)
        if cancelled is not None:
            assert not self.open & set(self.under_way.pop(cancelled).members)

    @invariant()
    def in_order_and_once(self) -> None:
        assert self.sent == sorted(set(self.sent))
        assert len(self.under_way) <= self.config.proposals_in_flight_max
        assert len(self.grouping) == len(self.open)


TestGroupingMachine = GroupingMachine.TestCase
