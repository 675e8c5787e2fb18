"""A follower that lacks what the leader has trimmed, and what tests do with the copy of the state that it gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger import LedgerApplier
from raftlog_bench import Bench

from raftlog.config import RaftConfig

ENTRIES = 60
"""Enough that the state takes many chunks and the log keeps few of them."""
CONFIG = RaftConfig(log_keep_entries=10, snapshot_chunk_bytes=20)


def small_log_bench(root: Path, size: int = 3) -> Bench:
    """Connected nodes that keep ten entries and send copies in tiny chunks."""
    made = Bench(root, size, config=CONFIG, make_applier=lambda disk: LedgerApplier(disk.environment))
    made.connect_all()
    return made


def cut_off(bench: Bench, name: str) -> None:
    for other in bench.members:
        if other != name:
            bench.disconnect(name, other)


def connect(bench: Bench, name: str) -> None:
    for other in bench.members:
        if other != name and other in bench.nodes:
            bench.connect(name, other)


def write(bench: Bench, name: str, first: int, count: int) -> None:
    for seq in range(first, first + count):
        bench.propose(name, seq, acknowledged=seq)
        bench.settle()


def left_behind(bench: Bench) -> None:
    """n1 leads and has trimmed its log beyond what n3, back again, has of it."""
    bench.elect("n1")
    cut_off(bench, "n3")
    write(bench, "n1", 1, ENTRIES)
    assert bench.nodes["n1"].status.first_index > bench.nodes["n3"].status.last_index
    connect(bench, "n3")


def step_round(bench: Bench) -> None:
    """Everything under way is delivered, and everybody steps; n1 last, so that what it sends can be looked at."""
    for name in sorted(bench.nodes, reverse=True):
        for source in bench.members:
            bench.deliver(source, name)
        bench.step(name)


def chunks_under_way(bench: Bench, source: str = "n1", target: str = "n3") -> list[int]:
    return [message["chunk"] for message in bench.links[source, target] if message["type"] == "snapshot_chunk"]


def until_chunks_flow(bench: Bench, number: int = 10, target: str = "n3") -> None:
    """Until the copy has come this far."""
    bench.now += 0.2
    for _ in range(100):
        step_round(bench)
        if max(chunks_under_way(bench, target=target), default=-1) >= number:
            return
    raise AssertionError("no chunks")


def installed(bench: Bench, name: str = "n3") -> int:
    return bench.nodes[name].status.snapshots_received


def until_installed(bench: Bench, name: str = "n3", seconds: float = 10.0) -> None:
    end = bench.now + seconds
    while not installed(bench, name):
        assert bench.now < end, "not installed"
        bench.now += 0.05
        step_round(bench)


def standing(bench: Bench, name: str) -> tuple[Any, ...]:
    transaction = bench.disks[name].transaction
    applier = bench.appliers[name]
    content = dict(transaction.cursor(db=applier.database(transaction)))
    return applier.applied_index(transaction), content


def all_equal(bench: Bench) -> bool:
    bench.run(1.0)
    return len({repr(standing(bench, name)) for name in bench.nodes}) == 1
