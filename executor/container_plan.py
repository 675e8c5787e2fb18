"""One container attempt as plain values: its name, its labels, what the engine is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from executor.admission_processes import check_container
from executor.environment import with_own_variables
from executor.interface import Assignment
from executor.owner import Owner

MIB = 1024 * 1024
NANO = 1_000_000_000
PIDS_MAX = 4096
"""Processes and threads of one container: a fork bomb must not take the node with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerPlan:
    name: str
    image: str
    pull: str
    memory_mb: int | None
    uses_host_network: bool
    given: Mapping[str, str]
    """The job's own variables."""
    body: Mapping[str, Any]
    """Of the engine's call that creates it."""


def plan_container(assignment: Assignment, owner: Owner) -> ContainerPlan:
    """What is asked of the engine. Raises ValueError for a target that admission would refuse."""
    target = assignment.target
    for path, message in check_container(target):
        raise ValueError(f"{path} {message}")
    given = target.get("env") or {}
    environment = with_own_variables(assignment, given)
    return ContainerPlan(
        name=f"horae-{assignment.run_id}-{assignment.fence_token}",
        image=target["image"],
        pull=target.get("pull") or "missing",
        memory_mb=target.get("memory_mb"),
        uses_host_network=target.get("network") == "host",
        given=given,
        body={
            "Image": target["image"],
            "Cmd": list(target.get("command") or ()) or None,
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": _labels(assignment, owner),
            "Tty": False,
            "OpenStdin": False,
            "HostConfig": dict(_host_config(target)),
        },
    )


def _labels(assignment: Assignment, owner: Owner) -> dict[str, str]:
    return owner.labels | {
        "horae.incarnation": owner.incarnation,
        "horae.run_id": assignment.run_id,
        "horae.job_id": assignment.job_id,
        "horae.attempt": str(assignment.attempt),
        "horae.fence_token": str(assignment.fence_token),
    }


def _host_config(target: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "LogConfig", {"Type": "none"}  # what it writes goes to Horae: a second copy would grow without a bound
    yield "RestartPolicy", {"Name": "no"}
    yield "PidsLimit", PIDS_MAX
    if (network := target.get("network")) is not None:
        yield "NetworkMode", network
    if (cpu := target.get("cpu")) is not None:
        yield "NanoCpus", round(cpu * NANO)
    if (memory_mb := target.get("memory_mb")) is not None:
        yield "Memory", memory_mb * MIB
        yield "MemorySwap", memory_mb * MIB  # the sum of both: no swap
