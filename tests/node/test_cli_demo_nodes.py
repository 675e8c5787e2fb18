"""The demo's processes: watched, restarted, and gone at the end. A process that only waits stands in for a node."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.ports import PORT_FIRST, PORT_LAST
from node.cli_demo_nodes import DemoNode, DemoNodes, _free_ports, tail

WAITS = [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Notes(asyncio.Queue[str]):
    async def next(self) -> str:
        return await asyncio.wait_for(self.get(), 10)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def nodes(tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DemoNodes]:
    monkeypatch.setattr(DemoNodes, "_command", lambda self, one: list(WAITS))
    nodes = DemoNodes(directory=tmp_path, on_change=notes.put_nowait, restart_after_s=0.01)
    await nodes.start()
    yield nodes
    await nodes.stop()


@pytest.mark.cluster
async def test_a_killed_node_comes_back_as_another_process(nodes: DemoNodes, notes: Notes) -> None:
    victim = nodes.nodes[1]
    first_pid = victim.pid
    assert first_pid is not None
    os.kill(first_pid, signal.SIGKILL)
    assert await notes.next() == f"n2 (pid {first_pid}) killed by SIGKILL; it comes back in 0.01 s"
    assert await notes.next() == f"n2 is back as pid {victim.pid}"
    assert victim.pid not in (None, first_pid)
    assert victim.condition == "up"
    assert nodes.fallen() is None


@pytest.mark.cluster
async def test_a_node_that_ends_by_itself_is_shown_with_its_log(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit('cannot bind')"]
    monkeypatch.setattr(DemoNodes, "_command", lambda self, one: list(fails))
    nodes = DemoNodes(directory=tmp_path, on_change=notes.put_nowait, restart_after_s=60)
    await nodes.start()
    await notes.next()
    fallen = nodes.fallen()
    assert fallen is not None
    assert fallen.condition == "ended with 1"
    assert tail(fallen.log) == "cannot bind\n"
    await nodes.stop()


@pytest.mark.cluster
async def test_nothing_is_left_behind(nodes: DemoNodes) -> None:
    pids = [one.pid for one in nodes.nodes if one.pid is not None]
    assert [is_alive(pid) for pid in pids] == [True, True, True]
    await nodes.stop()
    assert [is_alive(pid) for pid in pids] == [False, False, False]


@pytest.mark.cluster
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's death signal is Linux's")
def test_a_demo_that_is_killed_takes_its_nodes_along(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom node.cli_demo_nodes import DemoNodes\n"
        f"DemoNodes._command = lambda self, one: {WAITS!r}\n"
        "async def main():\n"
        f"    nodes = DemoNodes(directory=Path({str(tmp_path)!r}), on_change=print)\n"
        "    await nodes.start()\n"
        "    print(*(one.pid for one in nodes.nodes), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        pids = [int(text) for text in demo.stdout.readline().split()]
        descriptors = [os.pidfd_open(pid) for pid in pids]
        demo.kill()
        demo.wait()
    for descriptor in descriptors:
        ended, _, _ = select.select([descriptor], [], [], 10)
        assert ended, "a node outlived the demo"
        os.close(descriptor)
    assert len(pids) == 3


def test_ports_in_use_are_passed_over(notes: Notes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = _free_ports([taken.getsockname()[1], 1])
    assert len(set(ports)) == 2
    assert all(PORT_FIRST <= port <= PORT_LAST for port in ports)
    assert _free_ports(ports) == ports


def test_every_node_knows_all_of_them(tmp_path: Path) -> None:
    nodes = DemoNodes(directory=tmp_path, on_change=print)
    command = nodes._command(nodes.nodes[2])
    peers = command[command.index("--peers") + 1]
    assert peers == ",".join(f"{one.node}={one.raft}" for one in nodes.nodes)
    assert command[command.index("--node-id") + 1] == "n3"
    assert nodes.addresses.count("http://127.0.0.1:") == 3


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert tail(DemoNode(node="n1", http="", raft="", log=tmp_path / "n1.log").log) == ""
