from __future__ import annotations

import pytest

from raftlog.config import RaftConfig
from raftlog.envelope import decode
from raftlog.errors import CommandTooLarge, LogOverloaded
from raftlog.interface import Proposal
from raftlog.proposals import LeaderProposals, LocalProposals, Result

CONFIG = RaftConfig()
ROUTE = ("n2", 1, 1)


def proposal(seq: int, *commands: bytes) -> Proposal:
    return Proposal(node="n1", incarnation=3, seq=seq, acknowledged=0, commands=commands or (b"x",))


def name(seq: int) -> tuple[str, int, int]:
    return "n1", 3, seq


def sent(local: LocalProposals, now: float, route: tuple[str, int, int] = ROUTE) -> list[int]:
    return [decode(pending.envelope).seq for pending in local.take_due(now, route)]


def test_a_proposal_is_sent_once_until_it_is_overdue() -> None:
    local = LocalProposals(CONFIG)
    local.add(proposal(1))
    assert sent(local, 10.0) == [1]
    assert sent(local, 10.0 + CONFIG.retry_s - 0.01) == []
    assert sent(local, 10.0 + CONFIG.retry_s) == [1]


@pytest.mark.parametrize("route", [("n3", 1, 1), ("n2", 2, 1), ("n2", 1, 2)])
def test_a_new_route_gets_everything_again(route: tuple[str, int, int]) -> None:
    """Another leader, another term of the same leader, another connection to it."""
    local = LocalProposals(CONFIG)
    local.add(proposal(1))
    local.add(proposal(2))
    assert sent(local, 10.0) == [1, 2]
    assert sent(local, 10.1, route) == [1, 2]
    assert sent(local, 10.2, route) == []


def test_a_result_is_handed_out_once() -> None:
    local = LocalProposals(CONFIG)
    local.add(proposal(1))
    assert local.resolve(name(1), [b"reply"]) == Result(3, 1, [b"reply"])
    assert local.resolve(name(1), [b"reply"]) is None
    assert sent(local, 10.0) == []


def test_a_cancelled_proposal_gives_no_result_and_is_not_sent() -> None:
    local = LocalProposals(CONFIG)
    local.add(proposal(1))
    local.cancel(name(1))
    local.cancel(name(2))
    assert sent(local, 10.0) == []
    assert local.resolve(name(1), [b"reply"]) is None


def test_repeating_a_pending_proposal_does_nothing() -> None:
    local = LocalProposals(CONFIG)
    local.add(proposal(1))
    sent(local, 10.0)
    local.add(proposal(1))
    assert len(local) == 1
    assert sent(local, 10.1) == []


def test_the_limits_are_definite_refusals() -> None:
    local = LocalProposals(CONFIG)
    with pytest.raises(CommandTooLarge):
        local.add(proposal(1, bytes(CONFIG.command_bytes_max + 1)))
    with pytest.raises(CommandTooLarge):
        local.add(proposal(1, *[bytes(1000)] * 300))
    with pytest.raises(CommandTooLarge):
        local.add(proposal(1, *[b""] * (CONFIG.envelope_commands_max + 1)))
    for seq in range(CONFIG.proposals_pending_max):
        local.add(proposal(seq))
    with pytest.raises(LogOverloaded):
        local.add(proposal(9999))
    assert len(local) == CONFIG.proposals_pending_max


def test_the_largest_command_fits() -> None:
    local = LocalProposals(CONFIG)
    local.add(proposal(1, bytes(CONFIG.command_bytes_max)))
    assert len(local) == 1


def test_the_next_deadline_is_the_earliest_retry() -> None:
    local = LocalProposals(CONFIG)
    assert local.next_deadline() == float("inf")
    local.add(proposal(1))
    assert local.next_deadline() == float("-inf"), "it was not sent at all"
    sent(local, 10.0)
    assert local.next_deadline() == 10.0 + CONFIG.retry_s


def test_a_leader_appends_a_name_once() -> None:
    leader = LeaderProposals(CONFIG)
    leader.offer("n2", ("n2", 1, 1), b"envelope")
    leader.offer("n2", ("n2", 1, 1), b"envelope")
    assert leader.take() == [b"envelope"]
    leader.offer("n2", ("n2", 1, 1), b"envelope")
    assert leader.take() == [], "it is in the log and not applied"
    assert leader.applied(("n2", 1, 1)) == "n2"
    leader.offer("n2", ("n2", 1, 1), b"envelope")
    assert leader.take() == [b"envelope"], "its result may be lost: the applier answers again"


def test_a_leader_owes_no_result_for_what_it_did_not_append() -> None:
    assert LeaderProposals(CONFIG).applied(("n2", 1, 1)) is None


def test_what_a_leader_cannot_hold_is_left_to_its_node() -> None:
    leader = LeaderProposals(CONFIG)
    for seq in range(CONFIG.forwarded_waiting_max + 5):
        leader.offer("n2", ("n2", 1, seq), b"%d" % seq)
    assert len(leader.take()) == CONFIG.forwarded_waiting_max
    leader.offer("n2", ("n2", 1, CONFIG.forwarded_waiting_max + 1), b"again")
    assert leader.take() == [b"again"]


def test_everything_is_forgotten_with_the_leadership() -> None:
    leader = LeaderProposals(CONFIG)
    leader.offer("n2", ("n2", 1, 1), b"in the log")
    leader.take()
    leader.offer("n2", ("n2", 1, 2), b"waiting")
    leader.forget()
    assert leader.take() == []
    assert leader.applied(("n2", 1, 1)) is None


def test_a_leader_appends_no_more_in_a_step_than_its_limit_and_forgets_none() -> None:
    config = RaftConfig(appended_bytes_max=1000)
    leader = LeaderProposals(config)
    for seq in range(10):
        leader.offer("n1", name(seq), bytes([seq]) * 400)
    steps = [leader.take() for _ in range(4)]
    assert [len(step) for step in steps] == [3, 3, 3, 1]
    assert not leader.waits
    assert [envelope[0] for step in steps for envelope in step] == list(range(10))
