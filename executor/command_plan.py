"""One command attempt as plain values: the program, its words, its limits, decided without starting anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from executor.admission_processes import check_command
from executor.child_process import ProcessPlan
from executor.environment import with_own_variables
from executor.interface import Assignment
from executor.process_marks import MARK

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for: the same on every node, whatever the node itself was started with. A job's own PATH
goes before it."""
FOLDER = "/"
LIMITER = "prlimit"
"""Of util-linux. Limits that are set from outside, after the start, would leave a moment without them; setting them in
Python between fork and exec would copy the node's memory first (30 ms at 500 MB, against 0.2 ms)."""
MIB = 1024 * 1024


class CannotRun(Exception):
    """The command cannot be started here; the message is for a person."""


def plan_command(assignment: Assignment, mark: str) -> ProcessPlan:
    """What is started. Raises CannotRun, or ValueError for a target that admission would refuse."""
    target = assignment.target
    for path, message in check_command(target):
        raise ValueError(f"{path} {message}")
    environment = {"PATH": PATH, **with_own_variables(assignment, target.get("env") or {}), MARK: mark}
    folder = target.get("cwd") or FOLDER
    if not Path(folder).is_dir():
        raise CannotRun(f"there is no folder {folder} on this node (target.cwd)")
    argv = [_find(target["argv"][0], folder, environment["PATH"]), *target["argv"][1:]]
    return ProcessPlan(argv=[*_limiter(target), *argv], environment=environment, folder=folder)


def _find(name: str, folder: str, path: str) -> str:
    """The program's file. Looked for before the start, so that its absence is not mistaken for a program's answer."""
    found = shutil.which(str(Path(folder) / name)) if "/" in name else shutil.which(name, path=path)
    if found is not None:
        return found
    hint = "; there is no shell: each word of the command is an entry of target.argv" if " " in name else ""
    raise CannotRun(f"there is no program {name} on this node, or it must not be executed{hint}")


def _limiter(target: Mapping[str, Any]) -> list[str]:
    limits = list(_limits(target))
    if not limits:
        return []
    found = shutil.which(LIMITER, path=PATH)
    if found is None:
        raise CannotRun(f"this node has no {LIMITER} (of util-linux), which memory_mb, cpu_s and open_files need")
    return [found, *limits, "--"]


def _limits(target: Mapping[str, Any]) -> Iterator[str]:
    if (memory_mb := target.get("memory_mb")) is not None:
        yield f"--as={memory_mb * MIB}"
    if (cpu_s := target.get("cpu_s")) is not None:
        yield f"--cpu={cpu_s}:{cpu_s + 1}"  # a signal that can be caught, and a second later one that cannot
    if (open_files := target.get("open_files")) is not None:
        yield f"--nofile={open_files}"
