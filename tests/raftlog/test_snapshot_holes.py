"""How a copy of the state, and the trimming of the log, could lose entries: tests with a `guard` run again without it,
when they must fail (see test_holes.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from ledger import LEDGER, LedgerApplier
from raftlog_bench import Bench
from raftlog_left_behind import (
    CONFIG,
    ENTRIES,
    all_equal,
    cut_off,
    installed,
    left_behind,
    small_log_bench,
    standing,
    step_round,
    until_chunks_flow,
    until_installed,
    write,
)

from raftlog import guards
from raftlog.core import Core
from raftlog.interface import Role
from raftlog.trimming import Trimming


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three connected nodes that keep ten entries and send copies in tiny chunks."""
    made = small_log_bench(tmp_path)
    yield made
    made.close()


def behind_by_its_commit_index(bench: Bench) -> Any:
    """n2 has entries 3 and 4, and knows that entry 2 is committed; n1 has committed 3. A copy of n1's state is
    returned: it stands at 3."""
    bench.elect("n1")
    cut_off(bench, "n3")
    write(bench, "n1", 1, 1)
    node = bench.nodes["n1"]
    assert node.status.commit_index == 3
    bench.disks["n1"].commit()
    copy = bench.appliers["n1"].copy_state()
    bench.propose("n1", 2)
    bench.step("n1")
    for message in bench.links["n1", "n2"]:
        message["commit_index"] = 2
    bench.deliver("n1", "n2")
    bench.step("n2")
    assert bench.log("n2")[-1] == (4, 1)
    return copy


def send_copy(bench: Bench, copy: Any, *, index: int, target: str = "n2") -> dict[str, Any]:
    """Offer a copy to n2 as n1 would, and send all of it. Returns n2's answer that it needs no more."""
    named = {"term": bench.nodes["n1"].status.term, "snapshot": 9}
    connection = bench.connections["n1", target]
    node = bench.nodes[target]
    node.receive("n1", {"type": "snapshot_offer", "index": index, "index_term": 1} | named, connection=connection)
    for _ in range(4):
        bench.step(target)
    data, position = copy.read(b"", 1 << 20)
    copy.close()
    assert position is None
    content = {"chunk": 0, "data": data, "digest": guards.digest_behind(b"", data)}
    node.receive("n1", {"type": "snapshot_chunk"} | named | content, connection=connection)
    bench.step(target)
    answers = [message for message in bench.links[target, "n1"] if message.get("next_index")]
    assert answers, "it still wants a copy"
    return dict(answers[-1])


def set_back(bench: Bench, name: str) -> None:
    """As if this node had not heard yet that entry 3 is committed."""
    core = bench.nodes[name]._core
    core._SyncObj__raftCommitIndex = core._journal._commit_index = 2


def test_S3_what_was_acknowledged_behind_a_copy_is_kept(bench: Bench, guard: Any) -> None:
    guard.remove(guards, "keeps_log", lambda held_term, term: False)
    copy = behind_by_its_commit_index(bench)
    with guard.verdict():
        set_back(bench, "n2")
        send_copy(bench, copy, index=3)
        assert installed(bench, "n2") == 1
        assert bench.log("n2")[-1] == (4, 1), "acknowledged, and forgotten"
        assert bench.nodes["n2"].status.applied_index >= 3


def test_S3_a_log_without_the_entry_of_the_copy_is_replaced(bench: Bench) -> None:
    """Its entry at that index is of another term: nothing in it was committed that the copy does not hold."""
    copy = behind_by_its_commit_index(bench)
    set_back(bench, "n2")
    bench.nodes["n2"]._journal.add(bench.nodes["n2"]._journal.entry(3)[0], 3, 2)
    send_copy(bench, copy, index=3)
    assert bench.log("n2") == [(3, 1)]
    assert bench.nodes["n2"].status.commit_index == 3


