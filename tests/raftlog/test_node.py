"""The way of a proposal through nodes, and what they tell of it."""

from __future__ import annotations

import pytest
from raftlog_bench import Bench, must_raise

from raftlog.config import RaftConfig
from raftlog.envelope import decode, encode
from raftlog.errors import LogBroken, LogOverloaded, MessageRefused
from raftlog.interface import Proposal
from raftlog.node import AppliedEvents, Result


def test_a_leaders_own_proposal_is_answered_when_a_majority_has_it(bench: Bench) -> None:
    bench.elect("n1")
    bench.propose("n1", 1, b"a", b"b")
    assert bench.step("n1").results == []
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    assert bench.step("n1").results == [Result(1, 1, [b"1", b"2"])]


def test_a_followers_proposal_is_answered_by_the_leader_before_it_applies_itself(bench: Bench) -> None:
    """A node that lags must not make its clients wait for its own apply."""
    bench.elect("n1")
    bench.propose("n2", 1)
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.step("n1")
    result = bench.links["n1", "n2"].pop()
    assert result == {"type": "result", "incarnation": 1, "seq": 1, "replies": [b"1"]}
    bench.links["n1", "n2"].clear()
    bench.nodes["n2"].receive("n1", result, connection=bench.connections["n1", "n2"])
    ready = bench.step("n2")
    assert ready.results == [Result(1, 1, [b"1"])]
    assert ready.status.applied_index == 2


def test_a_result_leaves_after_the_leaders_commit(bench: Bench) -> None:
    bench.elect("n1")
    bench.propose("n2", 1)
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    bench.deliver("n2", "n1")
    ready = bench.nodes["n1"].step()
    assert "result" not in [message["type"] for _, message in ready.immediate]
    assert "result" in [message["type"] for _, message in ready.held]


def test_a_result_too_large_for_a_message_comes_from_the_proposers_own_apply(bench: Bench) -> None:
    bench.elect("n1")
    bench.nodes["n1"]._config = RaftConfig(result_bytes_max=0)
    bench.propose("n2", 1)
    bench.settle()
    assert bench.results["n2"] == [Result(1, 1, [b"1"])]


def test_a_proposal_waits_for_a_leader(bench: Bench) -> None:
    bench.propose("n2", 1)
    bench.propose("n1", 1)
    bench.settle()
    assert bench.results["n1"] == bench.results["n2"] == []
    bench.elect("n1")
    bench.settle()
    assert [result.seq for result in bench.results["n1"] + bench.results["n2"]] == [1, 1]


def test_a_proposal_survives_a_change_of_leader_under_its_name(bench: Bench) -> None:
    """n1 appended it and went down; n2 asks the next leader; it takes effect once, wherever the first copy went."""
    bench.elect("n1")
    bench.propose("n2", 1, b"once")
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.crash("n1")
    bench.run(3.0)
    assert bench.results["n2"] == [Result(1, 1, [b"1"])]
    assert {bench.appliers[name].count(bench.disks[name].transaction) for name in ("n2", "n3")} == {1}


def test_a_cancelled_proposal_gives_no_result(bench: Bench) -> None:
    bench.propose("n2", 1)
    bench.nodes["n2"].cancel(incarnation=1, seq=1)
    bench.elect("n1")
    bench.run(1.0)
    assert bench.results["n2"] == []
    assert bench.nodes["n2"].status.proposals_pending == 0


def test_too_many_proposals_are_refused_and_the_node_works_on(bench: Bench) -> None:
    for seq in range(bench.config.proposals_pending_max):
        bench.propose("n2", seq)
    with pytest.raises(LogOverloaded):
        bench.propose("n2", 9999)
    bench.elect("n1")
    bench.settle()
    assert len(bench.results["n2"]) == bench.config.proposals_pending_max


def test_a_proposal_in_another_nodes_name_is_refused(bench: Bench) -> None:
    bench.elect("n1")
    foreign = encode(Proposal(node="n3", incarnation=1, seq=1, acknowledged=0, commands=[b"x"]))
    with pytest.raises(MessageRefused, match="in the name of 'n3'"):
        bench.nodes["n1"].receive(
            "n2", {"type": "propose", "envelope": foreign}, connection=bench.connections["n2", "n1"]
        )
    with must_raise(LogBroken):
        bench.nodes["n1"].propose(decode(foreign))


def test_a_malformed_proposal_never_enters_the_log(bench: Bench) -> None:
    bench.elect("n1")
    with pytest.raises(MessageRefused):
        bench.nodes["n1"].receive(
            "n2", {"type": "propose", "envelope": b"junk"}, connection=bench.connections["n2", "n1"]
        )
    bench.settle()
    assert bench.nodes["n1"].status.last_index == 2


def test_a_name_used_for_another_number_of_commands_gets_no_result(bench: Bench) -> None:
    """The applier answers the first one; nodes must live with it, since it is in the log of all of them."""
    bench.elect("n1")
    bench.propose("n2", 1, b"one")
    bench.settle()
    bench.propose("n2", 1, b"one", b"two")
    bench.run(1.0)
    assert [len(result.replies) for result in bench.results["n2"]] == [1]
    assert len({node.status.applied_index for node in bench.nodes.values()}) == 1


def test_events_come_with_the_entry_that_gave_them_on_every_node(bench: Bench) -> None:
    bench.elect("n1")
    bench.propose("n2", 1, b"event:n3", b"event:", b"silent", b"event:n3")
    bench.settle()
    expected = [AppliedEvents(3, "n3", [b"event:n3", b"event:n3"]), AppliedEvents(3, "*", [b"event:"])]
    assert bench.events == dict.fromkeys(bench.members, expected)
