"""The options that say which kinds of targets a node runs; `horae serve` and `horae dev` have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--docker-socket",
        envvar="HORAE_DOCKER_SOCKET",
        show_envvar=True,
        help="Run containers with the Docker Engine there, such as unix:///var/run/docker.sock.",
    ),
    click.option(
        "--allow-host-network",
        envvar="HORAE_ALLOW_HOST_NETWORK",
        show_envvar=True,
        is_flag=True,
        help="Let containers use this machine's own network.",
    ),
    click.option(
        "--allow-commands",
        envvar="HORAE_ALLOW_COMMANDS",
        show_envvar=True,
        is_flag=True,
        help="Run programs of this machine for jobs, as this node's user. Whoever may create jobs can then do here "
        "what that user can.",
    ),
)


def target_options(command: Command) -> Command:
    """Give a command all of them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