def test_S4_what_follows_a_copy_is_not_acknowledged_by_it(bench: Bench, guard: Any) -> None:
    """Entry 4 may be of a leader that was deposed: only a comparison can tell."""
    guard.remove(guards, "next_index_behind_copy", lambda index, last_index: last_index + 1)
    copy = behind_by_its_commit_index(bench)
    set_back(bench, "n2")
    with guard.verdict():
        answer = send_copy(bench, copy, index=3)
        assert (answer["next_index"], bench.log("n2")[-1][0]) == (4, 4)


@pytest.mark.parametrize("index", [2, 3])
def test_S11_a_copy_that_is_older_than_the_state_is_refused(bench: Bench, guard: Any, index: int) -> None:
    guard.remove(guards, "is_news", lambda index, commit_index: True)
    bench.elect("n1")
    bench.disks["n1"].commit()
    copy = bench.appliers["n1"].copy_state()
    write(bench, "n1", 1, 3)
    bench.run(0.3)
    before = standing(bench, "n2")
    assert before[0] == 5
    with guard.verdict():
        answer = send_copy(bench, copy, index=index)
        assert answer["next_index"] == 6
        assert standing(bench, "n2") == before


def test_trap_4_a_follower_that_gets_a_copy_is_heard_all_the_time(bench: Bench, guard: Any) -> None:
    """n2 is dead, and the copy that n3 gets stands still for seconds. n3 can use no append_entries meanwhile; if it did
    not answer them either, as in the library, the leader would take it for dead and step down."""
    left_behind(bench)
    until_chunks_flow(bench)
    cut_off(bench, "n2")
    before = standing_of_leader(bench)
    guard.remove(Core, "_SyncObj__sendNextNodeIdx", lambda self, node, **answer: None)
    with guard.verdict():
        for _ in range(50):
            bench.now += 0.1
            link = bench.links["n1", "n3"]
            kept = [message for message in link if message["type"] != "snapshot_chunk"]
            link.clear()
            link.extend(kept)
            step_round(bench)
        assert standing_of_leader(bench) == before
        assert not installed(bench)


def standing_of_leader(bench: Bench) -> tuple[Role, int]:
    status = bench.nodes["n1"].status
    return status.role, status.term


def test_trap_6_a_copy_that_is_not_what_was_read_is_never_installed(bench: Bench, guard: Any) -> None:
    """One value in one chunk is another, and everything is well-formed."""
    guard.remove(guards, "is_whole_copy", lambda received, sent: True)
    left_behind(bench)
    until_chunks_flow(bench)
    (message, *_) = [message for message in bench.links["n1", "n3"] if message["type"] == "snapshot_chunk"]
    pairs = msgpack.unpackb(message["data"])
    assert pairs[0][0].startswith(LEDGER)
    message["data"] = msgpack.packb([[pairs[0][0], b"7"], *pairs[1:]])
    with guard.verdict():
        until_installed(bench)
        assert all_equal(bench)
    if not guard.removed:
        assert installed(bench) == 1, "asked for again"


def test_trap_6_a_copy_that_does_not_stand_where_it_should_is_asked_for_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(bench)
    refused: list[int] = []
    install = LedgerApplier.install

    def refuse_once(self: LedgerApplier, transaction: Any, *, index: int) -> bool:
        refused.append(index)
        return len(refused) > 1 and install(self, transaction, index=index)

    monkeypatch.setattr(LedgerApplier, "install", refuse_once)
    until_installed(bench)
    assert len(refused) == 2
    assert all_equal(bench)


def test_a_malformed_chunk_is_dropped_with_what_came_before_it(bench: Bench) -> None:
    left_behind(bench)
    until_chunks_flow(bench)
    next(message for message in bench.links["n1", "n3"] if message["type"] == "snapshot_chunk")["data"] = b"\xc1"
    step_round(bench)
    assert bench.nodes["n3"]._core._snapshots_in._receiving is None
    until_installed(bench)
    assert all_equal(bench)


