"""What a container or a command may be asked for: the checks of their targets, in words for whoever wrote the job."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from executor.environment import VARIABLES_MAX, variable_fault

ARGUMENTS_MAX = 128
ARGUMENT_CHARS_MAX = 8192
IMAGE_CHARS_MAX = 512
PATH_CHARS_MAX = 4095
PULLS = ("missing", "always", "never")
CPU_MIN, CPU_MAX = 0.01, 1024
CONTAINER_MEMORY_MB_MIN = 6
"""Docker's own minimum."""
COMMAND_MEMORY_MB_MIN = 16
"""Of address space: no dynamic program starts in less."""
MEMORY_MB_MAX = 16 * 1024 * 1024
CPU_S_MAX = 30 * 24 * 3600
OPEN_FILES_MIN, OPEN_FILES_MAX = 8, 1_000_000

_COMPONENT = r"[a-z0-9]+(?:(?:__|[._]|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9.-]+(?::\d{1,5})?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII
)
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

Fault = tuple[str, str]


def check_container(target: Mapping[str, Any]) -> Iterator[Fault]:
    """The faults of a container target."""
    image = target.get("image")
    if not isinstance(image, str) or not image:
        yield "target.image", "is missing; write an image such as registry.example/report:1.4"
    elif len(image) > IMAGE_CHARS_MAX or not _IMAGE.fullmatch(image):
        yield "target.image", "is no image; write it as [host/]name[:tag][@sha256:…] in lower case, as docker pull does"
    yield from _check_arguments("target.command", target.get("command") or ())
    yield from _check_variables(target.get("env") or {})
    yield from _check_range("target.cpu", target.get("cpu"), CPU_MIN, CPU_MAX, "processors")
    yield from _check_range("target.memory_mb", target.get("memory_mb"), CONTAINER_MEMORY_MB_MIN, MEMORY_MB_MAX, "MiB")
    if target.get("pull", "missing") not in PULLS:
        yield "target.pull", f"must be one of {', '.join(PULLS)}"
    network = target.get("network")
    if network is not None and not (isinstance(network, str) and _NETWORK.fullmatch(network)):
        # Another container's, container:ID, is none of these.
        yield "target.network", "must be none, bridge, host, or the name of a network of the engine"


def check_command(target: Mapping[str, Any]) -> Iterator[Fault]:
    """The faults of a command target."""
    argv = target.get("argv") or ()
    if not argv or not argv[0]:
        yield "target.argv", 'names no program; write a list such as ["/usr/bin/rsync", "-a", "/from", "/to"]'
    yield from _check_arguments("target.argv", argv)
    yield from _check_variables(target.get("env") or {})
    cwd = target.get("cwd")
    if cwd is not None and (not cwd.startswith("/") or "\0" in cwd or len(cwd) > PATH_CHARS_MAX):
        yield "target.cwd", "must be an absolute path, such as /srv/reports"
    yield from _check_range("target.memory_mb", target.get("memory_mb"), COMMAND_MEMORY_MB_MIN, MEMORY_MB_MAX, "MiB")
    yield from _check_range("target.cpu_s", target.get("cpu_s"), 1, CPU_S_MAX, "seconds of processor time")
    yield from _check_range("target.open_files", target.get("open_files"), OPEN_FILES_MIN, OPEN_FILES_MAX, "files")


def _check_arguments(path: str, arguments: Any) -> Iterator[Fault]:
    if isinstance(arguments, str):
        yield path, "must be a list of words"
        return
    if len(arguments) > ARGUMENTS_MAX:
        yield path, f"has more than {ARGUMENTS_MAX} words"
        return
    for number, argument in enumerate(arguments):
        if len(argument) > ARGUMENT_CHARS_MAX:
            yield f"{path}[{number}]", f"is longer than {ARGUMENT_CHARS_MAX} characters"
        elif "\0" in argument:
            yield f"{path}[{number}]", "has a NUL byte in it"


def _check_variables(env: Mapping[str, Any]) -> Iterator[Fault]:
    if len(env) > VARIABLES_MAX:
        yield "target.env", f"has more than {VARIABLES_MAX} variables"
        return
    for name, value in env.items():
        fault = variable_fault(name, value)
        if fault is not None:
            yield f"target.env.{name}", fault


def _check_range(path: str, value: float | None, least: float, most: float, unit: str) -> Iterator[Fault]:
    if value is not None and not (math.isfinite(value) and least <= value <= most):
        yield path, f"must be from {least:g} to {most:,} {unit}"
