"""N24: a node that callers have left without file descriptors neither spins nor dies, and takes callers again."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.node.test_serve import Node, child_of, free_address

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SPARE = 6
"""Descriptors left to the process: enough to work, few enough to be taken."""
CALLERS = 40
QUIET_S = 3
CPU_SHARE_MAX = 0.5
WAIT_S = 10.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, free_address(), free_address())
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def leave_few_descriptors(process_id: int) -> None:
    used = len([*Path(f"/proc/{process_id}/fd").iterdir()])
    _, most = resource.prlimit(process_id, resource.RLIMIT_NOFILE)
    resource.prlimit(process_id, resource.RLIMIT_NOFILE, (used + SPARE, most))


def cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def soon_answered(node: Node, path: str) -> Any:
    """The node may still be closing what its callers have left; until then it sheds new ones."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            return node.call("GET", path)
        except OSError:
            assert time.monotonic() < deadline_s, "it answers nobody any more"


@pytest.mark.parametrize("door", ["api", "raft"])
def test_callers_without_end_cost_neither_the_node_nor_its_cpu(node: Node, door: str) -> None:
    process = node.start_up()
    node.call("POST", "/v1/jobs", {"name": "a", "schedule": "@every 1s", "target": {"type": "noop"}})
    victim = process.pid if door == "api" else child_of(process)
    leave_few_descriptors(victim)
    host, _, port = (node.http if door == "api" else node.raft).rpartition(":")
    with ExitStack() as callers:
        first = callers.enter_context(socket.create_connection((host, int(port)), timeout=QUIET_S))
        for _ in range(CALLERS):
            callers.enter_context(socket.create_connection((host, int(port)), timeout=QUIET_S))
        before_s = cpu_s(victim)
        with pytest.raises(TimeoutError):  # one that was accepted; nobody says anything on it
            first.recv(1)
        assert cpu_s(victim) - before_s < QUIET_S * CPU_SHARE_MAX
        assert process.poll() is None
    assert soon_answered(node, "/readyz")["status"] == "ready"
    runs = node.call("GET", f"/v1/jobs/{node.call('GET', '/v1/jobs')['items'][0]['job_id']}/runs")["items"]
    assert [run for run in runs if run["state"] == "succeeded"], "it has gone on ticking"
