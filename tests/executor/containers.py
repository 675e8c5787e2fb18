"""Container attempts for a real engine, and looking at what is in it."""

import os
from typing import Any

from executor.container import ContainerExecutor
from executor.engine import Engine
from executor.interface import Assignment
from executor.owner import Owner
from tests.docker_engine import IMAGE, ask

CLUSTER = f"test-{os.getpid()}"
OWNER = Owner(cluster=CLUSTER, node="n1", incarnation="a")


def attempt(*command: str, args: bytes = b"null", timeout_s: float = 60.0, token: int = 7, **fields: Any) -> Assignment:
    return Assignment(
        run_id="0193f2aa0000-01JD",
        job_id="01JD",
        attempt=2,
        fence_token=token,
        due_at="2026-11-30T01:00:00.000Z",
        target={"type": "container", "image": IMAGE, "command": list(command), "network": "none"} | fields,
        args=args,
        timeout_s=timeout_s,
        started_ms=0,
    )


def shell(line: str, **fields: Any) -> Assignment:
    return attempt("sh", "-c", line, **fields)


def executor_on(socket: str, owner: Owner = OWNER, **fields: Any) -> ContainerExecutor:
    return ContainerExecutor(Engine(socket), owner, **fields)


def containers(socket: str) -> dict[str, dict[str, Any]]:
    """All that are in the engine, by name."""
    return {one["Names"][0].removeprefix("/"): one for one in ask(socket, "GET", "/containers/json?all=1")}