def test_trap_10_the_log_waits_for_whoever_gets_a_copy(bench: Bench, guard: Any) -> None:
    """Under load: if the log were trimmed past the copy meanwhile, its end would be the beginning of the next one."""
    guard.remove(guards, "held_back", lambda limit, needed_index: limit)
    left_behind(bench)
    with guard.verdict():
        for turn in range(100):
            bench.now += 0.01
            bench.propose("n1", 1000 + turn, acknowledged=1000 + turn)
            bench.propose("n2", 1000 + turn, acknowledged=1000 + turn)
            step_round(bench)
        assert bench.nodes["n3"].status.commit_index > ENTRIES + 100
        assert bench.nodes["n1"]._core.snapshots_out._copies == 1


def test_the_log_does_not_wait_for_ever(bench: Bench) -> None:
    """A follower that takes a copy and goes no further must not fill the disk."""
    left_behind(bench)
    until_chunks_flow(bench)
    for turn in range(CONFIG.log_keep_entries * CONFIG.log_keep_snapshot_times + 40):
        bench.propose("n1", 1000 + turn, acknowledged=1000 + turn)
        for name, source in (("n1", "n2"), ("n2", "n1")):
            bench.deliver(source, name)
            bench.step(name)
    status = bench.nodes["n1"].status
    assert status.last_index - status.first_index <= CONFIG.log_keep_entries * CONFIG.log_keep_snapshot_times + 2


def test_the_log_waits_a_while_for_a_follower_that_answers(bench: Bench, guard: Any) -> None:
    """n3 answers, and is slower than the load: it is served from the log as long as that is not much longer."""
    guard.remove(guards, "held_back", lambda limit, needed_index: limit)
    bench.elect("n1")
    node = bench.nodes["n1"]
    for turn in range(CONFIG.log_keep_entries * CONFIG.log_keep_follower_times - 4):
        bench.propose("n1", 1 + turn, acknowledged=1 + turn)
        for name, source in (("n1", "n2"), ("n2", "n1")):
            bench.deliver(source, name)
            bench.step(name)
    with guard.verdict():
        assert node.status.first_index <= bench.nodes["n3"].status.last_index
        for turn in range(4 * CONFIG.log_keep_entries):
            bench.propose("n1", 100 + turn, acknowledged=100 + turn)
            for name, source in (("n1", "n2"), ("n2", "n1")):
                bench.deliver(source, name)
                bench.step(name)
        assert node.status.first_index > bench.nodes["n3"].status.last_index
        bench.connect("n1", "n3")
        until_installed(bench)
        assert all_equal(bench)


def test_what_a_tick_applies_is_not_trimmed_before_it_is_committed(bench: Bench, guard: Any) -> None:
    """A copy that is begun in the same tick stands at what was committed before, and needs the term of that entry."""
    bench.elect("n1")
    node = bench.nodes["n1"]
    guard.remove(Trimming, "step", lambda self, _, **needs: STEP(self, node._core.applied_index(), **needs))
    cut_off(bench, "n3")
    write(bench, "n1", 1, ENTRIES)
    for seq in range(1000, 1000 + 2 * CONFIG.log_keep_entries):
        bench.propose("n1", seq)
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    bench.deliver("n2", "n1")
    bench.connect("n1", "n3")
    with guard.verdict():
        bench.step("n1")
        assert node._core.snapshots_out._copy is not None
    if not guard.removed:
        until_installed(bench)
        assert all_equal(bench)


STEP = Trimming.step


def test_S5_a_copy_that_ends_before_what_the_leader_had_is_not_enough(bench: Bench) -> None:
    copy = behind_by_its_commit_index(bench)
    bench.crash("n2")
    for file in (bench.root / "n2").iterdir():
        file.unlink()
    bench.start("n2", bootstrap=False)
    bench.connect("n1", "n2")
    bench.now += 0.11
    bench.step("n1")
    bench.deliver("n1", "n2")
    bench.step("n2")
    send_copy(bench, copy, index=3)
    assert installed(bench, "n2") == 1
    assert not bench.nodes["n2"]._core._joining.has_joined(), "entry 4 may have been acknowledged by the lost store"
    bench.connect("n1", "n3")
    bench.run(0.5)
    assert bench.nodes["n2"]._core._joining.has_joined()
