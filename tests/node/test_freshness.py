"""How old a local read may be is proved by read barriers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from node.config import NodeConfig
from node.freshness import QuorumProbe
from raftlog.errors import LogClosed, LogError, NoQuorum
from raftlog.service import CLIENT_SILENCE_S
from tests.node.test_attempts import Clock


class Log:
    """Each barrier takes a second of the clock."""

    def __init__(self, clock: Clock, *errors: LogError | None) -> None:
        self.clock = clock
        self.errors = list(errors)

    async def read_barrier(self, *, timeout_s: float = 5.0) -> int:
        self.clock.now_s += 1
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return 7


async def test_staleness_counts_from_when_the_barrier_was_asked_for() -> None:
    clock = Clock()
    probe = QuorumProbe(Log(clock), clock, every_s=1.0)  # type: ignore[arg-type]
    assert probe.stale_s == float("inf")
    assert await probe.barrier(5.0) == 7
    assert probe.stale_s == 1.0
    clock.now_s += 3
    assert probe.stale_s == 4.0


async def test_a_barrier_that_failed_proves_nothing() -> None:
    clock = Clock()
    probe = QuorumProbe(Log(clock, None, NoQuorum()), clock, every_s=1.0)  # type: ignore[arg-type]
    await probe.barrier(5.0)
    with pytest.raises(NoQuorum):
        await probe.barrier(5.0)
    assert probe.stale_s == 2.0


async def test_the_probe_goes_on_without_a_majority_and_ends_with_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = Log(clock, NoQuorum("no majority here"), None, LogClosed())
    probe = QuorumProbe(log, clock, every_s=0.0)  # type: ignore[arg-type]
    await probe.run()
    assert log.errors == []
    assert probe.stale_s == 2.0
    assert "no majority here" in caplog.text


async def test_a_node_without_a_majority_is_not_silent_for_so_long_that_it_seems_to_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elected when the majority is back, it would hand over at once (simulator seed 532)."""
    clock, asked_s = Clock(), list[float]()

    class Waiting(Log):
        async def read_barrier(self, *, timeout_s: float = 5.0) -> int:
            asked_s.append(clock.now_s)
            clock.now_s += timeout_s
            return await super().read_barrier(timeout_s=timeout_s)

    async def sleep(seconds: float) -> None:
        clock.now_s += seconds

    monkeypatch.setattr("node.freshness.asyncio.sleep", sleep)
    log = Waiting(clock, *(NoQuorum() for _ in range(5)), LogClosed())
    every_s = NodeConfig(node="n1", http="n1:80", raft="n1:81").quorum_probe_every_s
    await QuorumProbe(log, clock, every_s=every_s).run()  # type: ignore[arg-type]
    gaps_s = [later - earlier - 1 for earlier, later in pairwise(asked_s)]
    assert len(gaps_s) == 5
    assert max(gaps_s) < CLIENT_SILENCE_S
