"""A real cluster to be broken: `horae serve` processes, each in its own network namespace (or all on loopback), with a
target that witnesses, and eyes on all of it from outside."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from bench.local_cluster import ENTRY, NodePlace
from bench.ports import PortBlock
from chaos import live_sink
from chaos.history import LeaderSeen, Sample
from chaos.live_client import open_session
from chaos.live_clock import forget_dead_clocks, libfaketime
from chaos.live_disk import SmallDisk
from chaos.live_network import BridgedNetwork, Cut
from chaos.live_node import LiveNode, before_exec
from chaos.replica_log import Replica, SharedLog

RAFT_LOG_MIB = 1
"""As little as can be: whoever was away for long gets a copy of the state, which is where most can go wrong."""
LOOK_EVERY_S = 0.2
"""How late an applied entry may be noticed: every check of an instant against the log is so lenient."""
STATUS_EVERY_S = 0.3
STATUS_S = 1.0
TRANSFER_S = 10.0
SAMPLE_EVERY_S = 5.0
POLL_EVERY_S = 0.1
HTTP_PORT, RAFT_PORT, SINK_PORT = 8101, 7101, 8080
SINK = "sink"
SINK_STARTS_S = 15.0


class LiveCluster:
    """`isolated`: namespaces, else loopback. `small_disks` and `own_clocks` need root and libfaketime. `entry` is what
    each node process runs: Python that serves with the arguments that follow. Enter it as an async context manager:
    all nodes are started (not necessarily ready); everything is gone when it is left."""

    def __init__(
        self,
        root: Path,
        size: int,
        *,
        seed: int,
        isolated: bool,
        small_disks: bool,
        own_clocks: bool,
        monotonic: Callable[[], float],
        say: Callable[[str], None],
        entry: str = ENTRY,
    ) -> None:
        self.root = root
        self.nodes: dict[str, LiveNode] = {}
        self.disks: dict[str, SmallDisk] = {}
        self.clocks_off: dict[str, float] = {}
        self.shared = SharedLog()
        self.broken: list[str] = []
        self.leaders: list[LeaderSeen] = []
        self.samples: list[Sample] = []
        self.handovers = 0
        """Requests to hand the leadership over after which another led."""
        self.say = say
        self.sink_file = root / "sink.jsonl"
        self.sink_url = ""
        self.node_of_peer: dict[str, str] = {}
        self._names = tuple(f"n{number}" for number in range(1, size + 1))
        self._seed = seed
        self._isolated, self._small_disks, self._own_clocks = isolated, small_disks, own_clocks
        self._monotonic = monotonic
        self._origin_s = monotonic()
        self._entry = entry
        self._network: BridgedNetwork | None = None
        self._replicas: dict[str, Replica] = {}
        self._statuses: dict[str, Mapping[str, Any] | None] = {}
        self._led: dict[int, str] = {}
        self._excused_until_s: dict[str, float] = {}
        self._ends_seen: dict[str, int] = {}
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None

    @property
    def origin_s(self) -> float:
        """The monotonic clock at time 0 of the experiment."""
        return self._origin_s

    def now(self) -> float:
        return self._monotonic() - self._origin_s

    async def __aenter__(self) -> LiveCluster:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        if self._own_clocks:
            self._stack.callback(forget_dead_clocks)
        places = await self._places()
        for name, place in places.items():
            if self._small_disks:
                self.disks[name] = SmallDisk(self.root / f"{name}.img", place.data_dir)
                self._stack.push_async_callback(self.disks[name].close)
                await self.disks[name].open()
        secret = self.root / "secret"
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32))
        await self._start_sink()
        peers = ",".join(f"{place.name}={place.raft}" for place in places.values())
        for name, place in places.items():
            self._add_node(name, place, peers, secret)
        self._session = await self._stack.enter_async_context(open_session())
        for look in (self._watch_logs, self._watch_leaders, self._watch_processes):
            watcher = asyncio.create_task(look())
            watcher.add_done_callback(self._watcher_ended)
            self._stack.push_async_callback(_cancel, watcher)
        for node in self.nodes.values():
            node.up()

    async def _places(self) -> dict[str, NodePlace]:
        if self._isolated:
            self._network = BridgedNetwork((*self._names, SINK))
            self._stack.push_async_callback(self._network.close)
            await self._network.open()
            hosts = self._network.addresses
            http = {name: f"{hosts[name]}:{HTTP_PORT}" for name in self._names}
            raft = {name: f"{hosts[name]}:{RAFT_PORT}" for name in self._names}
            self.node_of_peer = {hosts[name]: name for name in self._names}
            self.sink_url = f"http://{hosts[SINK]}:{SINK_PORT}"
        else:
            ports = PortBlock(2 * len(self._names) + 1)
            self._stack.callback(ports.release)
            http = {name: f"127.0.0.1:{port}" for name, port in zip(self._names, ports.ports[1::2], strict=True)}
            raft = {name: f"127.0.0.1:{port}" for name, port in zip(self._names, ports.ports[2::2], strict=True)}
            self.sink_url = f"http://127.0.0.1:{ports.ports[0]}"
        return {
            name: NodePlace(
                name=name,
                http=http[name],
                raft=raft[name],
                data_dir=self.root / name,
                log=self.root / f"{name}.log",
            )
            for name in self._names
        }

    def _add_node(self, name: str, place: NodePlace, peers: str, secret: Path) -> None:
        def argv(first: bool) -> Sequence[str]:
            return (
                *("-c", self._entry, "serve", "--data-dir", str(place.data_dir), "--node-id", name),
                *("--http", place.http, "--raft", place.raft, "--peers", peers),
                *("--cluster-secret-file", str(secret), "--insecure", "--raft-log-mib", str(RAFT_LOG_MIB)),
                *(("--bootstrap",) if first else ()),
            )

        node = LiveNode(
            place,
            argv,
            environment=self._environment(name),
            enter=None if self._network is None else self._network.entrance(name),
            now=self.now,
        )
        self.nodes[name] = node
        self._replicas[name] = Replica(name, place.data_dir)
        self._stack.callback(self._replicas[name].close)
        self._stack.push_async_callback(node.close)

    def _environment(self, name: str) -> Mapping[str, str]:
        library = libfaketime()
        if not self._own_clocks or library is None:
            return {}
        self.set_clock(name, 0.0)
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock_file(name)),
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    async def _start_sink(self) -> None:
        host, port = self.sink_url.removeprefix("http://").split(":")
        enter = None if self._network is None else self._network.entrance(SINK)
        with (self.root / "sink.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-c", live_sink.ENTRY, host, port, str(self.sink_file), str(self._seed)),
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=before_exec(enter),
            )
        self._stack.push_async_callback(_end, process)
        async with asyncio.timeout(SINK_STARTS_S):
            while not await _listens(host, int(port)):  # noqa: ASYNC110  (no event tells it)
                await asyncio.sleep(POLL_EVERY_S)

    # What nemeses do to it.

    async def cut(self, cuts: Iterable[Cut]) -> None:
        assert self._network is not None
        await self._network.cut(cuts)

    async def mend(self, cuts: Iterable[Cut]) -> None:
        assert self._network is not None
        await self._network.mend(cuts)

    def set_clock(self, name: str, offset_s: float) -> None:
        """Of both processes of a node, within a second."""
        path = self._clock_file(name)
        fresh = path.with_suffix(".fresh")
        fresh.write_text(f"{offset_s:+.3f}\n")
        fresh.replace(path)
        self.clocks_off.pop(name, None)
        if offset_s:
            self.clocks_off[name] = offset_s

    def wipe(self, name: str) -> None:
        """The data directory of a node that is down."""
        self._replicas[name].close()
        for entry in self.nodes[name].place.data_dir.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def excuse(self, name: str, seconds: float) -> None:
        """So long, a node that ends by itself is no finding."""
        self._excused_until_s[name] = max(self._excused_until_s.get(name, 0.0), self.now() + seconds)

    def failed(self, error: BaseException | None) -> None:
        """The harness itself failed: the run proves nothing."""
        self.broken.append(f"the harness failed: {type(error).__name__}: {error}")

    def _watcher_ended(self, watcher: asyncio.Task[None]) -> None:
        if not watcher.cancelled():
            self.failed(watcher.exception())

    # What is seen of it.

    @property
    def leader(self) -> str | None:
        return self.leaders[-1].node if self.leaders else None

    @property
    def agreed(self) -> bool:
        """Whether all nodes answer, and name one leader."""
        named = {None if status is None else status["leader"] for status in self._statuses.values()}
        return len(self._statuses) == len(self.nodes) and len(named) == 1 and None not in named

    def applied(self, name: str) -> int:
        """What the node's state on its disk stands at."""
        reader = self._replicas[name].state()
        if reader is None:
            return 0
        with reader.snapshot() as snapshot:
            return snapshot.applied_index()

    def applied_max(self) -> int:
        return max(self.applied(name) for name in self.nodes)

    def replica(self, name: str) -> Replica:
        return self._replicas[name]

    def look(self) -> None:
        """Read on in every log."""
        for replica in self._replicas.values():
            replica.look(self.shared, self.now())

    async def wait_ready(self, timeout_s: float) -> bool:
        """Until every node says on /readyz that it works."""
        return await self._until(lambda: self._all_say_yes("/readyz"), timeout_s)

    async def wait_answering(self, timeout_s: float) -> bool:
        """Until every node's API is up, whatever it says of the cluster."""
        return await self._until(lambda: self._all_say_yes("/healthz"), timeout_s)

    async def wait_applied(self, name: str, index: int, timeout_s: float) -> bool:
        async def there() -> bool:
            return self.applied(name) >= index

        return await self._until(there, timeout_s)

    async def _until(self, holds: Callable[[], Any], timeout_s: float) -> bool:
        deadline_s = self.now() + timeout_s
        while not await holds():
            if self.now() > deadline_s:
                return False
            await asyncio.sleep(POLL_EVERY_S)
        return True

    async def _all_say_yes(self, path: str) -> bool:
        answers = await asyncio.gather(*(self._ask(name, path) for name in self.nodes))
        return None not in answers

    async def _ask(self, name: str, path: str) -> Mapping[str, Any] | None:
        assert self._session is not None
        try:
            async with asyncio.timeout(STATUS_S), self._session.get(self.nodes[name].place.url + path) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def transfer(self, name: str, to: str | None) -> bool:
        """Ask a node to have the leadership handed over; whether somebody new leads."""
        assert self._session is not None
        url, body = self.nodes[name].place.url + "/v1/cluster:transfer", {} if to is None else {"to": to}
        try:
            async with asyncio.timeout(TRANSFER_S), self._session.post(url, json=body) as response:
                return response.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def _watch_logs(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _watch_leaders(self) -> None:
        while True:
            names = list(self.nodes)
            answers = await asyncio.gather(*(self._ask(name, "/v1/cluster?consistency=local") for name in names))
            self._statuses = dict(zip(names, answers, strict=True))
            self._note_leader([answer for answer in answers if answer is not None])
            await asyncio.sleep(STATUS_EVERY_S)

    def _note_leader(self, answers: Sequence[Mapping[str, Any]]) -> None:
        for answer in answers:
            leader, term = answer["leader"], answer["term"]
            if leader is not None and self._led.setdefault(term, leader) != leader:
                self.broken.append(f"{answer['node']} says that {leader} leads term {term}, not {self._led[term]}")
        term = max((answer["term"] for answer in answers), default=0)
        named = [answer["leader"] for answer in answers if answer["term"] == term]
        known = max(set(named), key=named.count, default=None)
        leader = known if named.count(known) * 2 > len(self.nodes) else None
        if not self.leaders or (self.leaders[-1].node, self.leaders[-1].term) != (leader, term):
            self.leaders.append(LeaderSeen(at_s=self.now(), node=leader, term=term))

    async def _watch_processes(self) -> None:
        while True:
            for node in self.nodes.values():
                self.samples += node.samples()
            for _ in range(round(SAMPLE_EVERY_S / STATUS_EVERY_S)):
                await asyncio.sleep(STATUS_EVERY_S)
                self.judge_ends()

    def judge_ends(self) -> None:
        """A node that ended by itself, of which nothing was the cause that was done to it, is a finding."""
        for name, node in self.nodes.items():
            for end in node.ends[self._ends_seen.get(name, 0) :]:
                if end.code not in (0, -9) and end.at_s > self._excused_until_s.get(name, 0.0):
                    self.broken.append(f"{name} ended by itself with {end.code} at {end.at_s:.1f} s; see its log")
            self._ends_seen[name] = len(node.ends)

    def _clock_file(self, name: str) -> Path:
        return self.root / f"{name}.clock"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
