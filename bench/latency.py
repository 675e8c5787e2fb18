"""B7: how long one write takes when nothing else goes on, from the leader and from a follower, beside what the machine
itself takes for the two things that no commit can do without: a write that is on the disk, and a round trip."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from bench.api import Api
from bench.errors import BenchFailed
from bench.figures import Round, percentile
from bench.jobs import api_time
from node.clock import Clock

WARM_UP = 10
"""Samples that are thrown away: connections are made, caches are filled."""
PAUSE_S = 0.02
"""Between two samples, so that each commit travels alone."""
BLOCK = bytes(4096)
FAR_MS = 365 * 24 * 3600 * 1000
"""The jobs are due in so long: their ticks are no load."""
MESSAGE = b"x" * 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One of each, taken one after another. Milliseconds."""

    leader_ms: float
    follower_ms: float
    fdatasync_ms: float
    round_trip_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """What B7 does in one round: `writes` jobs are created one by one at either node. `directory` is on the disk that
    the nodes write to."""

    directory: Path
    writes: int = 200
    bars: ClassVar[Mapping[str, float]] = {
        "commit from the leader p50 (ms)": 10.0,
        "commit from a follower p50 (ms)": 10.0,
    }

    async def measure(self, api: Api, clock: Clock, label: str) -> Round:
        leader, follower = await _leader_and_follower(api)
        samples: list[Sample] = []
        with Disk(self.directory / f"{label}.probe") as disk, Loopback() as loopback:
            for number in range(WARM_UP + self.writes):
                sample = Sample(
                    fdatasync_ms=await asyncio.to_thread(_took_ms, clock, disk.write),
                    round_trip_ms=await asyncio.to_thread(_took_ms, clock, loopback.round_trip),
                    leader_ms=await _write_ms(api, clock, leader, f"{label}-leader-{number}"),
                    follower_ms=await _write_ms(api, clock, follower, f"{label}-follower-{number}"),
                )
                samples.append(sample)
                await asyncio.sleep(PAUSE_S)
        if (await _leader_and_follower(api))[0] != leader:
            raise BenchFailed("the leader changed while its commits were measured")
        return latency_figures(samples[WARM_UP:])


def latency_figures(samples: Sequence[Sample]) -> Round:
    """The figures of one round."""
    leader = [sample.leader_ms for sample in samples]
    follower = [sample.follower_ms for sample in samples]
    disk_ms = percentile([sample.fdatasync_ms for sample in samples], 0.5)
    trip_ms = percentile([sample.round_trip_ms for sample in samples], 0.5)
    return {
        "commit from the leader p50 (ms)": percentile(leader, 0.5),
        "commit from the leader p99 (ms)": percentile(leader, 0.99),
        "commit from a follower p50 (ms)": percentile(follower, 0.5),
        "commit from a follower p99 (ms)": percentile(follower, 0.99),
        "fdatasync p50 (ms)": disk_ms,
        "loopback round trip p50 (ms)": trip_ms,
        "leader's p50 / (fdatasync + round trip)": percentile(leader, 0.5) / (disk_ms + trip_ms),
        "follower's p50 / (fdatasync + round trip)": percentile(follower, 0.5) / (disk_ms + trip_ms),
    }


async def _leader_and_follower(api: Api) -> tuple[str, str]:
    view = await api.call("GET", "/v1/cluster")
    followers = sorted(node["node"] for node in view["nodes"] if node["node"] != view["leader"])
    if view["leader"] is None or not followers:
        raise BenchFailed("the cluster has no leader with a follower")
    return view["leader"], followers[0]


async def _write_ms(api: Api, clock: Clock, node: str, name: str) -> float:
    """Asked once: a repeat would be another thing than one commit."""
    body = {"name": name, "target": {"type": "noop"}, "run_at": api_time(clock.wall_ms() + FAR_MS)}
    begun = clock.monotonic()
    status, answer = await api.once("POST", "/v1/jobs", node=node, json=body)
    took_ms = (clock.monotonic() - begun) * 1000
    if status != 201:
        raise BenchFailed(f"node {node} answered a create with {status}: {answer}")
    return took_ms


def _took_ms(clock: Clock, act: Callable[[], None]) -> float:
    begun = clock.monotonic()
    act()
    return (clock.monotonic() - begun) * 1000


class Disk(AbstractContextManager["Disk"]):
    """A file of its own that is written to as the log is: appended, and flushed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(self) -> None:
        os.write(self._file, BLOCK)
        os.fdatasync(self._file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._file)
        self._path.unlink()


class Loopback(AbstractContextManager["Loopback"]):
    """A TCP connection to a thread that echoes."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._near = socket.create_connection(server.getsockname())
            self._far, _ = server.accept()
        for one in (self._near, self._far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._echo = threading.Thread(target=self._echo_forever, daemon=True)
        self._echo.start()

    def round_trip(self) -> None:
        self._near.sendall(MESSAGE)
        self._near.recv(len(MESSAGE), socket.MSG_WAITALL)

    def _echo_forever(self) -> None:
        while message := self._far.recv(len(MESSAGE), socket.MSG_WAITALL):
            self._far.sendall(message)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._near.close()
        self._echo.join()
        self._far.close()
