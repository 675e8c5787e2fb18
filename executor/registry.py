"""Which executor runs which kind of target."""

from __future__ import annotations

from executor.command import CommandExecutor
from executor.container import ContainerExecutor
from executor.engine import Engine
from executor.http import HttpExecutor
from executor.interface import Executor
from executor.noop import NoopExecutor
from executor.owner import Owner

NOBODY = Owner(cluster="", node="", incarnation="")
"""For executors of kinds that leave nothing behind."""
_REMEDIES = {
    "command": "this node runs no commands: start it with --allow-commands",
    "container": "this node runs no containers: start it with --docker-socket",
}


def build_executors(
    *,
    allow_link_local: bool = False,
    allow_commands: bool = False,
    docker_socket: str | None = None,
    allow_host_network: bool = False,
    owner: Owner = NOBODY,
) -> dict[str, Executor]:
    """One executor a target type that this node runs. They open nothing before their first run; close each one when
    the node stops. `owner` names the node among all clusters, and this start of it."""
    executors: dict[str, Executor] = {
        "http": HttpExecutor(allow_link_local=allow_link_local),
        "noop": NoopExecutor(),
    }
    if allow_commands:
        executors["command"] = CommandExecutor(owner)
    if docker_socket is not None:
        executors["container"] = ContainerExecutor(Engine(docker_socket), owner, allow_host_network=allow_host_network)
    return executors


def describe_missing(kind: str) -> str:
    """Why a run of a kind that has no executor here failed, and what to do about it."""
    return _REMEDIES.get(kind, f"this node cannot run targets of type {kind}")
