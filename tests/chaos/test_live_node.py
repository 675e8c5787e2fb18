"""The supervisor of a live node: what ends is noted and started again, unless it is to stay down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bench.local_cluster import NodePlace
from chaos.live_cluster import LiveCluster
from chaos.live_node import RESTART_S, Ended, LiveNode
from node.clock import SystemClock

WAITS = "import signal; signal.pause()"
FAILS = "raise SystemExit(3)"
WAIT_S = 10.0


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[LiveNode]:
    starts: list[bool] = []

    def argv(first: bool) -> list[str]:
        starts.append(first)
        return ["-c", WAITS, str(len(starts)), *(["--bootstrap"] if first else [])]

    made = node_of(tmp_path, argv)
    yield made
    await made.close()


def node_of(root: Path, argv: object) -> LiveNode:
    place = NodePlace(name="n1", http="127.0.0.1:1", raft="127.0.0.1:2", data_dir=root / "n1", log=root / "n1.log")
    clock = SystemClock()
    return LiveNode(place, argv, environment={}, enter=None, now=clock.monotonic)  # type: ignore[arg-type]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110  (no event tells it)
            await asyncio.sleep(0)


async def pid_of(node: LiveNode, *, other_than: int | None = None) -> int:
    await until(lambda: node.pid not in (None, other_than))
    assert node.pid is not None
    return node.pid


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def status_of(pid: int) -> str:
    path = Path(f"/proc/{pid}/status")
    return path.read_text() if path.exists() else ""


@pytest.mark.slow
async def test_what_is_killed_starts_again_and_was_away(node: LiveNode) -> None:
    node.up()
    first = await pid_of(node)
    assert words_of(first)[-1] == "--bootstrap"
    node.kill()
    second = await pid_of(node, other_than=first)
    assert words_of(second)[-1] == "2"
    assert [(end.node, end.code) for end in node.ends] == [("n1", -9)]
    await until(lambda: bool(node.absences))
    [absence] = node.absences
    assert absence.how == "down"
    assert absence.until_s - absence.from_s >= RESTART_S


@pytest.mark.slow
async def test_what_is_to_stay_down_stays_down_until_it_is_wanted(node: LiveNode) -> None:
    node.up()
    first = await pid_of(node)
    node.wanted.clear()
    node.kill()
    assert await node.wait_down()
    assert node.pid is None
    node.up()
    assert await pid_of(node) != first


@pytest.mark.slow
async def test_a_pause_is_an_absence_and_a_node_that_is_told_to_leaves(node: LiveNode) -> None:
    node.up()
    pid = await pid_of(node)
    node.pause()
    await until(lambda: "T (stopped)" in status_of(pid))
    node.resume()
    assert [(one.how, one.process) for one in node.absences] == [("paused", "both")]
    assert await node.stop()
    assert status_of(pid) == ""


@pytest.mark.slow
async def test_samples_say_what_a_process_holds(node: LiveNode) -> None:
    node.up()
    await pid_of(node)
    [sample] = node.samples()
    assert (sample.node, sample.process, sample.threads) == ("n1", "node", 1)
    assert sample.descriptors >= 3
    assert sample.rss_bytes > 1_000_000


def test_a_node_that_ends_by_itself_is_a_finding_unless_a_fault_explains_it(tmp_path: Path) -> None:
    cluster = LiveCluster(
        tmp_path,
        1,
        seed=0,
        isolated=False,
        small_disks=False,
        own_clocks=False,
        monotonic=lambda: 100.0,
        say=lambda line: None,
    )
    node = node_of(tmp_path, lambda first: ["-c", FAILS])
    cluster.nodes["n1"] = node
    node.ends = [Ended(at_s=1.0, node="n1", code=0), Ended(at_s=2.0, node="n1", code=-9)]
    cluster.judge_ends()
    assert cluster.broken == []
    cluster.excuse("n1", 5.0)
    node.ends.append(Ended(at_s=4.0, node="n1", code=1))
    cluster.judge_ends()
    assert cluster.broken == []
    node.ends.append(Ended(at_s=6.0, node="n1", code=1))
    cluster.judge_ends()
    cluster.judge_ends()
    assert len(cluster.broken) == 1
    assert "n1 ended by itself with 1" in cluster.broken[0]
