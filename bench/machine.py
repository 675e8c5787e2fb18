"""Where a figure was measured: without it a figure says nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def describe_machine(directory: Path) -> dict[str, str]:
    """Machine, cores, commit, and the file system that the nodes write to (`directory`)."""
    return {
        "machine": f"{_processor()} ({platform.machine()}), {platform.system()} {platform.release()}",
        "cores": str(os.cpu_count()),
        "commit": commit_of_build(),
        "horae": version("horae"),
        "python": platform.python_version(),
        "disk": f"{_file_system(directory)}, fsync on",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def commit_of_build() -> str:
    """Of the tree that this file is in; with "-dirty" if it was changed."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def _file_system(directory: Path) -> str:
    """The type of the file system that holds `directory`: on tmpfs an fsync costs nothing, and a reader must know."""
    best, kind = "", "unknown file system"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, this_kind, *_ = line.split()
        if directory.resolve().is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, this_kind
    return kind
