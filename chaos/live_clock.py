"""The library that gives a live node a wall clock of its own, and what that library leaves behind."""

from __future__ import annotations

import re
from pathlib import Path

FAKETIME = tuple(
    Path("/usr/lib") / place / "libfaketime.so.1"
    for place in ("x86_64-linux-gnu/faketime", "aarch64-linux-gnu/faketime", "faketime")
)
SHARED_MEMORY = Path("/dev/shm")
_ITS_FILE = re.compile(r"(?:sem\.faketime_sem|faketime_shm)_(\d+)")


def libfaketime() -> Path | None:
    """The library that gives a process another wall clock; None if it is not installed."""
    return next((path for path in FAKETIME if path.exists()), None)


def forget_dead_clocks(shared: Path = SHARED_MEMORY, processes: Path = Path("/proc")) -> None:
    """A process that is killed leaves the library's shared memory and semaphore; those of the living are theirs."""
    for path in shared.iterdir():
        its = _ITS_FILE.fullmatch(path.name)
        if its is not None and not (processes / its[1]).exists():
            path.unlink(missing_ok=True)
