"""Command attempts, and looking at the processes that they make."""

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executor import process_marks
from executor.command import CommandExecutor
from executor.interface import Assignment
from executor.owner import Owner
from tests.executor.outputs import KeptOutput

CLUSTER = f"test-{os.getpid()}"
_starts = itertools.count()


def started() -> CommandExecutor:
    """A node's executor, of a start of its own."""
    return CommandExecutor(owner())


def owner(node: str = "n1") -> Owner:
    return Owner(cluster=CLUSTER, node=node, incarnation=str(next(_starts)))


def attempt(*argv: str, args: bytes = b"null", timeout_s: float = 20.0, token: int = 7, **fields: Any) -> Assignment:
    return Assignment(
        run_id="0193f2aa0000-01JD",
        job_id="01JD",
        attempt=2,
        fence_token=token,
        due_at="2026-11-30T01:00:00.000Z",
        target={"type": "command", "argv": list(argv)} | fields,
        args=args,
        timeout_s=timeout_s,
        started_ms=0,
    )


def shell(line: str, **fields: Any) -> Assignment:
    return attempt("/bin/sh", "-c", line, **fields)


async def until(what: str, holds: Callable[[], bool]) -> None:
    """For what the kernel does by itself and nothing tells."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, f"not within 10 s: {what}"
        await asyncio.to_thread(os.sched_yield)


def is_gone(pid: int) -> bool:
    """A zombie that init has not taken yet runs no more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def pids_in(output: KeptOutput) -> list[int]:
    return [int(word) for word in output.data.split() if word.isdigit()]


def marked(matches: Callable[[process_marks.Environment], bool]) -> list[int]:
    """The living processes of this test that match."""
    found = []
    for pid in process_marks._others():
        try:
            environment = process_marks._environment_of(pid)
        except OSError:
            continue
        if environment.get("HORAE_MARK", "").startswith(CLUSTER) and matches(environment) and not is_gone(pid):
            found.append(pid)
    return found
