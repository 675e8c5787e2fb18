"""The processes of a local cluster, with a stand-in for `horae serve` that has a child of its own."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bench.local_cluster
from bench.local_cluster import LocalCluster, NodeDied

STAND_IN = """
import http.server, os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("child", child.pid, sys.argv[1:], flush=True)
def leave(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.kill()
    child.wait()
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
host, port = sys.argv[sys.argv.index("--http") + 1].split(":")
http.server.HTTPServer((host, int(port)), Ready).serve_forever()
"""

ORPHAN_MAKER = """
import subprocess, sys
from bench.local_cluster import death_signal
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], preexec_fn=death_signal())
print(child.pid, flush=True)
child.wait()
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.local_cluster, "ENTRY", STAND_IN)


def child_of(cluster: LocalCluster, name: str) -> int:
    return int(cluster.log_tail(name).split("child ")[-1].split()[0])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.usefixtures("stand_in")
async def test_nodes_are_ready_inside_and_gone_outside(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, size=2) as cluster:
        pids = [cluster.pid(name) for name in cluster.running] + [child_of(cluster, name) for name in cluster.running]
        assert cluster.running == ["n1", "n2"]
        assert all(lives(pid) for pid in pids)
    assert not any(lives(pid) for pid in pids)


@pytest.mark.usefixtures("stand_in")
async def test_only_the_first_start_bootstraps(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, size=1) as cluster:
        assert await cluster.stop("n1") < 5
        assert cluster.running == []
        cluster.start("n1")
        await cluster.wait_ready("n1")
        first, second = (line for line in cluster.log_tail("n1").splitlines() if line.startswith("child"))
    assert ("--bootstrap" in first, "--bootstrap" in second) == (True, False)
    assert f"--peers', 'n1={cluster.places['n1'].raft}'" in first


@pytest.mark.usefixtures("stand_in")
async def test_a_kill_takes_the_whole_group(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, size=1) as cluster:
        child = child_of(cluster, "n1")
        await cluster.kill("n1")
        assert not lives(child)


@pytest.mark.usefixtures("stand_in")
async def test_a_node_that_ended_by_itself_is_told_with_its_log(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, size=1) as cluster:
        os.kill(cluster.pid("n1"), signal.SIGTERM)
        await cluster.stop("n1")
        with pytest.raises(NodeDied, match=r"n1 ended with 0:\nchild"):
            cluster.check_alive("n1")


async def test_a_start_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.local_cluster, "ENTRY", "raise SystemExit('no such disk')")
    with pytest.raises(NodeDied, match="no such disk"):
        async with LocalCluster(tmp_path, size=1):
            pass


def test_nodes_die_with_whoever_started_them() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN_MAKER], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert lives(child)
    descriptor = os.pidfd_open(child)
    with parent:
        parent.kill()
    ended, _, _ = select.select([descriptor], [], [], 5)
    os.close(descriptor)
    assert ended
