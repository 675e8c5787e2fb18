"""A network namespace for each node on a bridge of this machine (iproute2), and its cables, cut with iptables.

Names carry the harness' process id, so two runs never meet. Nodes are cut off from nodes only: a node that nobody
hears still reaches the targets and its clients, which is what a lease must withstand.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CLONE_NEWNET = 0x4000_0000
NAMESPACES = Path("/run/netns")
NEEDED = ("ip", "iptables", "mount", "mkfs.ext4", "unshare")
PREFIXES = tuple(f"10.{second}.{third}" for second in (201, 202, 203) for third in range(1, 250))
GATEWAY = 254
COMMAND_S = 20.0


class NetworkFailed(Exception):
    """A command of iproute2 or iptables failed; the message is what it said."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Cut:
    """What `source` sends to `target` does not arrive: it is dropped where it leaves or where it would come in, or
    (how="reset") answered with a reset."""

    source: str
    target: str
    at: Literal["source", "target"] = "source"
    how: Literal["drop", "reset"] = "drop"


def both_ways(left: Iterable[str], right: Iterable[str]) -> list[Cut]:
    rights = tuple(right)
    return [cut for a in left for b in rights for cut in (Cut(source=a, target=b), Cut(source=b, target=a))]


def ring_cuts(order: Sequence[str]) -> list[Cut]:
    """Each node reaches only its neighbours: of five every one sees another majority; of three the middle one sees
    all, and the outer ones do not see each other."""
    size = len(order)
    if size <= 3:
        return both_ways(order[:1], order[-1:])
    apart = [(i, j) for i in range(size) for j in range(i + 1, size) if j - i not in (1, size - 1)]
    return [cut for i, j in apart for cut in both_ways([order[i]], [order[j]])]


def rules_of(cuts: Iterable[Cut], addresses: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """(in whose namespace, what follows `iptables -A` or `-D`), one for each way of cutting there."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for cut in sorted(cuts):
        place, chain, far = (
            (cut.source, "OUTPUT", cut.target) if cut.at == "source" else (cut.target, "INPUT", cut.source)
        )
        groups.setdefault((place, chain, cut.how), []).append(addresses[far])
    for (place, chain, how), far_ends in groups.items():
        end = ["-j", "DROP"] if how == "drop" else ["-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"]
        yield place, [chain, "-d" if chain == "OUTPUT" else "-s", ",".join(far_ends), *end]


def missing_tools() -> list[str]:
    """What keeps namespaces from being made here; empty if nothing does."""
    missing = [f"`{tool}` is not installed" for tool in NEEDED if shutil.which(tool) is None]
    if os.geteuid() != 0:
        return ["not root", *missing]
    if (
        not missing
        and subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False).returncode != 0
    ):
        return ["root, but not allowed to make namespaces"]
    return missing


class BridgedNetwork:
    """The stations' namespaces. `open` first; `close` takes everything away, also what was half made."""

    def __init__(self, stations: Sequence[str]) -> None:
        self._stations = tuple(stations)
        self._tag = f"h{os.getpid()}"
        self.addresses: dict[str, str] = {}
        self.cuts: list[Cut] = []

    async def open(self) -> None:
        """Raises NetworkFailed."""
        prefix = await _free_prefix()
        bridge = f"{self._tag}b"
        await command("ip", "link", "add", bridge, "type", "bridge")
        await command("ip", "addr", "add", f"{prefix}.{GATEWAY}/24", "dev", bridge)
        await command("ip", "link", "set", bridge, "up")
        for number, station in enumerate(self._stations, 1):
            self.addresses[station] = f"{prefix}.{number}"
            await self._connect(station, f"{self._tag}v{number}", bridge)

    async def _connect(self, station: str, cable: str, bridge: str) -> None:
        namespace = self.namespace(station)
        await command("ip", "netns", "add", namespace)
        await command("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        await command("ip", "link", "set", cable, "master", bridge, "up")
        await command("ip", "-n", namespace, "addr", "add", f"{self.addresses[station]}/24", "dev", "eth0")
        await command("ip", "-n", namespace, "link", "set", "eth0", "up")
        await command("ip", "-n", namespace, "link", "set", "lo", "up")

    def namespace(self, station: str) -> str:
        return f"{self._tag}-{station}"

    def entrance(self, station: str) -> Callable[[], None]:
        """For a child's preexec_fn: it moves into the station's namespace."""
        library = ctypes.CDLL(None, use_errno=True)
        path = str(NAMESPACES / self.namespace(station))

        def enter() -> None:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if library.setns(descriptor, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {path}")
            os.close(descriptor)

        return enter

    async def cut(self, cuts: Iterable[Cut]) -> None:
        cuts = list(cuts)
        self.cuts += cuts
        for station, rule in rules_of(cuts, self.addresses):
            await self._iptables(station, "-A", rule)

    async def mend(self, cuts: Iterable[Cut]) -> None:
        cuts = list(cuts)
        for cut in cuts:
            self.cuts.remove(cut)
        for station, rule in rules_of(cuts, self.addresses):
            await self._iptables(station, "-D", rule)

    async def close(self) -> None:
        """Only what this run made: by its tag."""
        for station in self._stations:
            if (NAMESPACES / self.namespace(station)).exists():
                await command("ip", "netns", "del", self.namespace(station), check=False)
        await command("ip", "link", "del", f"{self._tag}b", check=False)

    async def _iptables(self, station: str, action: str, rule: Sequence[str]) -> None:
        await command("ip", "netns", "exec", self.namespace(station), "iptables", "-w", action, *rule)


async def command(*words: str, check: bool = True) -> str:
    """Run it; returns what it printed. Raises NetworkFailed if it fails (unless `check` is False) or hangs."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(COMMAND_S):
            printed, complained = await process.communicate()
    except TimeoutError:
        process.kill()
        raise NetworkFailed(f"{' '.join(words)}: not done within {COMMAND_S:g} s") from None
    if check and process.returncode != 0:
        raise NetworkFailed(f"{' '.join(words)}: {complained.decode(errors='replace').strip()}")
    return printed.decode(errors="replace")


async def _free_prefix() -> str:
    taken = await command("ip", "-o", "addr")
    start = os.getpid() % len(PREFIXES)
    for prefix in (*PREFIXES[start:], *PREFIXES[:start]):
        if f" {prefix}." not in taken:
            return prefix
    raise NetworkFailed("no private network is free on this machine")
