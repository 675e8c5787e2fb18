"""A store that lost what it acknowledged (S5)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from raftlog_bench import Bench

from raftlog.errors import LogOverloaded
from raftlog.interface import Role
from raftlog.joining import Joining
from raftlog.node import RaftNode


def wiped(bench: Bench, name: str) -> None:
    """The node comes back under its old id with an empty disk, as after a replacement without thought."""
    bench.crash(name)
    shutil.rmtree(bench.root / name)
    bench.start(name, bootstrap=False)


def test_S5_a_wiped_node_does_not_elect_a_leader_without_what_it_acknowledged(bench: Bench, guard: Any) -> None:
    """n1 and n2 hold entry 3, acknowledged; n2 is wiped while n1 is away; n3, which never saw entry 3, asks it to
    vote."""
    guard.remove(Joining, "has_joined", lambda self: True)
    bench.elect("n1")
    bench.disconnect("n1", "n3")
    bench.disconnect("n2", "n3")
    bench.propose("n1", 1)
    bench.settle()
    assert [result.seq for result in bench.results["n1"]] == [1]
    bench.crash("n1")
    wiped(bench, "n2")
    bench.connect("n2", "n3")
    with guard.verdict():
        bench.run(5.0)
        assert all(node.status.role is not Role.LEADER for node in bench.nodes.values())
        bench.start("n1")
        bench.connect_all()
        bench.run(5.0)
        assert {name: bench.log(name)[2] for name in bench.members} == dict.fromkeys(bench.members, (3, 1))


def deposed_with_the_lost_store(bench: Bench) -> None:
    """n1 leads, and does not know yet that n2 does, whom n3 had elected: what n2 committed stood on n2, which is down,
    and on the disk of n3, which is empty now and reaches n1 only."""
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n1", "n3")
    bench.elect("n2")
    bench.propose("n2", 1)
    bench.settle()
    assert [result.seq for result in bench.results["n2"]] == [1]
    bench.crash("n2")
    wiped(bench, "n3")
    bench.connect("n1", "n3")


def _counts_from_the_first_word(
    joining: Joining, term: int, leader_last_index: int, seq: int, confirmed_seq: int
) -> None:
    joining._joined = True


@pytest.mark.parametrize("entries", [0, 1])
def test_S5_a_wiped_node_does_not_help_a_leader_that_was_deposed_with_its_help(
    bench: Bench, guard: Any, entries: int
) -> None:
    """Nor by what it acknowledges, nor by confirming to the leader that it leads; also if all that the leader has in
    its log is committed, so that nothing seems to be missing."""
    guard.remove(Joining, "heard", _counts_from_the_first_word)
    deposed_with_the_lost_store(bench)
    with guard.verdict():
        for seq in range(1, entries + 1):
            bench.propose("n1", seq)
        bench.now += 0.2
        bench.settle()
        bench.nodes["n1"].barrier(7)
        bench.propose("n1", entries + 1)
        bench.now += 0.2
        bench.settle()
        assert (bench.results["n1"], bench.barriers["n1"]) == ([], [])
        assert not bench.nodes["n3"]._core._joining.has_joined()
        bench.start("n2")
        bench.connect_all()
        bench.run(5.0)
        assert {name: bench.log(name)[2:4] for name in bench.members} == {
            name: [(3, 2), (4, 2)] for name in bench.members
        }
        assert bench.nodes["n3"]._core._joining.has_joined()


def test_a_wiped_node_votes_again_once_it_has_caught_up(bench: Bench) -> None:
    bench.elect("n1")
    for seq in range(1, 4):
        bench.propose("n1", seq)
        bench.settle()
    wiped(bench, "n3")
    assert not bench.nodes["n3"]._core._joining.has_joined()
    bench.connect_all()
    bench.run(0.5)
    assert bench.nodes["n3"]._core._joining.has_joined()
    bench.crash("n3")
    bench.start("n3", bootstrap=False)
    assert bench.nodes["n3"]._core._joining.has_joined(), "it is durable"
    bench.connect_all()
    bench.crash("n1")
    bench.run(5.0)
    assert {node.status.leader for node in bench.nodes.values()} < {"n2", "n3"}


def test_catching_up_is_to_reach_what_the_leader_had_when_it_was_first_heard(bench: Bench, guard: Any) -> None:
    """An entry of the leader's own term is not enough: this one acknowledged a later one in the same term."""
    guard.remove(Joining, "applied", _joins_with_any_entry_of_the_term)
    bench.elect("n1")
    bench.disconnect("n1", "n2")
    bench.disconnect("n2", "n3")
    for seq in range(1, 4):
        bench.propose("n1", seq)
        bench.settle()
    assert bench.nodes["n1"].status.commit_index == 5
    wiped(bench, "n3")
    bench.connect("n1", "n3")
    bench.now += 0.2
    bench.step("n1")
    (heartbeat,) = bench.deliver("n1", "n3")
    bench.step("n3")
    assert heartbeat["last_index"] == 5
    bench.deliver("n3", "n1")
    bench.step("n1")
    with guard.verdict():
        entries = bench.links["n1", "n3"][0]["entries"]
        message = bench.links["n1", "n3"].popleft()
        for count in (1, 2, 3):
            part = message | {"entries": entries[:count], "confirmed_seq": message["seq"]}
            bench.nodes["n3"].receive("n1", part, connection=bench.connections["n1", "n3"])
            bench.step("n3")
            assert not bench.nodes["n3"]._core._joining.has_joined()
    whole = message | {"confirmed_seq": message["seq"]}
    bench.nodes["n3"].receive("n1", whole, connection=bench.connections["n1", "n3"])
    bench.step("n3")
    assert bench.nodes["n3"]._core._joining.has_joined()


def _joins_with_any_entry_of_the_term(joining: Joining, entry_term: int, index: int) -> None:
    if entry_term == joining._term:
        joining._joined = True


def test_a_wiped_node_uses_no_name_of_its_earlier_life(bench: Bench, guard: Any) -> None:
    """Its disk counted its starts. Counted anew, its proposals would bear names of earlier ones, be dropped as their
    repeats, and answered with their results."""
    guard.remove(RaftNode, "_maybe_take_name", lambda self: setattr(self, "_is_nameless", False))
    bench.elect("n1")
    bench.propose("n3", 1, b"before")
    bench.settle()
    wiped(bench, "n3")
    with pytest.raises(LogOverloaded):
        bench.propose("n3", 1, b"too early")
    with pytest.raises(LogOverloaded):
        bench.nodes["n3"].barrier(1)
    bench.connect_all()
    bench.run(0.5)
    with guard.verdict():
        bench.propose("n3", 1, b"after")
        bench.settle()
        assert [list(result.replies) for result in bench.results["n3"]] == [[b"1"], [b"2"]]
    incarnation = bench.nodes["n3"].incarnation
    bench.crash("n3")
    bench.start("n3", bootstrap=False)
    assert bench.nodes["n3"].incarnation == incarnation + 1, "it is durable"


def test_a_cluster_without_bootstrap_elects_nobody(tmp_path: Path) -> None:
    """Three empty stores may be three lost ones."""
    bench = Bench(tmp_path, bootstrap=False)
    bench.connect_all()
    bench.run(5.0)
    assert {node.status.term for node in bench.nodes.values()} == {0}
    bench.close()
