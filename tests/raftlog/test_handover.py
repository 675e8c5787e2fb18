"""The leader hands its office over: at once, to who has everything, and with nothing lost when it comes to nothing."""

from __future__ import annotations

from typing import Any

import pytest
from raftlog_bench import Bench

from raftlog.elections import Elections
from raftlog.handover import Handover
from raftlog.interface import Role
from raftlog.outbox import Outbox


def leader_of(bench: Bench) -> tuple[str, int] | None:
    """Who leads, and in which term; the one of the highest term."""
    leading = [(n.status.term, name) for name, n in bench.nodes.items() if n.status.role is Role.LEADER]
    return (max(leading)[1], max(leading)[0]) if leading else None


def without_the_leaders_wish(outbox: Outbox, node: Any, message: Any) -> bool:
    outbox.put(node.id, message | {"transfer": False} if message["type"] == "request_vote" else message)
    return True


def test_a_follower_leads_at_once(bench: Bench, guard: Any) -> None:
    """The clock stands still: nobody had to lose patience, though everybody hears the leader. Without the word that it
    is the leader's own wish, nobody would vote."""
    guard.remove(Outbox, "send", without_the_leaders_wish)
    _elect_by_patience(bench, "n1")
    bench.nodes["n1"].transfer("n2")
    with guard.verdict():
        bench.settle()
        assert leader_of(bench) == ("n2", 2)
        assert {node.status.leader for node in bench.nodes.values()} == {"n2"}


def _elect_by_patience(bench: Bench, name: str) -> None:
    bench.lose_patience(name)
    bench.settle()
    assert leader_of(bench) == (name, 1)


def test_without_a_name_the_one_that_has_most_of_the_log(bench_of_five: Bench) -> None:
    bench = bench_of_five
    bench.elect("n1")
    for behind in ("n2", "n5"):
        bench.disconnect("n1", behind)
    bench.propose("n1", 1)
    bench.step("n1")
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.deliver("n3", "n1")
    bench.nodes["n1"].transfer()
    assert bench.nodes["n1"]._core._handover.target == "n3"
    bench.settle()
    assert leader_of(bench) == ("n3", 2)


@pytest.mark.parametrize("peer", ["n1", "n9", "n3"], ids=["itself", "a stranger", "out of reach"])
def test_nobody_else_is_asked_in_place_of_the_one_named(bench: Bench, peer: str) -> None:
    bench.elect("n1")
    bench.disconnect("n1", "n3")
    bench.nodes["n1"].transfer(peer)
    assert not bench.nodes["n1"]._core.is_handing_over()


def test_a_silent_follower_is_not_chosen(bench: Bench) -> None:
    bench.elect("n1")
    bench.now += bench.config.election_min_s + 0.01
    for name in ("n1", "n3", "n1"):
        for source in ("n1", "n3"):
            bench.deliver(source, name)
        bench.step(name)
    bench.nodes["n1"].transfer()
    assert bench.nodes["n1"]._core._handover.target == "n3"


def test_a_follower_hands_nothing_over(bench: Bench) -> None:
    bench.elect("n1")
    bench.nodes["n2"].transfer("n3")
    bench.settle()
    assert leader_of(bench) == ("n1", 1)


def test_who_lacks_entries_gets_them_first(bench: Bench, guard: Any) -> None:
    """n2 lacks entry 3, which n3 has: n3 would not vote for it."""
    guard.remove(Elections, "_has_everything", lambda self, peer: True)
    bench.elect("n1")
    bench.propose("n1", 1)
    bench.step("n1")
    entries = bench.links["n1", "n2"].popleft()
    bench.deliver("n1", "n3")
    bench.step("n3")
    bench.nodes["n1"].transfer("n2")
    with guard.verdict():
        bench.step("n1")
        assert [message["type"] for message in bench.links["n1", "n2"]].count("timeout_now") == 0
        bench.links["n1", "n2"].appendleft(entries)
        bench.settle()
        assert leader_of(bench) == ("n2", 2)
        assert bench.log("n2") == bench.log("n1")


def test_a_leader_under_load_appends_nothing_meanwhile(bench: Bench, guard: Any) -> None:
    """Else the follower would be one entry behind for ever. What came in between is appended by the new leader."""
    guard.remove(Elections, "is_handing_over", lambda self: False)
    bench.elect("n1")
    bench.nodes["n1"].transfer("n2")
    with guard.verdict():
        for seq in range(1, 11):
            bench.propose("n1", seq)
            for name in ("n1", "n2", "n3", "n1"):
                bench.step(name)
                for target in bench.members:
                    bench.deliver(name, target, 1)
        bench.settle()
        assert leader_of(bench) == ("n2", 2)
        assert [result.seq for result in bench.results["n1"]] == list(range(1, 11))
        assert bench.log("n2")[2][1] == 2, "nothing of term 1 came after the call"


def test_a_leader_goes_on_if_nobody_takes_over(bench: Bench, guard: Any) -> None:
    """n2 was told and is gone: proposals wait for the shortest election timeout, then all is as before."""
    guard.remove(Handover, "end", lambda self: None)
    bench.elect("n1")
    leader = bench.nodes["n1"]
    leader.transfer("n2")
    bench.step("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n2", "n3")
    bench.propose("n1", 1)
    bench.propose("n3", 1)
    bench.settle()
    assert not bench.results["n1"]
    assert leader.next_deadline() > bench.now, "it waits, and does not spin"
    with guard.verdict():
        bench.run(bench.config.election_min_s + 0.1)
        assert leader_of(bench) == ("n1", 1)
        assert [result.seq for result in bench.results["n1"]] == [1]
        assert [result.seq for result in bench.results["n3"]] == [1]


def test_the_leader_wakes_when_the_handovers_time_is_over(bench: Bench) -> None:
    bench.elect("n1")
    bench.nodes["n1"].transfer("n2")
    bench.step("n1")
    ends_at = bench.now + bench.config.election_min_s
    bench.now = ends_at - 0.01
    bench.step("n1")
    assert bench.now < bench.nodes["n1"].next_deadline() <= ends_at + 0.002


def test_a_second_call_does_not_prolong_the_first(bench: Bench) -> None:
    bench.elect("n1")
    bench.disconnect("n1", "n3")
    bench.nodes["n1"].transfer("n2")
    ends_at = bench.nodes["n1"]._core._handover.ends_at
    bench.now += 0.3
    bench.nodes["n1"].transfer("n2")
    assert bench.nodes["n1"]._core._handover.ends_at == ends_at


def test_a_leader_that_is_deposed_has_nothing_left_to_hand_over(bench: Bench) -> None:
    bench.elect("n1")
    bench.nodes["n1"].transfer("n2")
    with bench.nodes["n1"]._seams:
        bench.nodes["n1"]._core._step_down(7)
    bench.step("n1")
    assert not bench.nodes["n1"]._core.is_handing_over()


@pytest.mark.parametrize(
    ("sender", "term"), [("n3", 1), ("n1", 0), ("n1", 2)], ids=["a follower", "an older term", "a newer term"]
)
def test_only_the_leader_in_office_tells_a_node_to_stand(bench: Bench, guard: Any, sender: str, term: int) -> None:
    guard.remove(Elections, "_on_timeout_now", lambda self, node, message: setattr(self, "_told_to_stand", True))
    bench.elect("n1")
    order = {"type": "timeout_now", "term": term}
    with guard.verdict():
        _receive(bench, "n2", sender, order, unguarded=guard.removed)
        assert bench.step("n2").status.role is Role.FOLLOWER


def _receive(bench: Bench, name: str, sender: str, order: dict[str, Any], *, unguarded: bool) -> None:
    """The handlers are looked up in a table: a replaced method is called by hand."""
    if unguarded:
        core = bench.nodes[name]._core
        core._on_timeout_now(core._known[sender], order)
    else:
        bench.nodes[name].receive(sender, order, connection=bench.connections[sender, name])


def test_an_order_to_stand_is_not_kept(bench: Bench, guard: Any) -> None:
    """n2 reaches nobody when it is told. Were the order kept, it would depose the leader when it is back."""
    guard.remove(Elections, "_has_stood_if_told", lambda self: None)
    bench.elect("n1")
    order = {"type": "timeout_now", "term": 1}
    bench.nodes["n2"].receive("n1", order, connection=bench.connections["n1", "n2"])
    bench.disconnect("n1", "n2")
    bench.disconnect("n2", "n3")
    bench.step("n2")
    with guard.verdict():
        bench.connect("n1", "n2")
        bench.connect("n2", "n3")
        bench.now += 0.2
        bench.settle()
        assert leader_of(bench) == ("n1", 1)


def test_a_heartbeat_behind_the_order_does_not_put_it_off(bench: Bench, guard: Any) -> None:
    guard.remove(Elections, "_stand_if_told", lambda self: None)
    _elect_by_patience(bench, "n1")
    bench.nodes["n1"].transfer("n2")
    bench.step("n1")
    bench.now += 0.2
    bench.step("n1")
    assert [message["type"] for message in bench.links["n1", "n2"]] == ["timeout_now", "append_entries"]
    bench.deliver("n1", "n2")
    with guard.verdict():
        assert bench.step("n2").status.role is Role.CANDIDATE


def test_what_was_acknowledged_before_is_there_after(bench: Bench) -> None:
    bench.elect("n1")
    for seq in range(1, 21):
        bench.propose("n1", seq)
        if seq % 5 == 0:
            (name, _) = leader_of(bench) or ("", 0)
            bench.nodes[name].transfer()
        bench.settle()
    assert [result.seq for result in bench.results["n1"]] == list(range(1, 21))
    assert leader_of(bench) is not None
    assert len(set(bench.digests().values())) == 1
    assert bench.appliers["n1"].count(bench.disks["n1"].transaction) == 20
